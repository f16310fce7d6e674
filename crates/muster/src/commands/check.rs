//! `muster check`: whether something could be used now.

use std::process::ExitCode;

use clap::Args;

use super::{
    asking::{self, Asking, one},
    completion,
    kinds::{self, Kind},
};
use crate::error::CommandError;

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
    asking: Asking,
}

pub(crate) fn run(args: &Check) -> Result<ExitCode, CommandError> {
    let tool = match kinds::find(&args.kind, kinds::CHECKED)? {
        Kind::ServiceClass => "core_serviceclass_available",
        Kind::Workflow => "core_workflow_available",
        _ => "core_service_status",
    };
    asking::run(async {
        let asked = args.asking.open().await?;
        let done = asked.show(tool, &one("name", &args.name)).await;
        asked.close().await;
        done
    })
}
