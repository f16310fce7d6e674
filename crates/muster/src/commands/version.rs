//! `muster version`: the versions of this program and of the running gateway.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use muster_client::remote::{Credentials, Remote};
use muster_core::json::raw;
use serde_json::json;

use super::{gateway_args::GatewayArgs, self_update::VERSION};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputFormat, yaml},
    process,
};

/// The timeout of the request to the gateway.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Print the versions of muster and of the running gateway
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster version
  muster version --output json")]
pub(crate) struct Version {
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Version) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    let style = args.gateway.style()?;
    let is_for_people = matches!(style.format, OutputFormat::Table | OutputFormat::Wide);
    if is_for_people {
        printer.line(&format!("muster version {VERSION}\n"))?;
    }
    process::block_on(async {
        let running = tokio::time::timeout(TIMEOUT, server(&args.gateway)).await.ok().flatten();
        if !is_for_people {
            let server = running.map(|(version, name)| json!({"name": name, "version": version}));
            let both = json!({"client": VERSION, "server": server});
            return printer.line(&match style.format {
                OutputFormat::Yaml => yaml::document(&raw(&both)),
                _ => both.to_string(),
            });
        }
        printer.line(&match running {
            Some((version, name)) => format!("Server: {version} ({name})"),
            None => "Server: (not running)".to_owned(),
        })
    })
}

async fn server(gateway: &GatewayArgs) -> Option<(String, String)> {
    let remote = Remote::connect(&gateway.target().ok()?, &Credentials::None).await.ok()?;
    let about = remote.about();
    remote.close().await;
    Some((about.version, about.name))
}
