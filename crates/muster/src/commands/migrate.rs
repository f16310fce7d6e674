//! `muster migrate`: copies definitions from files to Kubernetes resources, and back.

#[cfg(feature = "kubernetes")]
mod transfer;

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[cfg(feature = "kubernetes")]
pub(crate) use self::transfer::run;
#[cfg(not(feature = "kubernetes"))]
use {crate::error::CommandError, std::process::ExitCode};

/// Copy definitions from files to Kubernetes resources, or back
///
/// To Kubernetes, prints the manifests of every policy, toolset, MCP server, workflow, service class, service and CLI in
/// the configuration directory, for `kubectl apply -f -`, or applies them with --apply, which checks all of them before it
/// changes anything. To files, writes the resources of a namespace into the folders of a directory; a file that exists and
/// differs is never replaced. What a definition refers to, such as secrets, is not copied with it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster migrate kubernetes --namespace muster
  muster migrate kubernetes --namespace muster --apply
  muster migrate files --namespace muster --config-path ./backup")]
pub(crate) struct Migrate {
    /// Where the definitions go
    to: Target,
    /// The configuration directory; default `~/.config/muster`
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
    /// The namespace of the resources; default: `namespace` in config.yaml, or `default`
    #[arg(long)]
    namespace: Option<String>,
    /// Create or change the resources in the cluster of the kubeconfig instead of printing them
    #[arg(long)]
    apply: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Target {
    /// Resources in a cluster
    Kubernetes,
    /// Files in a configuration directory
    Files,
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) fn run(_: &Migrate) -> Result<ExitCode, CommandError> {
    Err(CommandError::new("this build has no support for Kubernetes"))
}
