//! `muster connect`: connects an MCP client to muster.

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
    connect::{Backup, ClientFile},
    env_vars,
    import::{
        client_config::{self, EditError, ServerCommand},
        clients::{ConfigFormat, McpClient},
    },
};

use crate::{
    error::CommandError,
    output::{Printer, shell_quoted},
};

/// Connect an MCP client to muster
///
/// Adds muster to the client's configuration file. The client then starts `muster standalone`, which joins the
/// one gateway of the configuration directory and starts it if necessary, or with --endpoint, the bridge to
/// that gateway. The original file is backed up next to it; --undo restores it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster connect cursor
  muster connect claude-code --endpoint https://muster.example/mcp
  muster connect cursor --undo")]
pub(crate) struct Connect {
    /// The MCP client
    #[arg(value_parser = client())]
    client: McpClient,
    /// Connect the client to the running gateway at this endpoint
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// The configuration directory of the gateway [default: ~/.config/muster]
    #[arg(long, value_name = "DIR", conflicts_with = "endpoint")]
    config_path: Option<PathBuf>,
    /// The client's configuration file, if it is not in the default location
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Remove muster from the client's configuration
    #[arg(long)]
    undo: bool,
    /// Print the resulting file without writing it
    #[arg(long)]
    dry_run: bool,
}

/// Parses the name of an MCP client.
pub(crate) fn client() -> impl TypedValueParser<Value = McpClient> {
    let named = |client: McpClient| PossibleValue::new(client.name()).help(client.title());
    PossibleValuesParser::new(McpClient::ALL.map(named))
        .try_map(|name| McpClient::parse(&name).ok_or("no such client"))
}

pub(crate) fn run(args: &Connect) -> Result<ExitCode, CommandError> {
    let path = match &args.file {
        Some(file) => file.clone(),
        None => {
            let home = env_vars::get("HOME").ok_or_else(|| {
                CommandError::new("there is no home directory: HOME is not set")
                    .hint("set HOME, or name the file with --file")
            })?;
            args.client.path(Path::new(&home))
        }
    };
    let file = ClientFile::read(path, args.client.format())?;
    match args.undo {
        true => undo(args, &file)?,
        false => connect(args, &file)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn connect(args: &Connect, file: &ClientFile) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    let entry = entry(args)?;
    let path = file.path().display();
    let text = file.with_entry(&entry).map_err(|err| refused(args, file, &err, &entry))?;
    let Some(text) = text else {
        return printer.line(&format!("{path} is up to date."));
    };
    if args.dry_run {
        return printer.line(text.trim_end());
    }
    if file.write_entry(&text)? {
        printer.line(&format!("Backed up {path} to {}.", file.backup_path().display()))?;
    }
    printer.line(&format!("Added muster to {path}; restart the client."))?;
    let name = args.client.name();
    let flag =
        args.file.as_ref().map(|file| format!(" --file {}", shell_quoted(&file.to_string_lossy())));
    let flag = flag.unwrap_or_default();
    printer.line(&format!("Remove it with: muster connect {name}{flag} --undo"))
}

fn undo(args: &Connect, file: &ClientFile) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    let path = file.path().display();
    let removal = file.plan_removal().map_err(|err| CommandError::new(format!("{path}: {err}")))?;
    let Some(removal) = removal else {
        return printer.line(&format!("{path} does not contain muster."));
    };
    if args.dry_run {
        let text = removal.restored.as_deref().unwrap_or("The file will be deleted.");
        return printer.line(text.trim_end());
    }
    file.remove_entry(&removal)?;
    printer.line(&format!("Removed muster from {path}."))?;
    match removal.backup {
        Backup::None | Backup::Restored => Ok(()),
        Backup::Outdated => printer.line(&format!(
            "The client has changed the file since; the original is still in {}.",
            file.backup_path().display()
        )),
    }
}

/// The entry by which the client starts muster.
fn entry(args: &Connect) -> Result<ServerCommand, CommandError> {
    let program = std::env::current_exe()?;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut arguments = match &args.endpoint {
        Some(url) => words(&["agent", "--mcp-server", "--endpoint", url]),
        None => words(&["standalone"]),
    };
    if let Some(folder) = &args.config_path {
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.clone());
        arguments.extend(["--config-path".to_owned(), folder.display().to_string()]);
    }
    Ok(ServerCommand { command: program.display().to_string(), args: arguments })
}

fn refused(
    args: &Connect,
    file: &ClientFile,
    error: &EditError,
    entry: &ServerCommand,
) -> CommandError {
    let (ConfigFormat::Json(key) | ConfigFormat::Toml(key)) = args.client.format();
    let line = format!("\"{}\": {}", client_config::NAME, entry.json());
    CommandError::new(format!("cannot edit {}: {error}", file.path().display()))
        .hint(format!("add this under `{key}` yourself: {line}"))
}
