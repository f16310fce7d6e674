//! `muster get`: shows one resource in full.

mod mcp_items;

use std::process::ExitCode;

use clap::Args;

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession},
    resource_kinds::{self, ResourceKind},
    resource_verb::call,
};
use crate::{error::CommandError, process};

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
    call(session, kind, tool, (key, name)).await
}
