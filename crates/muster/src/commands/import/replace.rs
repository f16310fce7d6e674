//! `muster import --replace`: takes imported servers out of the clients' configurations.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use muster_client::import::{
    clients::McpClient,
    plan::{ImportAction, ImportStep},
    read::EntryKey,
    replace::{ReplaceError, ReplacedFile},
};

use super::{Import, sources};
use crate::{
    error::CommandError,
    output::{Printer, Tone},
};

/// A client's file as it was when planning, and the entries to take out of it.
pub(super) struct Replacement {
    client: McpClient,
    file: ReplacedFile,
    keys: Vec<EntryKey>,
}

/// Plans the removal of the servers that are imported from a client's file.
pub(super) fn planned(
    printer: &Printer,
    source: &str,
    path: PathBuf,
    steps: &[ImportStep],
) -> Result<Option<Replacement>, CommandError> {
    let Some(client) = McpClient::parse(source) else { return Ok(None) };
    let imported = |step: &&ImportStep| match step.action {
        ImportAction::Write(_) | ImportAction::Same { .. } => true,
        ImportAction::Copy(_) | ImportAction::Skip { .. } => false,
    };
    let keys: Vec<EntryKey> = steps.iter().filter(imported).map(|step| step.key.clone()).collect();
    let file = ReplacedFile::read(path, client.format())?;
    let keys = match file.present(&keys) {
        Ok(keys) if keys.is_empty() => return Ok(None),
        Ok(keys) => keys,
        Err(error) => {
            let mark = printer.paint(Tone::Warning, "!");
            let names = names(&keys);
            printer.line(&format!("  {mark} {error}: remove these from it yourself: {names}"))?;
            return Ok(None);
        }
    };
    let (mark, path) = (printer.paint(Tone::Warning, "-"), file.path().display());
    printer.line(&format!("  {mark} removed from {path}: {}", names(&keys)))?;
    Ok(Some(Replacement { client, file, keys }))
}

fn names(keys: &[EntryKey]) -> String {
    let name = |key: &EntryKey| match &key.project {
        None => key.name.clone(),
        Some(project) => format!("{} ({project})", key.name),
    };
    keys.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// Writes the clients' files.
pub(super) fn apply(printer: &Printer, replacements: &[Replacement]) -> Result<(), CommandError> {
    for Replacement { client, file, keys } in replacements {
        let path = file.path().display();
        let changed = file.take_out(keys).map_err(|error| failed(file, error))?;
        if !changed.is_empty() {
            let mark = printer.paint(Tone::Warning, "!");
            let names = names(&changed);
            printer.line(&format!(
                "{mark} {} has changed these in {path} meanwhile, so they stay there: {names}",
                client.title()
            ))?;
        }
        if changed.len() == keys.len() {
            continue;
        }
        let (name, backup) = (client.name(), file.backup_path());
        printer
            .line(&format!("Took them out of {path}; the original is in {}.", backup.display()))?;
        printer.line(&format!(
            "Use them through muster: muster connect {name}. Put them back with: muster import --from {name} --undo"
        ))?;
    }
    Ok(())
}

fn failed(file: &ReplacedFile, error: ReplaceError) -> CommandError {
    match error {
        ReplaceError::File(error) => error.into(),
        ReplaceError::Edit(error) => {
            let error = CommandError::new(format!("{}: {error}", file.path().display()));
            match file.backup_path() {
                backup if backup.exists() => {
                    error.hint(format!("the original is in {}", backup.display()))
                }
                _ => error,
            }
        }
    }
}

/// Puts the servers of the clients back.
pub(super) fn undo(args: &Import, home: &Path) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    let mut undone = 0;
    for (source, path) in sources(args, home) {
        let Some(client) = McpClient::parse(&source) else { continue };
        let file = ReplacedFile::read(path, client.format())?;
        let shown = file.path().display();
        if file.undo().map_err(|error| failed(&file, error))? {
            undone += 1;
            printer
                .line(&format!("Put the servers back into {shown}; restart {}.", client.title()))?;
        }
    }
    if undone == 0 {
        printer.line("No client has servers that were taken out.")?;
    }
    Ok(ExitCode::SUCCESS)
}
