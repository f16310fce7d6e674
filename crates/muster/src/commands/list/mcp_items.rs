//! Tools, resources and prompts: what the protocol itself lists.

use muster_client::remote::{self, Remote};
use muster_core::{
    glob::{CaseSensitivity, Glob},
    json::{Raw, RawObject, raw},
};
use serde::Serialize;
use serde_json::Value;

use super::List;
use crate::{
    commands::{gateway_args::GatewaySession, resource_kinds::ResourceKind},
    error::CommandError,
    output::{
        Printer,
        format::{OutputFormat, OutputStyle},
        grid::Grid,
        yaml,
    },
};

/// Something that is listed.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Item {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mime_type: Option<String>,
    /// How many arguments there are, and how many of them must be given.
    #[serde(skip)]
    pub(crate) arguments: (usize, usize),
}

pub(super) async fn list(
    session: &GatewaySession,
    kind: ResourceKind,
    args: &List,
) -> Result<(), CommandError> {
    let (one, many) = words(kind);
    let failed = |err: CommandError| CommandError::new(format!("failed to list {many}: {err}"));
    let mut items = items(&session.remote, kind).await.map_err(failed)?;
    items.retain(|item| fits(item, args));
    items.sort_by(|one, other| key(one).cmp(key(other)));
    let printer = Printer::stdout();
    let OutputStyle { format, headings } = session.style;
    if matches!(format, OutputFormat::Json) {
        return printer.json(&items);
    }
    if matches!(format, OutputFormat::Yaml) {
        return printer.line(&yaml::document(&raw(&items)));
    }
    if items.is_empty() {
        return printer.line(&format!("No {many} found"));
    }
    let grid = grid(kind, &items, format).headed(headings);
    printer.line(&grid.text())?;
    if headings {
        let count = items.len();
        printer.line(&format!("\n{count} {}", if count == 1 { one } else { many }))?;
    }
    Ok(())
}

const fn words(kind: ResourceKind) -> (&'static str, &'static str) {
    match kind {
        ResourceKind::Resource => ("resource", "resources"),
        ResourceKind::Prompt => ("prompt", "prompts"),
        _ => ("tool", "tools"),
    }
}

fn key(item: &Item) -> &str {
    item.uri.as_deref().unwrap_or(&item.name)
}

/// All items of a kind.
pub(crate) async fn items(remote: &Remote, kind: ResourceKind) -> Result<Vec<Item>, CommandError> {
    match kind {
        ResourceKind::Resource => Ok(read(&remote.list(remote::ListKind::Resources).await?)),
        ResourceKind::Prompt => Ok(read(&remote.list(remote::ListKind::Prompts).await?)),
        _ => tools(remote).await,
    }
}

/// The tools that can be called, page by page: the protocol's own list has only meta-tools.
async fn tools(remote: &Remote) -> Result<Vec<Item>, CommandError> {
    let mut all = Vec::new();
    let mut offset = 0;
    loop {
        let mut args = RawObject::new();
        args.set_value("limit", &1000);
        args.set_value("offset", &offset);
        let answer = remote.call("list_tools", &args.to_raw()).await?;
        let text = answer.texts().join("\n");
        if answer.failed {
            return Err(CommandError::new(text));
        }
        let page: Value = serde_json::from_str(&text).unwrap_or_default();
        let items = page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default();
        let items: Vec<Raw> = items.iter().map(raw).collect();
        all.extend(read(&items));
        match page.get("next_offset").and_then(Value::as_u64) {
            Some(next) if next > offset => offset = next,
            Some(_) | None => return Ok(all),
        }
    }
}

fn read(items: &[Raw]) -> Vec<Item> {
    let item = |raw: &Raw| {
        let object = RawObject::parse(raw).unwrap_or_default();
        let arguments: Value = object
            .get("arguments")
            .and_then(|raw| serde_json::from_str(raw.get()).ok())
            .unwrap_or_default();
        let arguments = arguments.as_array().cloned().unwrap_or_default();
        let needed = |argument: &&Value| argument.get("required") == Some(&Value::Bool(true));
        let uri = object.get_text("uri");
        let is_resource = uri.is_some();
        let text = |key: &str| object.get_text(key);
        Item {
            uri,
            name: text("name").unwrap_or_default(),
            description: match text("description") {
                None if !is_resource => Some(String::new()),
                description => description.filter(|text| !is_resource || !text.is_empty()),
            },
            mime_type: text("mimeType"),
            arguments: (arguments.len(), arguments.iter().filter(needed).count()),
        }
    };
    items.iter().map(item).collect()
}

fn fits(item: &Item, args: &List) -> bool {
    let small = |text: &str| text.to_lowercase();
    let described = args.description.as_deref().is_none_or(|wanted| {
        small(item.description.as_deref().unwrap_or_default()).contains(&small(wanted))
    });
    let begins =
        args.server.as_deref().is_none_or(|prefix| small(&item.name).starts_with(&small(prefix)));
    let globbed = args.filter.as_deref().is_none_or(|pattern| {
        Glob::new(pattern, CaseSensitivity::Sensitive).is_ok_and(|glob| glob.matches(&item.name))
    });
    described && begins && globbed
}

fn grid(kind: ResourceKind, items: &[Item], format: OutputFormat) -> Grid {
    let is_wide = format == OutputFormat::Wide;
    let headings: &[&str] = match (kind, is_wide) {
        (ResourceKind::Resource, false) => &["uri", "description", "mime type"],
        (ResourceKind::Resource, true) => &["uri", "name", "description", "mime type"],
        (ResourceKind::Prompt, true) => &["name", "description", "args"],
        (ResourceKind::Tool, true) => &["name", "description", "server", "args"],
        (_, _) => &["name", "description"],
    };
    let mut grid = Grid::new(headings);
    for item in items {
        grid.row(row(kind, item, is_wide));
    }
    grid
}

fn row(kind: ResourceKind, item: &Item, is_wide: bool) -> Vec<String> {
    let longest = match (kind, is_wide) {
        (ResourceKind::Resource, true) => 40,
        (_, true) => 50,
        (_, false) => 60,
    };
    let description = item.description.clone().unwrap_or_default();
    let short = |text: &str| shortened(text, longest);
    let name = item.name.clone();
    if kind == ResourceKind::Resource {
        let uri = item.uri.clone().unwrap_or_default();
        let mime = item.mime_type.clone().unwrap_or_else(|| "-".to_owned());
        if is_wide {
            return vec![uri, name, short(&description), mime];
        }
        let about = if description.is_empty() { name } else { description };
        return vec![uri, short(&about), mime];
    }
    let mut row = vec![name, short(&description)];
    if is_wide && kind == ResourceKind::Prompt {
        row.push(match item.arguments {
            (0, _) => "-".to_owned(),
            (all, 0) => all.to_string(),
            (all, needed) => format!("{all} ({needed} req)"),
        });
    } else if is_wide {
        row.push(server(&item.name).to_owned());
        row.push("-".to_owned());
    }
    row
}

/// One line of at most so many letters, the last three of which say that there was more.
fn shortened(text: &str, longest: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= longest {
        return line;
    }
    let kept: String = line.chars().take(longest.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// Whose tool it is, by its name.
fn server(tool: &str) -> &str {
    tool.split_once('_').map_or("-", |(server, _)| server)
}

#[cfg(test)]
mod tests {
    use super::{server, shortened};

    #[test]
    fn short_lines() {
        assert_eq!(shortened("a\n b", 10), "a b");
        assert_eq!(shortened("äbcdefgh", 6), "äbc...");
        assert_eq!((server("core_x"), server("x_a_b"), server("plain")), ("core", "x", "-"));
    }
}
