//! `muster edit`: changes a definition in an editor.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::{Args, builder::PossibleValuesParser};
use muster_client::{env_vars, user_dirs};
use muster_config::formats::{FORMATS, FileFormat};
use muster_core::suggest::similar;
use muster_engine::store::{ConfigStore, FileProblem, Files, Severity, file_problems};

use super::{completion, validate::stem};
use crate::{
    error::CommandError,
    output::{self, Printer},
};

/// Change a definition in your editor
///
/// Opens a copy of the file in $VISUAL, $EDITOR or vi. The file is replaced only if the result can be used; a running
/// gateway applies it at once. Otherwise your text is kept and its path is printed.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster edit mcpserver github
  muster edit config
  EDITOR=nano muster edit workflow deploy --config-path ./gateway")]
pub(crate) struct Edit {
    /// The kind of file
    #[arg(value_name = "TYPE", value_parser = PossibleValuesParser::new(FORMATS.iter().map(|format| format.name)), add = completion::edited())]
    kind: String,
    /// The name of the definition; none for config
    #[arg(value_name = "NAME", add = completion::names())]
    name: Option<String>,
    /// The configuration directory [default: ~/.config/muster]
    #[arg(long, value_name = "DIR")]
    config_path: Option<PathBuf>,
}

pub(crate) fn run(args: &Edit) -> Result<ExitCode, CommandError> {
    let root = match &args.config_path {
        Some(path) => path.clone(),
        None => user_dirs::config()?,
    };
    let path = find(&root, &args.kind, args.name.as_deref())?;
    let before = fs::read_to_string(&path)
        .map_err(|err| CommandError::new(format!("cannot read {}: {err}", path.display())))?;
    let copy = copy(&path, &before)?;
    let edited = open_editor(&copy).and_then(|()| Ok(fs::read_to_string(&copy)?));
    let after = edited.map_err(|error| error.hint(kept(&copy)))?;
    if after == before {
        drop(fs::remove_file(&copy));
        Printer::stdout().line("Nothing was changed")?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(format) = FileFormat::named(&args.kind) else {
        return Err(CommandError::new(format!("unknown kind {}", args.kind)));
    };
    let problems = file_problems(&path, format.check(&after, &stem(&path)));
    let (errors, warnings): (Vec<_>, Vec<_>) =
        problems.iter().partition(|problem| problem.severity == Severity::Error);
    if !errors.is_empty() {
        let errors: Vec<String> = errors.into_iter().map(FileProblem::to_string).collect();
        return Err(CommandError::new(format!("the file was not changed:\n{}", errors.join("\n")))
            .hint(kept(&copy)));
    }
    ConfigStore::replace_text(&path, &before, &after)
        .map_err(|err| CommandError::new(err.to_string()).hint(kept(&copy)))?;
    drop(fs::remove_file(&copy));
    warnings.into_iter().for_each(|warning| output::warn(&warning.to_string()));
    Printer::stdout().line(&format!("{} changed", path.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn kept(copy: &Path) -> String {
    format!("your text is kept in {}", copy.display())
}

/// Finds the file of a definition.
pub(super) fn find(root: &Path, kind: &str, name: Option<&str>) -> Result<PathBuf, CommandError> {
    if kind == "config" {
        return match name {
            None => Ok(root.join("config.yaml")),
            Some(_) => {
                Err(CommandError::new("config has no name").hint("write `muster edit config`"))
            }
        };
    }
    let Some(name) = name else {
        return Err(CommandError::new("accepts 2 arg(s), received 1")
            .hint(format!("write `muster edit {kind} NAME`")));
    };
    let files = ConfigStore::new(root).load(&Files::default());
    let known = known(&files, kind);
    if let Some((_, path)) = known.iter().find(|(known, _)| known == name) {
        return Ok(path.clone());
    }
    // A definition that cannot be read has no known name: look for a file of that name.
    let folder = FileFormat::named(kind).and_then(FileFormat::folder).unwrap_or_default();
    let path = root.join(folder).join(format!("{name}.yaml"));
    if path.exists() {
        return Ok(path);
    }
    let error = CommandError::new(format!("{} has no {kind} {name}", root.display()));
    let error = match similar(name, known.iter().map(|(name, _)| name.as_str())).first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    };
    Err(error.hint("--config-path names the directory of the files"))
}

/// Lists the definitions of a kind with their names and files.
fn known(files: &Files, kind: &str) -> Vec<(String, PathBuf)> {
    let by_stem = |path: &PathBuf| (stem(path), path.clone());
    match kind {
        "mcpserver" => {
            let servers = files.servers.iter();
            servers.map(|(name, file)| (name.clone(), file.path.clone())).collect()
        }
        "workflow" => {
            let workflows = files.workflows.iter();
            workflows.map(|(name, file)| (name.clone(), file.path.clone())).collect()
        }
        "serviceclass" => {
            let classes = files.classes.iter();
            classes.map(|(name, file)| (name.clone(), file.path.clone())).collect()
        }
        "service" => {
            files.services.iter().map(|(name, (path, _))| (name.clone(), path.clone())).collect()
        }
        "toolset" => {
            let toolsets = files.toolsets.iter();
            toolsets.map(|(name, file)| (name.clone(), file.path.clone())).collect()
        }
        "cli" => {
            let clis = files.clis.iter().flatten();
            let named =
                clis.flat_map(|(path, cli)| [by_stem(path), (cli.name.clone(), path.clone())]);
            named.collect()
        }
        _ => files.policies.keys().map(by_stem).collect(),
    }
}

/// Creates a copy for the editor that only the user can read.
fn copy(path: &Path, text: &str) -> Result<PathBuf, CommandError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let folder = user_dirs::state()?.join("edit");
    fs::create_dir_all(&folder)?;
    let copy = folder.join(format!("{}-{}.yaml", stem(path), std::process::id()));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&copy)?;
    file.write_all(text.as_bytes())?;
    Ok(copy)
}

fn open_editor(path: &Path) -> Result<(), CommandError> {
    let editor = env_vars::get("VISUAL").or_else(|| env_vars::get("EDITOR"));
    let editor = editor.unwrap_or_else(|| "vi".to_owned());
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    #[expect(clippy::disallowed_methods, reason = "the editor needs the terminal of the command")]
    let status = Command::new(program).args(words).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(CommandError::new(format!("the editor `{editor}` failed: {status}"))),
        Err(err) => Err(CommandError::new(format!("cannot start the editor `{editor}`: {err}"))
            .hint("set EDITOR to the editor to use")),
    }
}
