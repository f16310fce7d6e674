//! `muster check`: checks whether a resource can be used now.

use std::process::ExitCode;

use clap::Args;
use muster_api::{Availability, service::ServiceStatus};
use muster_client::remote::tool_response::ToolResponse;

use super::{
    completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds::{self, ResourceKind},
};
use crate::{
    error::CommandError,
    output::{self, next_step},
    process,
};

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

/// Derives the next steps for an unusable resource from the reply about it. Returns none if the resource can be used.
type NextSteps = fn(&ToolResponse) -> Vec<String>;

pub(crate) fn run(args: &Check) -> Result<ExitCode, CommandError> {
    let (tool, next_steps): (&str, NextSteps) =
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
            let steps = next_steps(&response);
            if !args.gateway.quiet {
                steps.iter().for_each(|step| output::hint(step));
            }
            Ok(if steps.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        });
        session.close().await;
        done
    })
}

/// The next steps for a workflow or a service class; none if it can be used.
fn tools(response: &ToolResponse) -> Vec<String> {
    let reply = response.reply("available").unwrap_or_else(|_| Availability::default());
    if reply.available {
        return Vec::new();
    }
    if reply.missing_tools.is_empty() {
        // A service class that does not exist: a workflow without missing tools is available.
        return vec![next_step::FOR_UNKNOWN_CLASS.to_owned()];
    }
    next_step::for_missing_tools(&reply.unavailable, &reply.reasons)
}

/// The next steps for a server; none if it can be used.
fn server(response: &ToolResponse) -> Vec<String> {
    let status: ServiceStatus = response.reply("core_service_status").unwrap_or_default();
    next_step::for_server(&status).into_iter().collect()
}
