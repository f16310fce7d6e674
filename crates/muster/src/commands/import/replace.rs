//! `muster import --replace`: takes imported servers out of the clients' configurations.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use muster_client::import::{
    clients::McpClient,
    plan::{ImportAction, ImportStep},
    replace::{ReplacedFile, UndoError},
};

use super::{Import, sources};
use crate::{
    error::CommandError,
    output::{Printer, Tone},
};

/// A client's file, and its text without the imported servers.
pub(super) struct Replacement {
    client: McpClient,
    file: ReplacedFile,
    text: String,
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
    let names: Vec<&str> = steps.iter().filter(imported).map(|step| step.name.as_str()).collect();
    let file = ReplacedFile::read(path, client.format())?;
    let text = match file.without(&names) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(None),
        Err(error) => {
            let mark = printer.paint(Tone::Warning, "!");
            let names = names.join(", ");
            printer.line(&format!("  {mark} {error}: remove these from it yourself: {names}"))?;
            return Ok(None);
        }
    };
    let mark = printer.paint(Tone::Warning, "-");
    printer.line(&format!(
        "  {mark} removed from {}: {}",
        file.path().display(),
        names.join(", ")
    ))?;
    Ok(Some(Replacement { client, file, text }))
}

/// Writes the clients' files.
pub(super) fn apply(printer: &Printer, replacements: &[Replacement]) -> Result<(), CommandError> {
    for Replacement { client, file, text } in replacements {
        file.write(text)?;
        let (path, name) = (file.path().display(), client.name());
        let backup = file.backup_path();
        printer
            .line(&format!("Took them out of {path}; the original is in {}.", backup.display()))?;
        printer.line(&format!(
            "Use them through muster: muster connect {name}. Put them back with: muster import --from {name} --undo"
        ))?;
    }
    Ok(())
}

/// Puts the servers of the clients back.
pub(super) fn undo(args: &Import, home: &Path) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    let mut undone = 0;
    for (source, path) in sources(args, home) {
        let Some(client) = McpClient::parse(&source) else { continue };
        let file = ReplacedFile::read(path, client.format())?;
        let shown = file.path().display();
        let done = file.undo().map_err(|error| match error {
            UndoError::File(error) => error.into(),
            UndoError::Edit(error) => CommandError::new(format!("{shown}: {error}"))
                .hint(format!("the original is in {}", file.backup_path().display())),
        })?;
        if done {
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
