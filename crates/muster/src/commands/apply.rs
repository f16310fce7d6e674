//! `muster apply`: creates and updates resources from files.

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use clap::Args;
use muster_api::error::ErrorKind;
use muster_config::{mcpserver, workflow};
use muster_core::{json::raw, secret_text::REDACTED};
use serde_json::Value;

use super::{
    gateway_args::{GatewayArgs, GatewaySession, one},
    manifest::{self, Manifest},
    resource_kinds::ResourceKind,
};
use crate::{
    error::CommandError,
    output::{self, Printer, properties},
    process,
};

/// Create or update the resources that files describe
///
/// Takes MCP servers, workflows, service classes and services, several in one file if `---` separates them. Prints what
/// was created, what changed and how. What a file describes replaces what is there: fields that it leaves out get their
/// defaults. Only the description of a service class stays if its file has none. All files are checked before the first
/// change.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster apply -f deploy.yaml
  muster apply -f ./resources --dry-run
  cat deploy.yaml | muster apply -f -")]
pub(crate) struct Apply {
    /// A file, a directory of files, or `-` for standard input (can be repeated)
    #[arg(short, long = "filename", value_name = "FILE|DIR", required = true)]
    files: Vec<PathBuf>,
    /// Print what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Apply) -> Result<ExitCode, CommandError> {
    let manifests = manifest::read(&args.files)?;
    process::block_on_code(async {
        let session = args.gateway.open().await?;
        let mut failed = 0_usize;
        for manifest in &manifests {
            if let Err(error) = apply(&session, manifest, args.dry_run).await {
                failed += 1;
                output::report("Error", &error);
            }
        }
        session.close().await;
        Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

async fn apply(
    session: &GatewaySession,
    manifest: &Manifest,
    dry_run: bool,
) -> Result<(), CommandError> {
    let kind = manifest.kind.as_str();
    let resource = format!("{kind} {}", manifest.name);
    let current = current(session, manifest).await?;
    let cleared = current.as_ref().map(|current| cleared(manifest, current)).unwrap_or_default();
    let difference =
        current.as_ref().map(|current| Difference::of(current, &manifest.shown, &cleared));
    let printer = Printer::stdout();
    let verb = match &difference {
        None => "create",
        Some(found) if found.lines.is_empty() && !found.secrets => {
            return printer.line(&format!("{resource} unchanged"));
        }
        Some(_) if manifest.kind == ResourceKind::Service => {
            let error = format!("{resource} exists with other arguments");
            return Err(CommandError::new(error)
                .hint(format!("delete it first: `muster delete service {}`", manifest.name)));
        }
        Some(_) => "update",
    };
    let tool = format!("core_{kind}_{}", if dry_run { "validate" } else { verb });
    let mut arguments = manifest.arguments.clone();
    if verb == "update" && manifest.kind == ResourceKind::McpServer && !dry_run {
        arguments.insert("reset".to_owned(), cleared.into());
    }
    if dry_run {
        arguments.retain(|key, _| key != "persist" && (key != "autoStart" || kind != "service"));
    }
    let reply = session.call(&tool, &raw(&arguments)).await.map_err(|error| {
        error.hint(format!("{resource} was not applied; the resources before it were"))
    })?;
    let done = match (verb, dry_run) {
        ("create", false) => "created",
        ("create", true) => "would be created",
        (_, false) => "updated",
        (_, true) => "would be updated",
    };
    let mut page = vec![format!("{resource} {done}")];
    if let Some(found) = difference {
        page.extend(found.lines);
        if found.secrets {
            page.push("  (secrets are sent again; they are not compared)".to_owned());
        }
    }
    // Print what the gateway adds to its confirmation, such as missing tools.
    let texts = reply.texts().join("\n");
    let more = texts.lines().skip(1).filter(|_| kind != "service");
    page.extend(more.map(|line| format!("  {}", line.replace("filter_tools", "`muster search`"))));
    printer.line(&page.join("\n"))
}

/// The fields that the gateway's resource has and the file omits.
fn cleared(manifest: &Manifest, current: &Value) -> Vec<String> {
    let fields: Vec<&str> = match manifest.kind {
        ResourceKind::McpServer => mcpserver::SPEC.names().collect(),
        ResourceKind::Workflow => workflow::FORMAT.spec.names().collect(),
        ResourceKind::ServiceClass => vec!["args"],
        _ => Vec::new(),
    };
    let is_left_out = |field: &&str| {
        current.get(field).is_some() && manifest.shown.get(field).is_none_or(Value::is_null)
    };
    fields.into_iter().filter(is_left_out).map(str::to_owned).collect()
}

/// Fetches the gateway's version of a resource; `None` if it does not exist.
async fn current(
    session: &GatewaySession,
    manifest: &Manifest,
) -> Result<Option<Value>, CommandError> {
    let tool = format!("core_{}_get", manifest.kind.as_str());
    let response = session.request(&tool, &one("name", &manifest.name)).await?;
    if response.failed {
        return match response.error_kind() {
            Some(ErrorKind::NotFound) => Ok(None),
            Some(ErrorKind::Other) | None => Err(session.failure(&tool, &response)),
        };
    }
    let mut value: Value =
        serde_json::from_str(response.texts().first().copied().unwrap_or_default())
            .map_err(|err| CommandError::new(format!("cannot read the reply of {tool}: {err}")))?;
    if manifest.kind == ResourceKind::Workflow {
        value = value.get_mut("workflow").map(Value::take).unwrap_or_default();
    }
    Ok(Some(value))
}

/// The difference between a file and the gateway's version of a resource.
struct Difference {
    lines: Vec<String>,
    /// Whether the resource has secrets. They are not compared, because the gateway does not show them.
    secrets: bool,
}

impl Difference {
    fn of(current: &Value, wanted: &Value, cleared: &[String]) -> Self {
        let rows = |value: &Value| properties::rows(value).into_iter().collect::<BTreeMap<_, _>>();
        let top = |key: &str| key.split('.').next().unwrap_or_default().to_owned();
        let ignored = ["available", "createdAt", "lastModified", "name"];
        let wanted = rows(wanted);
        let mut current = rows(current);
        current.retain(|key, _| {
            wanted.keys().any(|known| top(known) == top(key)) || cleared.contains(&top(key))
        });
        let keys: std::collections::BTreeSet<&String> =
            current.keys().chain(wanted.keys()).collect();
        let mut found = Self { lines: Vec::new(), secrets: false };
        for key in keys {
            if ignored.contains(&top(key).as_str()) {
                continue;
            }
            let (was, is) = (present(current.get(key)), present(wanted.get(key)));
            found.secrets |= is.is_some_and(|value| value.contains(REDACTED));
            match (was, is) {
                (was, is) if was == is => (),
                (None, Some(is)) => found.lines.push(format!("  + {key}: {is}")),
                (Some(was), None) => found.lines.push(format!("  - {key}: {was}")),
                (Some(was), Some(is)) => found.lines.push(format!("  ~ {key}: {was} → {is}")),
                (None, None) => (),
            }
        }
        found
    }
}

/// A value, unless it is a default that replies show and files may omit.
fn present(value: Option<&String>) -> Option<&str> {
    value
        .map(String::as_str)
        .filter(|value| !["", "0", "false", "null", "{}", "[]"].contains(value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Difference;

    #[test]
    fn only_what_differs_is_shown() {
        let current = json!({"name": "a", "type": "stdio", "command": "x", "args": ["1", "2"],
            "state": "Running", "timeout": 0, "env": {"TOKEN": "[REDACTED]", "A": "1"}});
        let wanted = json!({"type": "stdio", "command": "y", "args": ["1"], "autoStart": false,
            "env": {"TOKEN": "[REDACTED]", "B": "2"}});
        let found = Difference::of(&current, &wanted, &[]);
        assert_eq!(
            found.lines,
            ["  ~ args: 1, 2 → 1", "  ~ command: x → y", "  - env.A: 1", "  + env.B: 2"]
        );
        assert!(found.secrets);
        let same = Difference::of(&current, &json!({"type": "stdio", "command": "x"}), &[]);
        assert!(same.lines.is_empty() && !same.secrets, "{:?}", same.lines);
        let cleared = ["args".to_owned(), "timeout".to_owned()];
        let less = Difference::of(&current, &json!({"type": "stdio", "command": "x"}), &cleared);
        assert_eq!(less.lines, ["  - args: 1, 2"]);
    }
}
