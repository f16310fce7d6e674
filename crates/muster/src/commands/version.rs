//! `muster version`: of this program, and of the gateway that runs.

use std::{process::ExitCode, time::Duration};

use clap::Args;

use super::{
    asking::{self, Asking},
    self_update::VERSION,
};
use crate::{
    error::CommandError,
    output::Printer,
    remote::{Auth, Remote},
};

/// How long the gateway may take to say who it is.
const LIMIT: Duration = Duration::from_secs(5);

/// Print the version of muster, and of the gateway that runs
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster version")]
pub(crate) struct Version {
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Version) -> Result<ExitCode, CommandError> {
    let printer = Printer::standard();
    printer.line(&format!("muster version {VERSION}\n"))?;
    asking::run(async {
        let running = tokio::time::timeout(LIMIT, server(&args.asking)).await.ok().flatten();
        printer.line(&match running {
            Some((version, name)) => format!("Server: {version} ({name})"),
            None => "Server: (not running)".to_owned(),
        })
    })
}

async fn server(asking: &Asking) -> Option<(String, String)> {
    let remote = Remote::connect(&asking.target().ok()?, &Auth::None).await.ok()?;
    let about = remote.about();
    remote.close().await;
    Some((about.version, about.name))
}
