//! `muster enable` and `muster disable`: choose the bundled CLIs that the gateway offers.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand};
use muster_client::{
    bundled_clis::{self, ConfigEditError},
    user_dirs,
};
use muster_core::suggest;

use crate::{bundled, error::CommandError, output::Printer};

/// Offer all tools of a bundled CLI
///
/// Without this, a gateway offers only the tools of bundled CLIs that read, and only on this machine.
/// Tools that write, run code or use the network are switched on by the name of their CLI, in
/// `config.yaml`. A running gateway applies the change at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster enable cli gh
  muster enable cli git cargo")]
pub(crate) struct Enable {
    #[command(subcommand)]
    kind: SwitchedKind,
}

/// Offer no tools of a bundled CLI
///
/// Writes the name of the CLI to `config.yaml`. A running gateway applies the change at once.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster disable cli journalctl")]
pub(crate) struct Disable {
    #[command(subcommand)]
    kind: SwitchedKind,
}

#[derive(Debug, Subcommand)]
enum SwitchedKind {
    /// Choose by the name of a CLI; `climax list` shows them
    Cli(Clis),
}

#[derive(Debug, Args)]
struct Clis {
    /// The names of bundled CLIs
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
}

pub(crate) fn enable(args: &Enable) -> Result<ExitCode, CommandError> {
    let SwitchedKind::Cli(clis) = &args.kind;
    edit(clis, "all tools of", muster_config::settings::Clis::enable)
}

pub(crate) fn disable(args: &Disable) -> Result<ExitCode, CommandError> {
    let SwitchedKind::Cli(clis) = &args.kind;
    edit(clis, "no tools of", muster_config::settings::Clis::disable)
}

fn edit(
    args: &Clis,
    offered: &str,
    change: impl Fn(&mut muster_config::settings::Clis, &str),
) -> Result<ExitCode, CommandError> {
    for name in &args.names {
        known(name)?;
    }
    let root = match &args.config_path {
        Some(path) => path.clone(),
        None => user_dirs::config()?,
    };
    let changed = bundled_clis::edit(&root, |settings| {
        for name in &args.names {
            change(settings, name);
        }
    });
    let changed = changed.map_err(|error| {
        let text = error.to_string();
        match error {
            ConfigEditError::Layout => CommandError::new(text).hint(format!(
                "list the names under `clis: enabled:` or `clis: disabled:` in {}",
                root.join("config.yaml").display()
            )),
            ConfigEditError::Unreadable(_)
            | ConfigEditError::Invalid(_)
            | ConfigEditError::Write(_) => CommandError::new(text),
        }
    })?;
    let names = args.names.join(", ");
    Printer::stdout().line(&match changed {
        true => format!("The gateway offers {offered} {names} (config.yaml was changed)."),
        false => format!("The gateway offers {offered} {names} already."),
    })?;
    Ok(ExitCode::SUCCESS)
}

fn known(name: &str) -> Result<(), CommandError> {
    if bundled::config(name).is_some() {
        return Ok(());
    }
    let names = bundled::CONFIGS.iter().map(|(known, _)| *known);
    let hint = match suggest::nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => {
            "see `climax list` for the bundled CLIs; files in `clis/` are always offered".to_owned()
        }
    };
    Err(CommandError::new(format!("there is no bundled CLI `{name}`")).hint(hint))
}
