//! `muster get`: shows one resource in full.

mod mcp_items;

use std::process::ExitCode;

use clap::Args;
use muster_api::{
    MissingTool, UnavailableServer,
    mcp_server::McpServerInfo,
    service::{MCP_SERVER, ServiceStatus},
};
use muster_client::remote::tool_response::ToolResponse;
use serde::Deserialize;

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession},
    resource_kinds::{self, ResourceKind},
    resource_verb::call,
};
use crate::{
    error::CommandError,
    output::{self, format::OutputFormat, next_step},
    process,
};

/// Show one server, service, workflow, tool or other resource in full
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster get mcpserver github
  muster get tool core_service_list
  muster get service mcp-aggregator --output yaml")]
pub(crate) struct Get {
    /// The type: mcpserver, service, serviceclass, workflow, workflow-execution, tool, resource or prompt
    #[arg(value_name = "TYPE", add = completion::got())]
    kind: String,
    /// The name; the URI of a resource, the ID of a workflow execution
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Get) -> Result<ExitCode, CommandError> {
    process::block_on(get(args))
}

async fn get(args: &Get) -> Result<(), CommandError> {
    let kind = resource_kinds::find(&args.kind, resource_kinds::GOT)?;
    let session = args.gateway.open().await?;
    let done = show(&session, kind, &args.name).await;
    session.close().await;
    done
}

async fn show(
    session: &GatewaySession,
    kind: ResourceKind,
    name: &str,
) -> Result<(), CommandError> {
    let (tool, key) = match kind {
        ResourceKind::Service => ("core_service_status", "name"),
        ResourceKind::ServiceClass => ("core_serviceclass_get", "name"),
        ResourceKind::McpServer => ("core_mcpserver_get", "name"),
        ResourceKind::Workflow => ("core_workflow_get", "name"),
        ResourceKind::WorkflowExecution => ("core_workflow_execution_get", "execution_id"),
        ResourceKind::Tool => return mcp_items::tool(session, name).await,
        ResourceKind::Resource => return mcp_items::resource(session, name).await,
        ResourceKind::Prompt => return mcp_items::prompt(session, name).await,
    };
    let response = call(session, kind, tool, (key, name)).await?;
    if session.quiet || !matches!(session.style.format, OutputFormat::Table | OutputFormat::Wide) {
        return Ok(());
    }
    let steps = match kind {
        ResourceKind::McpServer => server(&response),
        ResourceKind::Service => service(&response),
        ResourceKind::Workflow | ResourceKind::ServiceClass => tools(&response),
        _ => Vec::new(),
    };
    steps.iter().for_each(|step| output::hint(step));
    Ok(())
}

fn server(response: &ToolResponse) -> Vec<String> {
    let server: McpServerInfo = response.reply("core_mcpserver_get").unwrap_or_default();
    next_step::for_info(&server).into_iter().collect()
}

/// The next step for an MCP server. Other services start and stop by themselves or by their owner.
fn service(response: &ToolResponse) -> Vec<String> {
    let status: ServiceStatus = response.reply("core_service_status").unwrap_or_default();
    let is_server = status.service_type == MCP_SERVER;
    next_step::for_server(&status).filter(|_| is_server).into_iter().collect()
}

/// The next steps for missing tools.
fn tools(response: &ToolResponse) -> Vec<String> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Lacking {
        missing_tools: Vec<String>,
        unavailable: Vec<UnavailableServer>,
        reasons: Vec<MissingTool>,
    }
    let lacking: Lacking = response.reply("unavailable").unwrap_or_default();
    match lacking.missing_tools.is_empty() {
        true => Vec::new(),
        false => next_step::for_missing_tools(&lacking.unavailable, &lacking.reasons),
    }
}
