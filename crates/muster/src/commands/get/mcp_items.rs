//! Shows tools, resources and prompts in full.

use muster_client::{
    inventory::{self, PromptArgument, PromptInfo, ResourceInfo},
    remote::{ListKind, error::RemoteError},
};
use serde::Serialize;

use crate::{
    commands::gateway_args::{GatewaySession, refusal},
    error::CommandError,
    output::{Printer, tool_page},
};

pub(super) async fn tool(session: &GatewaySession, name: &str) -> Result<(), CommandError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Tool<'a> {
        name: &'a str,
        description: &'a str,
        input_schema: &'a serde_json::Value,
    }
    let tool = match inventory::describe(&session.remote, name).await {
        Ok(tool) => tool,
        // `describe_tool` reports an error only if the tool does not exist. Its hints have the nearest names.
        Err(RemoteError::Tool { text, .. }) => {
            let error = CommandError::new(format!("tool not found: {name}"));
            return Err(refusal(&text).hints().iter().fold(error, CommandError::hint));
        }
        Err(err) => return Err(CommandError::new(format!("failed to get tool: {err}"))),
    };
    let shown =
        Tool { name: &tool.name, description: &tool.description, input_schema: &tool.schema };
    Printer::stdout().value(&shown, session.style.format, || tool_page::tool(&tool))
}

pub(super) async fn resource(session: &GatewaySession, uri: &str) -> Result<(), CommandError> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Resource {
        uri: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    }
    let resources = inventory::list(&session.remote, ListKind::Resources).await;
    let resources = resources.map_err(|err| failed("resource", &err))?;
    let resource = find("resource", uri, resources, |resource: &ResourceInfo| &resource.uri)?;
    let ResourceInfo { uri, name, description, mime_type } = resource;
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let shown =
        Resource { uri, name, description: filled(description), mime_type: filled(mime_type) };
    Printer::stdout().value(&shown, session.style.format, || {
        let mut lines =
            vec![format!("URI:          {}", shown.uri), format!("Name:         {}", shown.name)];
        lines.extend(shown.description.iter().map(|text| format!("Description:  {text}")));
        lines.extend(shown.mime_type.iter().map(|text| format!("MIME Type:    {text}")));
        lines.join("\n")
    })
}

pub(super) async fn prompt(session: &GatewaySession, name: &str) -> Result<(), CommandError> {
    #[derive(Serialize)]
    struct Prompt<'a> {
        name: &'a str,
        description: &'a str,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        arguments: &'a [PromptArgument],
    }
    let prompts = inventory::list(&session.remote, ListKind::Prompts).await;
    let prompts = prompts.map_err(|err| failed("prompt", &err))?;
    let prompt = find("prompt", name, prompts, |prompt: &PromptInfo| &prompt.name)?;
    let description = prompt.description.as_deref().unwrap_or_default();
    let shown = Prompt { name: &prompt.name, description, arguments: &prompt.arguments };
    Printer::stdout().value(&shown, session.style.format, || tool_page::prompt(&prompt))
}

fn failed(kind: &str, error: &RemoteError) -> CommandError {
    CommandError::new(format!("failed to get {kind}: {error}"))
}

/// Finds an item by its name. The error suggests the nearest name.
fn find<T>(
    kind: &str,
    name: &str,
    items: Vec<T>,
    name_of: fn(&T) -> &String,
) -> Result<T, CommandError> {
    let near = muster_core::suggest::similar(name, items.iter().map(|item| name_of(item).as_str()));
    let error = CommandError::new(format!("{kind} not found: {name}"));
    let error = match near.first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    };
    items.into_iter().find(|item| name_of(item) == name).ok_or(error)
}
