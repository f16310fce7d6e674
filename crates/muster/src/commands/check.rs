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
    next_step,
    resource_kinds::{self, ResourceKind},
};
use crate::{error::CommandError, output, process};

/// Check whether a server, a workflow or a service class can be used now
///
/// Prints what is missing and what to do, and exits with 1 if it cannot be used.
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

/// What to do about a resource that cannot be used, by the reply about it; nothing if it can.
type NextStep = fn(&ToolResponse) -> Option<String>;

pub(crate) fn run(args: &Check) -> Result<ExitCode, CommandError> {
    let (tool, next_step): (&str, NextStep) =
        match resource_kinds::find(&args.kind, resource_kinds::CHECKED)? {
            ResourceKind::ServiceClass => ("core_serviceclass_available", tools),
            ResourceKind::Workflow => ("core_workflow_available", tools),
            _ => ("core_service_status", server),
        };
    process::block_on_code(async {
        let session = args.gateway.open().await?;
        let response = session.call(tool, &one("name", &args.name)).await;
        let done = response.and_then(|response| {
            session.print(tool, &response)?;
            let Some(step) = next_step(&response) else { return Ok(ExitCode::SUCCESS) };
            if !args.gateway.quiet {
                output::hint(&step);
            }
            Ok(ExitCode::FAILURE)
        });
        session.close().await;
        done
    })
}

/// What to do about a workflow or a service class that cannot be used; nothing if it can.
fn tools(response: &ToolResponse) -> Option<String> {
    let is_available = response.reply("available").is_ok_and(|reply: Availability| reply.available);
    (!is_available).then(|| next_step::FOR_MISSING_TOOLS.to_owned())
}

/// What to do about a server that cannot be used; nothing if it can.
fn server(response: &ToolResponse) -> Option<String> {
    let status: ServiceStatus = response.reply("core_service_status").unwrap_or_default();
    (status.health != ServiceHealth::Healthy).then(|| next_step::for_server(&status))
}
