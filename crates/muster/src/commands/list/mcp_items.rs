//! Lists tools, resources and prompts by the list methods of MCP.

use muster_client::{
    inventory::{self, PromptInfo, ResourceInfo, ToolInfo},
    remote::{ListKind, error::RemoteError},
};
use muster_core::glob::{CaseSensitivity, Glob};
use serde::Serialize;

use super::List;
use crate::{
    commands::{gateway_args::GatewaySession, resource_kinds::ResourceKind},
    error::CommandError,
    output::{
        self, Printer, next_step,
        table::{self, Column},
    },
};

const TOOLS: &[Column<ToolInfo>] = &[
    Column::new("name", |tool| tool.name.clone()),
    Column::cut("description", 60, |tool| match &tool.unavailable {
        Some(why) => format!("(unavailable, {why}) {}", tool.description),
        None => tool.description.clone(),
    }),
    Column::wide("server", |tool| tool.server.trim_end_matches('/').to_owned()),
    Column::wide("args", |tool| {
        let parameters = tool.parameters();
        let required = parameters.iter().filter(|parameter| parameter.required).count();
        count(parameters.len(), required)
    }),
];

const RESOURCES: &[Column<ResourceInfo>] = &[
    Column::new("uri", |resource| resource.uri.clone()),
    Column::wide("name", |resource| resource.name.clone()),
    Column::cut("description", 60, |resource| {
        let description = resource.description.clone().filter(|text| !text.is_empty());
        description.unwrap_or_else(|| resource.name.clone())
    }),
    Column::new("mime type", |resource| resource.mime_type.clone().unwrap_or_default()),
];

const PROMPTS: &[Column<PromptInfo>] = &[
    Column::new("name", |prompt| prompt.name.clone()),
    Column::cut("description", 60, |prompt| prompt.description.clone().unwrap_or_default()),
    Column::wide("args", |prompt| {
        let required = prompt.arguments.iter().filter(|argument| argument.required).count();
        count(prompt.arguments.len(), required)
    }),
];

/// Formats the number of arguments and how many of them are required.
fn count(all: usize, required: usize) -> String {
    match (all, required) {
        (0, _) => String::new(),
        (all, 0) => all.to_string(),
        (all, required) => format!("{all} ({required} req)"),
    }
}

/// An item as it is printed in JSON and YAML.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Item<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<&'a str>,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
}

fn tool(tool: &ToolInfo) -> Item<'_> {
    named(&tool.name, &tool.description)
}

fn prompt(prompt: &PromptInfo) -> Item<'_> {
    named(&prompt.name, prompt.description.as_deref().unwrap_or_default())
}

const fn named<'a>(name: &'a str, description: &'a str) -> Item<'a> {
    Item { uri: None, name, description: Some(description), mime_type: None }
}

fn resource(resource: &ResourceInfo) -> Item<'_> {
    let ResourceInfo { uri, name, description, mime_type } = resource;
    let description = description.as_deref().filter(|text| !text.is_empty());
    Item { uri: Some(uri), name, description, mime_type: mime_type.as_deref() }
}

pub(super) async fn list(
    session: &GatewaySession,
    kind: ResourceKind,
    args: &List,
) -> Result<(), CommandError> {
    let glob = |pattern: &String| {
        Glob::new(pattern, CaseSensitivity::Sensitive)
            .map_err(|err| CommandError::new(format!("{err} `{pattern}`")))
    };
    let filter = args.filter.as_ref().map(glob).transpose()?;
    let fits = |item: &Item<'_>| fits(item, args, filter.as_ref());
    let remote = &session.remote;
    let failed = |many: &'static str| {
        move |err: RemoteError| CommandError::new(format!("failed to list {many}: {err}"))
    };
    match kind {
        ResourceKind::Resource => {
            let items = inventory::list(remote, ListKind::Resources).await;
            let items = items.map_err(failed("resources"))?;
            print(session, fits, items, RESOURCES, resource, ("resource", "resources"))
        }
        ResourceKind::Prompt => {
            let items = inventory::list(remote, ListKind::Prompts).await;
            let items = items.map_err(failed("prompts"))?;
            print(session, fits, items, PROMPTS, prompt, ("prompt", "prompts"))
        }
        _ => {
            let page = inventory::tools_behind(remote).await.map_err(failed("tools"))?;
            print(session, fits, page.tools, TOOLS, tool, ("tool", "tools"))?;
            for server in page.unavailable.iter().filter(|_| !session.quiet) {
                output::warn(&next_step::unavailable(server));
            }
            Ok(())
        }
    }
}

fn print<T>(
    session: &GatewaySession,
    fits: impl Fn(&Item<'_>) -> bool,
    mut items: Vec<T>,
    columns: &[Column<T>],
    item: for<'a> fn(&'a T) -> Item<'a>,
    (one, many): (&str, &str),
) -> Result<(), CommandError> {
    items.retain(|listed| fits(&item(listed)));
    items.sort_by(|one, other| {
        let key = |listed| {
            let item = item(listed);
            item.uri.unwrap_or(item.name)
        };
        key(one).cmp(key(other))
    });
    let shown: Vec<Item<'_>> = items.iter().map(item).collect();
    Printer::stdout().value(&shown, session.style.format, || {
        if items.is_empty() {
            return format!("No {many} found");
        }
        let table = table::list(columns, &items, session.style);
        match (session.style.headings, items.len()) {
            (false, _) => table,
            (true, 1) => format!("{table}\n\n1 {one}"),
            (true, count) => format!("{table}\n\n{count} {many}"),
        }
    })
}

fn fits(item: &Item<'_>, args: &List, filter: Option<&Glob>) -> bool {
    let lower = |text: &str| text.to_lowercase();
    let described = args
        .description
        .as_deref()
        .is_none_or(|wanted| lower(item.description.unwrap_or_default()).contains(&lower(wanted)));
    let begins =
        args.server.as_deref().is_none_or(|prefix| lower(item.name).starts_with(&lower(prefix)));
    let globbed = filter.is_none_or(|glob| glob.matches(item.name));
    described && begins && globbed
}
