//! `muster check`: whether something could be used now.

use std::process::ExitCode;

use clap::Args;

use super::{
    completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds::{self, ResourceKind},
};
use crate::{error::CommandError, process};

/// Check whether a server, a workflow or a service class can be used now
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster check mcpserver github
  muster check workflow deploy --output json")]
pub(crate) struct Check {
    /// Its kind: serviceclass, mcpserver or workflow
    #[arg(value_name = "TYPE", add = completion::checked())]
    kind: String,
    /// Its name
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Check) -> Result<ExitCode, CommandError> {
    let tool = match resource_kinds::find(&args.kind, resource_kinds::CHECKED)? {
        ResourceKind::ServiceClass => "core_serviceclass_available",
        ResourceKind::Workflow => "core_workflow_available",
        _ => "core_service_status",
    };
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = session.show(tool, &one("name", &args.name)).await;
        session.close().await;
        done
    })
}
