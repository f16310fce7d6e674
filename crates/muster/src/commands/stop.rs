//! `muster stop`: services.

use std::process::ExitCode;

use clap::Args;

use super::{
    asking::{self, Asking, one},
    completion, kinds,
};
use crate::error::CommandError;

/// Stop a service
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster stop service github")]
pub(crate) struct Stop {
    /// What to stop: service
    #[arg(value_name = "TYPE", add = completion::stopped())]
    kind: String,
    /// Its name
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Stop) -> Result<ExitCode, CommandError> {
    kinds::find(&args.kind, kinds::STOPPED)?;
    asking::run(async {
        let asked = args.asking.open().await?;
        let done = asked.show("core_service_stop", &one("name", &args.name)).await;
        asked.close().await;
        done
    })
}
