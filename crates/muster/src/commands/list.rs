//! `muster list`: lists the resources of one type.

pub(super) mod mcp_items;
pub(super) mod names;

use std::process::ExitCode;

use clap::Args;
use muster_api::mcp_server::McpServerList;
use muster_core::json::RawObject;

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession},
    resource_kinds::{self, ResourceKind},
};
use crate::{
    error::CommandError,
    output::{Printer, next_step},
    process,
};

/// List the servers, services, workflows, tools, … of a running gateway
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster list mcpservers
  muster list mcpserver --all --output wide
  muster list tools --filter 'core_service_*'
  muster list workflows --output json")]
pub(crate) struct List {
    /// The type to list: mcpserver, service, serviceclass, workflow, workflow-execution, tool, resource or prompt
    #[arg(value_name = "TYPE", add = completion::listed())]
    kind: String,
    /// List only tools, resources and prompts whose name matches this pattern: `*`, `?`, `[..]`
    #[arg(long, value_name = "GLOB")]
    pub(super) filter: Option<String>,
    /// List only tools, resources and prompts whose description contains this text
    #[arg(long, value_name = "TEXT")]
    pub(super) description: Option<String>,
    /// List only tools, resources and prompts whose name starts with this prefix
    #[arg(long, value_name = "PREFIX")]
    pub(super) server: Option<String>,
    /// Also list MCP servers that failed
    #[arg(long)]
    all: bool,
    /// Also list MCP servers that failed, and say for each that does not run what to do; in JSON and YAML, only show why
    /// servers failed
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &List) -> Result<ExitCode, CommandError> {
    process::block_on(list(args))
}

async fn list(args: &List) -> Result<(), CommandError> {
    let kind = resource_kinds::find(&args.kind, resource_kinds::LISTED)?;
    warn(args, kind);
    let session = args.gateway.open().await?;
    let done = match kind.list_tool() {
        Some(tool) if kind == ResourceKind::McpServer => servers(&session, tool, args).await,
        Some(tool) => session.show(tool, &arguments(args, kind).to_raw()).await,
        None => mcp_items::list(&session, kind, args).await,
    };
    session.close().await;
    done
}

async fn servers(session: &GatewaySession, tool: &str, args: &List) -> Result<(), CommandError> {
    let arguments = arguments(args, ResourceKind::McpServer).to_raw();
    let response = session.call(tool, &arguments).await?;
    session.print(tool, &response)?;
    if !args.verbose || !is_for_people(args) || session.quiet {
        return Ok(());
    }
    // The list itself says what to do about servers that should run.
    let listed: McpServerList = response.reply(tool).unwrap_or_default();
    let stopped = listed.mcp_servers.iter().filter(|server| server.state.is_down());
    let lines: Vec<String> = stopped
        .filter_map(|server| Some(format!("  {}: {}", server.name, next_step::for_info(server)?)))
        .collect();
    match lines.is_empty() {
        true => Ok(()),
        false => {
            Printer::stdout().line(&format!("\nServers that are stopped:\n{}", lines.join("\n")))
        }
    }
}

/// Whether the output is a table.
fn is_for_people(args: &List) -> bool {
    ["table", "wide"].contains(&args.gateway.output.as_str())
}

fn arguments(args: &List, kind: ResourceKind) -> RawObject<'static> {
    let mut object = RawObject::new();
    if kind == ResourceKind::McpServer {
        // Details about a server that is not listed would be about nothing.
        if args.all || args.verbose && is_for_people(args) {
            object.set_value("showAll", &true);
        }
        // Always show reasons in tables, so that users need no second command.
        if args.verbose || is_for_people(args) {
            object.set_value("verbose", &true);
        }
    }
    object
}

/// Warns about flags that have no effect.
fn warn(args: &List, kind: ResourceKind) {
    let is_native = kind.list_tool().is_none();
    let filters = [
        ("--filter", args.filter.is_some()),
        ("--description", args.description.is_some()),
        ("--server", args.server.is_some()),
    ];
    ignored(args, &filters, is_native, "tools, resources, prompts");
    let more = [("--all", args.all), ("--verbose", args.verbose)];
    ignored(args, &more, kind == ResourceKind::McpServer, "mcpserver");
}

fn ignored(args: &List, flags: &[(&str, bool)], used: bool, works: &str) {
    let given: Vec<&str> =
        flags.iter().filter(|(_, given)| *given).map(|(flag, _)| *flag).collect();
    if !used && !given.is_empty() {
        let (flags, kind) = (given.join(", "), &args.kind);
        args.gateway.warn(&format!("{flags} ignored for '{kind}' (only works with {works})"));
    }
}
