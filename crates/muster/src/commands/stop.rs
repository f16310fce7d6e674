//! `muster stop`: stops services.

use std::process::ExitCode;

use clap::Args;

use super::{
    completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds,
};
use crate::{error::CommandError, process};

/// Stop a service
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster stop service github")]
pub(crate) struct Stop {
    /// The type to stop: service
    #[arg(value_name = "TYPE", add = completion::stopped())]
    kind: String,
    /// The name of the service
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Stop) -> Result<ExitCode, CommandError> {
    resource_kinds::find(&args.kind, resource_kinds::STOPPED)?;
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = session.show("core_service_stop", &one("name", &args.name)).await;
        session.close().await;
        done
    })
}
