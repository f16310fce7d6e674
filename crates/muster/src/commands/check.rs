//! `muster check`: checks whether a resource can be used now.

use std::process::ExitCode;

use clap::Args;
use muster_api::{
    Availability,
    service::{ServiceHealth, ServiceStatus},
};
use muster_client::remote::tool_response::ToolResponse;

use super::{
    completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds::{self, ResourceKind},
};
use crate::{error::CommandError, process};

/// Check whether a server, a workflow or a service class can be used now
///
/// Prints what is missing, and exits with 1 if it cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster check mcpserver github
  muster check workflow deploy --output json")]
pub(crate) struct Check {
    /// The type to check: serviceclass, mcpserver or workflow
    #[arg(value_name = "TYPE", add = completion::checked())]
    kind: String,
    /// Its name
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Check) -> Result<ExitCode, CommandError> {
    let (tool, is_usable): (&str, fn(&ToolResponse) -> bool) =
        match resource_kinds::find(&args.kind, resource_kinds::CHECKED)? {
            ResourceKind::ServiceClass => ("core_serviceclass_available", is_available),
            ResourceKind::Workflow => ("core_workflow_available", is_available),
            _ => ("core_service_status", is_healthy),
        };
    process::block_on_code(async {
        let session = args.gateway.open().await?;
        let response = session.call(tool, &one("name", &args.name)).await;
        let done = response.and_then(|response| {
            session.print(tool, &response)?;
            Ok(if is_usable(&response) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        });
        session.close().await;
        done
    })
}

fn is_available(response: &ToolResponse) -> bool {
    response.reply("available").is_ok_and(|reply: Availability| reply.available)
}

fn is_healthy(response: &ToolResponse) -> bool {
    let status: Result<ServiceStatus, _> = response.reply("core_service_status");
    status.is_ok_and(|status| status.health == ServiceHealth::Healthy)
}
