//! Tools, resources and prompts in full.

use muster_client::remote::ListKind;
use muster_core::json::{Raw, RawObject, raw};
use serde_json::{Value, json};

use super::one;
use crate::{
    commands::gateway_args::{GatewaySession, refusal},
    error::CommandError,
    output::{Printer, format::OutputFormat, tool_page, yaml},
};

pub(super) async fn tool(session: &GatewaySession, name: &str) -> Result<(), CommandError> {
    let failed =
        |err: &dyn std::fmt::Display| CommandError::new(format!("failed to get tool: {err}"));
    let answer = session.remote.call("describe_tool", &one("name", name)).await;
    let answer = answer.map_err(|err| failed(&err))?;
    let text = answer.texts().join("\n");
    if answer.failed {
        if text.to_lowercase().contains("not found") {
            return Err(not_found("tool", name, &text));
        }
        return Err(failed(&text));
    }
    let about: Value = serde_json::from_str(&text).map_err(|err| failed(&err))?;
    let page = json!({
        "name": about.get("name"),
        "description": about.get("description"),
        "inputSchema": about.get("inputSchema"),
    });
    print(session, &raw(&page), || tool_page::page(&about))
}

/// What the gateway says beyond that may help: it knows the nearest names.
fn not_found(kind: &str, name: &str, text: &str) -> CommandError {
    let error = CommandError::new(format!("{kind} not found: {name}"));
    refusal(text).hints().iter().fold(error, CommandError::hint)
}

pub(super) async fn resource(session: &GatewaySession, uri: &str) -> Result<(), CommandError> {
    let items = listed(session, ListKind::Resources, "resource").await?;
    let text = |item: &Raw, key: &str| RawObject::parse(item).and_then(|item| item.get_text(key));
    let found = items.iter().find(|item| text(item, "uri").as_deref() == Some(uri));
    let found = found.ok_or_else(|| unknown("resource", uri, &items, "uri"))?;
    let text = |key: &str| text(found, key);
    let mut page = json!({"uri": uri, "name": text("name")});
    let mut lines = vec![
        format!("URI:          {uri}"),
        format!("Name:         {}", text("name").unwrap_or_default()),
    ];
    for (key, label) in [("description", "Description:  "), ("mimeType", "MIME Type:    ")] {
        if let Some(value) = text(key).filter(|value| !value.is_empty()) {
            lines.push(format!("{label}{value}"));
            if let Some(page) = page.as_object_mut() {
                page.insert(key.to_owned(), json!(value));
            }
        }
    }
    print(session, &raw(&page), || lines.join("\n"))
}

pub(super) async fn prompt(session: &GatewaySession, name: &str) -> Result<(), CommandError> {
    let items = listed(session, ListKind::Prompts, "prompt").await?;
    let named = |item: &&Raw| {
        RawObject::parse(item).and_then(|item| item.get_text("name")).as_deref() == Some(name)
    };
    let found = items.iter().find(named);
    let found = found.ok_or_else(|| unknown("prompt", name, &items, "name"))?;
    let about: Value = serde_json::from_str(found.get()).unwrap_or_default();
    let arguments = about.get("arguments").and_then(Value::as_array).cloned().unwrap_or_default();
    let shown: Vec<Value> = arguments
        .iter()
        .map(|argument| {
            json!({
                "name": argument.get("name"),
                "description": argument.get("description").cloned().unwrap_or_else(|| json!("")),
                "required": argument.get("required").cloned().unwrap_or(Value::Bool(false)),
            })
        })
        .collect();
    let description = about.get("description").cloned().unwrap_or_else(|| json!(""));
    let mut page = json!({"name": name, "description": description});
    if let (Some(page), false) = (page.as_object_mut(), shown.is_empty()) {
        page.insert("arguments".to_owned(), json!(shown));
    }
    print(session, &raw(&page), || tool_page::prompt(&page))
}

async fn listed(
    session: &GatewaySession,
    kind: ListKind,
    word: &str,
) -> Result<Vec<Raw>, CommandError> {
    let items = session.remote.list(kind).await;
    items.map_err(|err| CommandError::new(format!("failed to get {word}: {err}")))
}

fn unknown(kind: &str, name: &str, items: &[Raw], key: &str) -> CommandError {
    let names: Vec<String> =
        items.iter().filter_map(|item| RawObject::parse(item)?.get_text(key)).collect();
    let error = CommandError::new(format!("{kind} not found: {name}"));
    let near = muster_core::suggest::similar(name, names.iter().map(String::as_str));
    match near.first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

fn print(
    session: &GatewaySession,
    json: &Raw,
    page: impl FnOnce() -> String,
) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    match session.style.format {
        OutputFormat::Json => {
            let value: Value = serde_json::from_str(json.get()).unwrap_or_default();
            printer.json(&value)
        }
        OutputFormat::Yaml => printer.line(&yaml::document(json)),
        OutputFormat::Table | OutputFormat::Wide => printer.line(&page()),
    }
}
