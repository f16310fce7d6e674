//! `muster connect`: muster in the configuration of an MCP client.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use muster_client::{
    env_vars,
    import::{
        client_config::{self, EditError, Entry},
        clients::{Client, Shape},
    },
};

use crate::{
    error::CommandError,
    output::{Printer, shell_quoted},
};

/// Write muster into the configuration of an MCP client
///
/// The client then starts `muster standalone`, or with --endpoint the bridge to a gateway that runs
/// elsewhere. The file as it was is kept beside it; --undo takes the entry out again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster connect cursor
  muster connect claude-code --endpoint https://muster.example/mcp
  muster connect cursor --undo")]
pub(crate) struct Connect {
    /// The client
    #[arg(value_parser = client())]
    client: Client,
    /// Connect it to the gateway at this address instead of one of its own
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The folder of the configuration, if it is not the usual one
    #[arg(long, value_name = "DIR", conflicts_with = "endpoint")]
    config_path: Option<PathBuf>,
    /// The client's file, if it is not at its usual place
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Take muster out again
    #[arg(long)]
    undo: bool,
    /// Only show what would be written
    #[arg(long)]
    dry_run: bool,
}

/// Reads the name of an MCP client.
pub(crate) fn client() -> impl TypedValueParser<Value = Client> {
    let named = |client: Client| PossibleValue::new(client.name()).help(client.title());
    PossibleValuesParser::new(Client::ALL.map(named))
        .try_map(|name| Client::parse(&name).ok_or("no such client"))
}

pub(crate) fn run(args: &Connect) -> Result<ExitCode, CommandError> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => {
            let home = env_vars::get("HOME").ok_or_else(|| {
                CommandError::new("there is no home directory").hint("set HOME, or name the --file")
            })?;
            args.client.path(Path::new(&home))
        }
    };
    let now = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => None,
        Err(err) => {
            return Err(CommandError::new(format!("cannot read {}: {err}", path.display())));
        }
    };
    if args.undo { undo(args, &path, now.as_deref()) } else { connect(args, &path, now.as_deref()) }
}

fn connect(args: &Connect, path: &Path, now: Option<&str>) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    let entry = entry(args)?;
    let shape = args.client.shape();
    let after = client_config::with(now.unwrap_or_default(), shape, &entry)
        .map_err(|err| refused(path, &err, shape, &entry))?;
    if now == Some(after.as_str()) {
        printer.line(&format!("{} has muster already.", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.dry_run {
        printer.line(after.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let backup = backup(path);
    if let Some(now) = now
        && client_config::without(now, shape).ok().flatten().is_none()
    {
        write(&backup, now, path)?;
        printer.line(&format!("Kept {} as {}.", path.display(), backup.display()))?;
    }
    write(path, &after, path)?;
    printer.line(&format!("Wrote muster into {}; start the client anew.", path.display()))?;
    let name = args.client.name();
    let file =
        args.file.as_ref().map(|file| format!(" --file {}", shell_quoted(&file.to_string_lossy())));
    let file = file.unwrap_or_default();
    printer.line(&format!("Take it out again with: muster connect {name}{file} --undo"))?;
    Ok(ExitCode::SUCCESS)
}

fn undo(args: &Connect, path: &Path, now: Option<&str>) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    let shape = args.client.shape();
    let fail = |err: &EditError| CommandError::new(format!("{}: {err}", path.display()));
    let taken = match now {
        Some(text) => client_config::without(text, shape).map_err(|err| fail(&err))?,
        None => None,
    };
    let Some(taken) = taken else {
        printer.line(&format!("{} has no muster in it.", path.display()))?;
        return Ok(ExitCode::SUCCESS);
    };
    // As it was to the byte, unless the client has changed it since.
    let backup = backup(path);
    let kept = fs::read_to_string(&backup).ok();
    let before = kept.as_ref().filter(|before| same(before, &taken, shape));
    let restored = before.unwrap_or(&taken);
    // Where nothing was kept and nothing is left, there was no file.
    let is_ours = kept.is_none() && same("", &taken, shape);
    if args.dry_run {
        printer.line(if is_ours { "The file is removed." } else { restored.trim_end() })?;
        return Ok(ExitCode::SUCCESS);
    }
    match is_ours {
        true => fs::remove_file(path)?,
        false => write(path, restored, path)?,
    }
    printer.line(&format!("Took muster out of {}.", path.display()))?;
    match (before, &kept) {
        (Some(_), _) => fs::remove_file(&backup)?,
        (None, Some(_)) => printer.line(&format!(
            "The client has changed it since; as it was before muster it is kept as {}.",
            backup.display()
        ))?,
        (None, None) => (),
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether two files say the same.
fn same(one: &str, other: &str, shape: Shape) -> bool {
    match shape {
        Shape::Json(_) => {
            let read = |text: &str| match text.trim() {
                "" => Some(serde_json::json!({})),
                text => serde_json::from_str::<serde_json::Value>(text).ok(),
            };
            // Without a list of servers is as good as with an empty one.
            let plain = |text: &str| {
                let mut value = read(text)?;
                let Shape::Json(key) = shape else { return None };
                let servers = value.get(key).and_then(serde_json::Value::as_object);
                if servers.is_some_and(serde_json::Map::is_empty) {
                    value.as_object_mut()?.shift_remove(key);
                }
                Some(value)
            };
            plain(one).is_some() && plain(one) == plain(other)
        }
        Shape::Toml(_) => one.trim_end() == other.trim_end(),
    }
}

fn entry(args: &Connect) -> Result<Entry, CommandError> {
    let program = std::env::current_exe()?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut args_of = match &args.endpoint {
        Some(url) => words(&["agent", "--mcp-server", "--endpoint", url]),
        None => words(&["standalone", "--silent"]),
    };
    if let Some(folder) = &args.config_path {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        args_of.extend(["--config-path".to_owned(), folder.display().to_string()]);
    }
    Ok(Entry { command: program.display().to_string(), args: args_of })
}

fn refused(path: &Path, error: &EditError, shape: Shape, entry: &Entry) -> CommandError {
    let (Shape::Json(key) | Shape::Toml(key)) = shape;
    let text = format!("{} is left as it is: {error}", path.display());
    let line = format!("\"{}\": {}", client_config::NAME, entry.json());
    CommandError::new(text).hint(format!("write it below `{key}` by hand: {line}"))
}

fn backup(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".before-muster");
    path.with_file_name(name)
}

/// Writes a file whole: to one beside, then in place of the old, with the rights of `like`.
fn write(path: &Path, text: &str, like: &Path) -> Result<(), CommandError> {
    let failed =
        |err: std::io::Error| CommandError::new(format!("cannot write {}: {err}", path.display()));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let beside = target.with_file_name(name);
    fs::write(&beside, text).map_err(failed)?;
    if let Ok(rights) = fs::metadata(like) {
        fs::set_permissions(&beside, rights.permissions()).map_err(failed)?;
    }
    fs::rename(&beside, &target).map_err(failed)
}
