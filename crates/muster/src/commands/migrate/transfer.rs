//! Copies the definitions.

use std::{collections::BTreeMap, path::Path, process::ExitCode};

use muster_core::text::shell_quoted;
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
    // Check for errors first, because `config.yaml` may set the namespace.
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
            if let Some(hint) = secrets_to_create(&found, namespace, &root) {
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
        // Check all before storing the first: half a configuration may be one without its policies.
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

/// The secrets that definitions refer to, by namespace and name.
fn secrets<'a>(
    found: &'a [Movable],
    namespace: &'a str,
) -> BTreeMap<(&'a str, &'a str), Vec<&'a SecretFile>> {
    let mut secrets: BTreeMap<_, Vec<&SecretFile>> = BTreeMap::new();
    for secret in found.iter().flat_map(|movable| &movable.secrets) {
        let own = secret.namespace.as_str();
        let namespace = if own.is_empty() { namespace } else { own };
        let files = secrets.entry((namespace, secret.name.as_str())).or_default();
        if !files.contains(&secret) {
            files.push(secret);
        }
    }
    secrets
}

/// The path of a secret's file.
fn file_of(secret: &SecretFile, root: &Path) -> String {
    root.join("secrets").join(&secret.file).display().to_string()
}

/// The commands that create the Secrets which definitions refer to, if there are any.
fn secrets_to_create(found: &[Movable], namespace: &str, root: &Path) -> Option<String> {
    let commands: Vec<String> = secrets(found, namespace)
        .into_iter()
        .map(|((namespace, name), files)| {
            let files: String = files
                .iter()
                .map(|secret| {
                    let file = format!("{}={}", secret.key, file_of(secret, root));
                    format!(" --from-file={}", shell_quoted(&file))
                })
                .collect();
            format!("kubectl -n {namespace} create secret generic {name}{files}")
        })
        .collect();
    (!commands.is_empty())
        .then(|| format!("secrets are not copied; create them with:\n  {}", commands.join("\n  ")))
}

/// The commands that write the files of the secrets which definitions refer to, if there are any.
fn secrets_to_write(found: &[Movable], namespace: &str, root: &Path) -> Option<String> {
    let mut commands = Vec::new();
    for ((namespace, name), files) in secrets(found, namespace) {
        for secret in files {
            let file = file_of(secret, root);
            let folder = Path::new(&file).parent().unwrap_or(root).display().to_string();
            let value =
                shell_quoted(&format!("{{{{index .data {:?} | base64decode}}}}", secret.key));
            commands.push(format!(
                "mkdir -p {} && kubectl -n {namespace} get secret {name} -o go-template={value} > {}",
                shell_quoted(&folder),
                shell_quoted(&file)
            ));
        }
    }
    (!commands.is_empty()).then(|| {
        format!(
            "secrets are not copied; write them with:\n  umask 077\n  {}",
            commands.join("\n  ")
        )
    })
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
        if let Some(hint) = secrets_to_write(&found, namespace, store.root()) {
            output::hint(&hint);
        }
        Ok(if kept == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use muster_config::kinds::DefinitionKind;
    use muster_kube::{Movable, SecretFile};

    use super::{secrets_to_create, secrets_to_write};

    fn server(secrets: &[(&str, &str, &str, &str)]) -> Movable {
        Movable {
            kind: DefinitionKind::McpServer,
            name: "a".to_owned(),
            text: String::new(),
            secrets: secrets
                .iter()
                .map(|(namespace, name, key, file)| SecretFile {
                    namespace: (*namespace).to_owned(),
                    name: (*name).to_owned(),
                    key: (*key).to_owned(),
                    file: (*file).to_owned(),
                })
                .collect(),
        }
    }

    #[test]
    fn the_secrets_to_create_are_listed_once_with_their_files() {
        let root = Path::new("/etc/my muster");
        assert_eq!(secrets_to_create(&[server(&[])], "ns", root), None);
        let token = ("", "github", "TOKEN", "github.TOKEN");
        let client = ("dex", "client", "client-id", "dex/client/client-id");
        let found =
            [server(&[token, ("", "github", "USER", "github.USER")]), server(&[token, client])];
        let expected = "\
secrets are not copied; create them with:
  kubectl -n dex create secret generic client --from-file='client-id=/etc/my muster/secrets/dex/client/client-id'
  kubectl -n ns create secret generic github --from-file='TOKEN=/etc/my muster/secrets/github.TOKEN' --from-file='USER=/etc/my muster/secrets/github.USER'";
        assert_eq!(secrets_to_create(&found, "ns", root).as_deref(), Some(expected));
    }

    #[test]
    fn the_files_of_secrets_to_write_are_listed_once() {
        let root = Path::new("/etc/muster");
        assert_eq!(secrets_to_write(&[server(&[])], "ns", root), None);
        let token = ("", "github", "tls.crt", "github.tls.crt");
        let found = [server(&[token]), server(&[token, ("dex", "c", "id", "dex/c/id")])];
        let expected = "\
secrets are not copied; write them with:
  umask 077
  mkdir -p /etc/muster/secrets/dex/c && kubectl -n dex get secret c -o go-template='{{index .data \"id\" | base64decode}}' > /etc/muster/secrets/dex/c/id
  mkdir -p /etc/muster/secrets && kubectl -n ns get secret github -o go-template='{{index .data \"tls.crt\" | base64decode}}' > /etc/muster/secrets/github.tls.crt";
        assert_eq!(secrets_to_write(&found, "ns", root).as_deref(), Some(expected));
    }
}
