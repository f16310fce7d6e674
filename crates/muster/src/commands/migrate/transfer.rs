//! The moves themselves.

use std::process::ExitCode;

use muster_engine::store::{ConfigStore, WriteError};
use muster_kube::{Applied, Movable, Transfer, read_all};

use super::{Migrate, Target};
use crate::{commands::serve, error::CommandError, output::Printer, process};

pub(crate) fn run(args: &Migrate) -> Result<ExitCode, CommandError> {
    let root = serve::config_path(args.config_path.as_ref())?;
    let store = ConfigStore::new(&root);
    let settings = store.load_settings().settings;
    let namespace = args.namespace.as_deref().unwrap_or_else(|| settings.namespace());
    match args.to {
        Target::Kubernetes => {
            let found = read_all(store.definitions()).map_err(failed)?;
            if found.is_empty() {
                return Err(CommandError::new(format!(
                    "there is no definition in {}",
                    root.display()
                )));
            }
            match args.apply {
                true => apply(&found, namespace),
                false => print(&found, namespace),
            }
        }
        Target::Files if args.apply => Err(CommandError::new(
            "--apply is for `muster migrate kubernetes`; files are always written",
        )),
        Target::Files => write_files(&store, namespace),
    }
}

fn failed(error: impl std::fmt::Display) -> CommandError {
    CommandError::new(error.to_string())
}

fn print(found: &[Movable], namespace: &str) -> Result<ExitCode, CommandError> {
    let manifests: Result<Vec<String>, _> =
        found.iter().map(|movable| movable.manifest(namespace)).collect();
    let text = manifests.map_err(failed)?.join("---\n");
    Printer::stdout().line(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

fn apply(found: &[Movable], namespace: &str) -> Result<ExitCode, CommandError> {
    let transfer = Transfer::new(serve::cluster_access()?, namespace).map_err(failed)?;
    let printer = Printer::stdout();
    process::block_on_code(async {
        for movable in found {
            let done = match transfer.apply(movable).await.map_err(failed)? {
                Applied::Created => "created",
                Applied::Changed => "changed",
                Applied::Unchanged => "unchanged",
            };
            printer.line(&format!("{} {done}", movable.place()))?;
        }
        Ok(ExitCode::SUCCESS)
    })
}

fn write_files(store: &ConfigStore, namespace: &str) -> Result<ExitCode, CommandError> {
    let transfer = Transfer::new(serve::cluster_access()?, namespace).map_err(failed)?;
    let (printer, files) = (Printer::stdout(), store.definitions());
    process::block_on_code(async {
        let found = transfer.read_all().await.map_err(failed)?;
        let mut kept = 0;
        for movable in &found {
            let Movable { kind, name, text } = movable;
            let path = files.place(*kind).join(format!("{name}.yaml"));
            let done = match files.create(*kind, name, text.clone()).await {
                Ok(()) => "written",
                Err(WriteError::Exists(path)) => {
                    match files.read(&path).is_ok_and(|known| known.text == *text) {
                        true => "unchanged",
                        false => {
                            kept += 1;
                            "not written: another file is there"
                        }
                    }
                }
                Err(error) => return Err(failed(error)),
            };
            printer.line(&format!("{} {done}", path.display()))?;
        }
        Ok(if kept == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}
