//! `muster self-update`: replaces this program with its newest release.

mod release;
mod signature;

use std::process::ExitCode;

use clap::Args;
use muster_client::env_vars;

use self::{release::Release, signature::ReleaseKey};
use crate::{error::CommandError, output::Printer, process};

/// The version of this program.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Update muster to the newest release
///
/// Set MUSTER_RELEASES_URL to the URL of the release document. The download must have a minisign signature of the key
/// that is built into this program; a build without a key does not update itself.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster self-update")]
pub(crate) struct SelfUpdate {}

pub(crate) fn run(_: &SelfUpdate) -> Result<ExitCode, CommandError> {
    if VERSION.is_empty() || VERSION == "dev" {
        return Err(CommandError::new("cannot self-update a development version"));
    }
    process::block_on(update())
}

async fn update() -> Result<(), CommandError> {
    let key = ReleaseKey::built_in().map_err(|problem| {
        CommandError::new(format!("cannot self-update: {problem}"))
            .hint("update muster the way it was installed")
    })?;
    let printer = Printer::stdout();
    printer.line(&format!("Current version: {VERSION}\nChecking for updates..."))?;
    let url = env_vars::get("MUSTER_RELEASES_URL").ok_or_else(|| {
        CommandError::new(
            "error detecting latest version: this build does not know where its releases are published",
        )
        .hint("set MUSTER_RELEASES_URL, or update muster the way it was installed")
    })?;
    let detecting = |err: String| {
        CommandError::new(format!("error detecting latest version: {err}"))
            .hint("check the network connection and MUSTER_RELEASES_URL")
    };
    let latest = Release::latest(&url).await.map_err(detecting)?;
    if !latest.is_newer_than(VERSION) {
        return printer.line("Current version is the latest.");
    }
    let (version, published) = (latest.version(), latest.published());
    printer.line(&format!("Found newer version: {version} (published at {published})"))?;
    printer.line(&format!("Release notes:\n{}", latest.notes().trim_end()))?;
    let program = std::env::current_exe()
        .map_err(|err| CommandError::new(format!("could not locate executable path: {err}")))?;
    printer.line(&format!("Updating {} to version {version}...", program.display()))?;
    let failed = |err: String| CommandError::new(format!("update failed: {err}"));
    latest.install(&program, &key).await.map_err(failed)?;
    printer.line(&format!("Successfully updated to version {version}"))
}
