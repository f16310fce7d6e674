//! The copies themselves.

use std::{collections::BTreeMap, process::ExitCode};

use muster_engine::store::{ConfigStore, WriteError};
use muster_kube::{Applied, Movable, SecretFile, Transfer, read_all};

use super::{Migrate, Target};
use crate::{
    commands::serve,
    error::CommandError,
    output::{self, Printer},
    process,
};

pub(crate) fn run(args: &Migrate) -> Result<ExitCode, CommandError> {
    let root = serve::config_path(args.config_path.as_ref())?;
    let store = ConfigStore::new(&root);
    let files = store.load_settings();
    // The namespace may be in it.
    if let Some(error) = files.config_error() {
        return Err(CommandError::new(error));
    }
    let settings = files.settings;
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
            let done = match args.apply {
                true => apply(&found, namespace),
                false => print(&found, namespace),
            }?;
            if let Some(hint) = secrets_hint(&found, namespace) {
                output::hint(&hint);
            }
            Ok(done)
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
        // All of them, before the first is stored: half a configuration may be one without its policies.
        for movable in found {
            transfer.check(movable).await.map_err(failed)?;
        }
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

/// The commands that create the Secrets which definitions refer to, if there are any.
fn secrets_hint(found: &[Movable], namespace: &str) -> Option<String> {
    let mut secrets: BTreeMap<&str, Vec<&SecretFile>> = BTreeMap::new();
    for secret in found.iter().flat_map(|movable| &movable.secrets) {
        let files = secrets.entry(&secret.name).or_default();
        if !files.contains(&secret) {
            files.push(secret);
        }
    }
    let commands: Vec<String> = secrets
        .iter()
        .map(|(name, files)| {
            let files: String = files
                .iter()
                .map(|secret| format!(" --from-file={}=secrets/{}", secret.key, secret.file))
                .collect();
            format!("kubectl -n {namespace} create secret generic {name}{files}")
        })
        .collect();
    (!commands.is_empty())
        .then(|| format!("secrets are not copied; create them with:\n  {}", commands.join("\n  ")))
}

fn write_files(store: &ConfigStore, namespace: &str) -> Result<ExitCode, CommandError> {
    let transfer = Transfer::new(serve::cluster_access()?, namespace).map_err(failed)?;
    let (printer, files) = (Printer::stdout(), store.definitions());
    process::block_on_code(async {
        let found = transfer.read_all().await.map_err(failed)?;
        if found.is_empty() {
            return Err(CommandError::new(format!(
                "there is no definition in namespace `{namespace}`"
            )));
        }
        let mut kept = 0;
        for movable in &found {
            let Movable { kind, name, text, .. } = movable;
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

#[cfg(test)]
mod tests {
    use muster_config::kinds::DefinitionKind;
    use muster_kube::{Movable, SecretFile};

    use super::secrets_hint;

    #[test]
    fn the_secrets_to_create_are_listed_once() {
        let server = |secrets: &[(&str, &str, &str)]| Movable {
            kind: DefinitionKind::McpServer,
            name: "a".to_owned(),
            text: String::new(),
            secrets: secrets
                .iter()
                .map(|(name, key, file)| SecretFile {
                    name: (*name).to_owned(),
                    key: (*key).to_owned(),
                    file: (*file).to_owned(),
                })
                .collect(),
        };
        assert_eq!(secrets_hint(&[server(&[])], "ns"), None);
        let token = ("github", "TOKEN", "github.TOKEN");
        let found = [server(&[token, ("github", "USER", "github.USER")]), server(&[token])];
        let expected = "\
secrets are not copied; create them with:
  kubectl -n ns create secret generic github --from-file=TOKEN=secrets/github.TOKEN --from-file=USER=secrets/github.USER";
        assert_eq!(secrets_hint(&found, "ns").as_deref(), Some(expected));
    }
}
