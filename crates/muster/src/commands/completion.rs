//! `muster completion`: completion scripts for shells, with names of a running gateway.
//!
//! **Invariant:** completion never fails and never opens a browser. If the gateway does not respond in time, no names
//! are completed.

mod live;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    path::Path,
    process::ExitCode,
};

use clap::{Args, ValueEnum};
use clap_complete::{
    engine::{self, ArgValueCompleter, CompletionCandidate},
    env::{Bash, EnvCompleter, Fish, Powershell, Zsh},
};
use muster_client::{contexts::Contexts, login::AuthMode};
use muster_config::formats::FORMATS;
use muster_scenario::{load::load, scenario::Scenario};

use super::resource_kinds::{self, ResourceKind};
use crate::{error::CommandError, output::Printer, output::format::OutputFormat};

/// The environment variable by which a script requests completions.
pub(crate) const ASKED_BY: &str = "MUSTER_COMPLETE";
/// The environment variable of scripts without descriptions.
pub(crate) const ASKED_BRIEFLY_BY: &str = "MUSTER_COMPLETE_BRIEF";

/// Print a completion script for a shell
///
/// The script calls muster to complete the current names of servers, services, workflows, tools and
/// contexts.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster completion bash > /etc/bash_completion.d/muster
  muster completion zsh > ~/.zfunc/_muster
  muster completion fish > ~/.config/fish/completions/muster.fish")]
pub(crate) struct Completion {
    /// The shell
    shell: Shell,
    /// Complete without descriptions
    #[arg(long)]
    no_descriptions: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

pub(crate) fn run(args: &Completion) -> Result<ExitCode, CommandError> {
    let shell: &dyn EnvCompleter = match args.shell {
        Shell::Bash => &Bash,
        Shell::Zsh => &Zsh,
        Shell::Fish => &Fish,
        Shell::Powershell => &Powershell,
    };
    let mut script = Vec::new();
    let variable = if args.no_descriptions { ASKED_BRIEFLY_BY } else { ASKED_BY };
    shell.write_registration(variable, "muster", "muster", "muster", &mut script)?;
    Printer::stdout().line(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Removes the descriptions of a command's subcommands and arguments.
pub(crate) fn without_descriptions(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| arg.help(None::<&str>).long_help(None::<&str>)).mut_subcommands(|sub| {
        without_descriptions(sub.about(None::<&str>).long_about(None::<&str>))
    })
}

/// The commands by which completion scripts of cobra request candidates: with descriptions, and without.
const REQUESTS: [&str; 2] = ["__complete", "__completeNoDesc"];

/// Completes the words after `__complete`, for users who still have a completion script of the original muster, which
/// used cobra: prints one candidate per line with its description, and a directive.
pub(crate) fn complete_if_asked(command: &mut clap::Command) -> Option<ExitCode> {
    let mut words = std::env::args_os().skip(1);
    let asked = words.next()?;
    let described = REQUESTS.iter().position(|request| *request == asked)? == 0;
    let words: Vec<OsString> = std::iter::once("muster".into()).chain(words).collect();
    let last = words.len() - 1;
    let here = std::env::current_dir().ok();
    let found = engine::complete(command, words, last, here.as_deref()).unwrap_or_default();
    let printer = Printer::stdout();
    for candidate in found.iter().filter(|candidate| !candidate.is_hide_set()) {
        let value = candidate.get_value().to_string_lossy();
        let help = candidate.get_help().map(ToString::to_string).filter(|_| described);
        let line = match help.as_deref().and_then(|help| help.lines().next()) {
            Some(help) => format!("{value}\t{help}"),
            None => value.into_owned(),
        };
        if printer.line(&line).is_err() {
            return Some(ExitCode::FAILURE);
        }
    }
    // Cobra's directive `ShellCompDirectiveNoFileComp`: the candidates are complete, so do not add files.
    Some(if printer.line(":4").is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Completes words of a list that is computed on demand.
fn among(words: impl Fn() -> Vec<String> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| {
        let typed = typed.to_string_lossy().to_lowercase();
        let mut words = words();
        words.retain(|word| word.to_lowercase().starts_with(&typed));
        words.sort();
        words.into_iter().map(CompletionCandidate::new).collect()
    })
}

fn fixed(words: &'static [&'static str]) -> ArgValueCompleter {
    among(move || words.iter().map(|word| (*word).to_owned()).collect())
}

fn kinds_of(named: &'static [(&'static str, ResourceKind)]) -> ArgValueCompleter {
    among(move || named.iter().map(|(name, _)| (*name).to_owned()).collect())
}

pub(super) fn formats() -> ArgValueCompleter {
    fixed(&OutputFormat::NAMES)
}

pub(super) fn auth_modes() -> ArgValueCompleter {
    fixed(&AuthMode::NAMES)
}

pub(super) fn transports() -> ArgValueCompleter {
    fixed(&["stdio", "streamable-http", "sse"])
}

pub(super) fn event_kinds() -> ArgValueCompleter {
    fixed(&["mcpserver", "serviceclass", "workflow", "service"])
}

pub(super) fn severities() -> ArgValueCompleter {
    fixed(&["normal", "warning"])
}

pub(super) fn contexts() -> ArgValueCompleter {
    among(|| {
        let contexts = Contexts::load().unwrap_or_default();
        contexts.all.into_iter().map(|context| context.name).collect()
    })
}

pub(super) fn listed() -> ArgValueCompleter {
    kinds_of(resource_kinds::LISTED)
}

pub(super) fn got() -> ArgValueCompleter {
    kinds_of(resource_kinds::GOT)
}

pub(super) fn checked() -> ArgValueCompleter {
    kinds_of(resource_kinds::CHECKED)
}

pub(super) fn stopped() -> ArgValueCompleter {
    kinds_of(resource_kinds::STOPPED)
}

pub(super) fn deleted() -> ArgValueCompleter {
    among(|| super::delete::all_kinds().into_iter().map(str::to_owned).collect())
}

pub(super) fn restarted() -> ArgValueCompleter {
    kinds_of(resource_kinds::RESTARTED)
}

pub(super) fn logged() -> ArgValueCompleter {
    kinds_of(resource_kinds::LOGGED)
}

pub(super) fn edited() -> ArgValueCompleter {
    among(|| FORMATS.iter().map(|format| format.name.to_owned()).collect())
}

/// Completes names of the kind typed before them.
pub(super) fn names() -> ArgValueCompleter {
    among(|| {
        let typed = live::typed();
        let kind =
            typed.get(1).and_then(|word| resource_kinds::find(word, resource_kinds::GOT).ok());
        kind.map(live::names).unwrap_or_default()
    })
}

pub(super) fn tools() -> ArgValueCompleter {
    among(|| live::names(ResourceKind::Tool))
}

pub(super) fn services() -> ArgValueCompleter {
    among(|| live::names(ResourceKind::Service))
}

pub(super) fn servers() -> ArgValueCompleter {
    among(|| live::names(ResourceKind::McpServer))
}

pub(super) fn workflows() -> ArgValueCompleter {
    among(|| live::names(ResourceKind::Workflow))
}

pub(super) fn service_classes() -> ArgValueCompleter {
    among(|| live::names(ResourceKind::ServiceClass))
}

/// Completes arguments of the tool typed before them.
pub(super) fn arguments() -> ArgValueCompleter {
    among(|| {
        let typed = live::typed();
        typed.get(1).map(|tool| live::arguments(tool)).unwrap_or_default()
    })
}

/// Completes a property of the scenarios in the selected directory.
fn of_scenarios(get: fn(Scenario) -> String) -> ArgValueCompleter {
    among(move || {
        let folder = live::flag("--config").unwrap_or_else(|| "scenarios".to_owned());
        let loaded = load(Path::new(&folder)).unwrap_or_default();
        let found: BTreeSet<String> =
            loaded.into_iter().filter_map(|one| Some(get(one.scenario?))).collect();
        found.into_iter().filter(|word| !word.is_empty()).collect()
    })
}

pub(crate) fn scenarios() -> ArgValueCompleter {
    of_scenarios(|scenario| scenario.name)
}

pub(crate) fn categories() -> ArgValueCompleter {
    of_scenarios(|scenario| scenario.category)
}

pub(crate) fn concepts() -> ArgValueCompleter {
    of_scenarios(|scenario| scenario.concept)
}
