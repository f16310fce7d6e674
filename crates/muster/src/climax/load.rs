//! Loads the configs and the policy that the command line names.

use std::{
    borrow::Cow,
    fs, io,
    path::{Path, PathBuf},
};

use muster_config::{LoadError, Loaded, Problem};
use muster_core::{cli::CliConfig, policy::Policy, suggest};
use thiserror::Error;

use super::{args::COMMANDS, servers};
use crate::{bundled, error::CommandError};

/// Why a file could not be used.
#[derive(Debug, Error)]
pub(super) enum FileError {
    #[error("{}", unreadable(path, source))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Invalid(#[from] LoadError),
    #[error("it holds MCP servers, not a CLI: only `climax run` takes them")]
    Servers,
}

/// The message for a file that cannot be read. Its wording is that of the original CLImax, which users may search for.
fn unreadable(path: &Path, source: &io::Error) -> String {
    let path = path.display();
    match source.raw_os_error() {
        Some(2) => format!("[Errno 2] No such file or directory: '{path}'"),
        Some(13) => format!("[Errno 13] Permission denied: '{path}'"),
        Some(21) => format!("[Errno 21] Is a directory: '{path}'"),
        _ if source.kind() == io::ErrorKind::InvalidData => {
            format!("'{path}' is not text in UTF-8: {source}")
        }
        _ => format!("cannot read '{path}': {source}"),
    }
}

/// Loads a config, given its path or the name of a bundled one.
pub(super) fn config(word: &str) -> Result<Loaded<CliConfig>, FileError> {
    let text = text(word)?;
    muster_config::cli::parse(&text).map_err(|err| match servers::is_meant(word, &text) {
        true => FileError::Servers,
        false => err.into(),
    })
}

/// Reads the text of a config, given its path or the name of a bundled one.
fn text(word: &str) -> Result<Cow<'static, str>, FileError> {
    let is_path = word.contains('/') || word.ends_with(".yaml") || word.ends_with(".yml");
    let bundled = if is_path { None } else { bundled::config(word) };
    match bundled {
        Some(text) => Ok(Cow::Borrowed(text)),
        None => Ok(Cow::Owned(read(Path::new(word))?)),
    }
}

/// The problems of a config that do not prevent loading it.
pub(super) fn mistakes(word: &str) -> Result<Vec<Problem>, FileError> {
    Ok(muster_config::cli::lint(&text(word)?))
}

/// Loads a policy file.
pub(super) fn policy(path: &Path) -> Result<Loaded<Policy>, FileError> {
    Ok(muster_config::policy::parse(&read(path)?)?)
}

fn read(path: &Path) -> Result<String, FileError> {
    fs::read(path)
        .and_then(|bytes| {
            String::from_utf8(bytes).map_err(|err| io::Error::new(io::ErrorKind::InvalidData, err))
        })
        .map_err(|source| FileError::Unreadable { path: path.to_owned(), source })
}

/// Loads all configs. Fails with the first that cannot be loaded.
pub(super) fn configs(words: &[String]) -> Result<Vec<CliConfig>, CommandError> {
    words
        .iter()
        .map(|word| {
            let loaded = config(word).map_err(|err| refused("config", word, &err))?;
            tracing::info!(
                "Loaded {} from {word} ({} tools)",
                loaded.value.name,
                loaded.value.tools.len()
            );
            Ok(loaded.value)
        })
        .collect()
}

/// Loads the policy, if the command line names one.
pub(super) fn policy_or_none(path: Option<&Path>) -> Result<Policy, CommandError> {
    let Some(path) = path else { return Ok(Policy::default()) };
    let loaded =
        policy(path).map_err(|err| refused("policy", &path.display().to_string(), &err))?;
    // Report unknown fields: a misspelled limit does not apply, although its author relies on it.
    for warning in &loaded.warnings {
        tracing::warn!("{}:{}: {warning}", path.display(), warning.line);
    }
    Ok(loaded.value)
}

pub(super) fn refused(what: &str, word: &str, err: &FileError) -> CommandError {
    let error = CommandError::new(match err {
        FileError::Invalid(LoadError::Fields(problems)) => {
            let lines: String = problems.iter().map(problem_line).collect();
            format!("cannot load {what} `{word}`:{lines}")
        }
        err => format!("cannot load {what} `{word}`: {err}"),
    });
    match err {
        FileError::Unreadable { .. } if what == "config" && !word.contains(['/', '.']) => {
            error.hint(what_was_meant(word))
        }
        FileError::Unreadable { .. } | FileError::Invalid(_) | FileError::Servers => error,
    }
}

/// The hint for a word that is not a path: it probably misspells a command or a bundled config.
fn what_was_meant(word: &str) -> String {
    let configs = bundled::CONFIGS.iter().map(|(name, _)| *name);
    match suggest::similar(word, configs.chain(COMMANDS)).first() {
        Some(name) if COMMANDS.contains(name) => format!("did you mean `climax {name}`?"),
        Some(name) => format!("did you mean the bundled config `{name}`?"),
        None => "see `climax list` for the bundled configs".to_owned(),
    }
}

fn problem_line(problem: &Problem) -> String {
    let fix = problem.fix.as_ref().map(|fix| format!("; {fix}")).unwrap_or_default();
    format!("\n  line {}: {problem}{fix}", problem.line)
}
