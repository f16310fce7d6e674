//! Copying the files of another muster configuration, with the secrets they reference.

use std::{fs, path::Path};

use muster_config::mcpserver;

use super::{
    moved_secrets::MovedSecret,
    plan::{CopiedFile, ImportAction},
};
use crate::secrets::{self, SecretError, SecretStore};

/// Plans the copy of the file `from` to `to`, in the configuration in `root`.
pub(super) fn file(from: &Path, to: &Path, root: &Path) -> ImportAction {
    let text = match fs::read_to_string(from) {
        Ok(text) => text,
        Err(err) => return ImportAction::Skip { reason: err.to_string() },
    };
    let exists = match fs::read_to_string(to) {
        Ok(existing) if existing == text => true,
        Ok(_) => {
            let reason = format!("{} exists with other contents", to.display());
            return ImportAction::Skip { reason };
        }
        Err(_) => false,
    };
    // The file is in a resource directory, and `secrets` is a sibling of that directory.
    let Some(source) = from.parent().and_then(Path::parent) else {
        return ImportAction::Skip { reason: "it is not in a configuration directory".to_owned() };
    };
    let (mut moved, mut notes) = (Vec::new(), directory_notes(&text, root));
    for name in secrets::referenced(&text) {
        match plan_secret(&name, &SecretStore::of(source), &SecretStore::of(root)) {
            SecretAction::Exists => (),
            SecretAction::Copy(one) => moved.push(one),
            SecretAction::Missing(note) => notes.push(note),
            SecretAction::Conflict(reason) => return ImportAction::Skip { reason },
        }
    }
    let copied = CopiedFile { from: from.to_owned(), path: to.to_owned(), exists, moved, notes };
    ImportAction::Copy(Box::new(copied))
}

/// The action on a referenced secret.
enum SecretAction {
    Exists,
    Copy(MovedSecret),
    /// Neither configuration has it.
    Missing(String),
    /// It cannot be copied: the target has another secret of that name, or a file cannot be read.
    Conflict(String),
}

fn plan_secret(name: &str, source: &SecretStore, target: &SecretStore) -> SecretAction {
    match (source.get(name), target.get(name)) {
        (Ok(one), Ok(other)) if one != other => SecretAction::Conflict(format!(
            "{} exists and holds another secret",
            target.path(name).display()
        )),
        (_, Ok(_)) => SecretAction::Exists,
        (Ok(value), Err(SecretError::Missing { .. })) => SecretAction::Copy(MovedSecret::new(
            source.path(name).display().to_string(),
            name,
            value,
        )),
        (Ok(_), Err(err)) | (Err(err), Err(SecretError::Io { .. })) => {
            SecretAction::Conflict(err.to_string())
        }
        (Err(_), Err(err)) => SecretAction::Missing(err.to_string()),
    }
}

/// Notes about secrets that are directories, which are not copied.
fn directory_notes(text: &str, root: &Path) -> Vec<String> {
    let auth = mcpserver::parse(text, "x").ok().and_then(|loaded| loaded.value.spec.auth);
    let Some(auth) = auth else { return Vec::new() };
    let exchange = auth.token_exchange.and_then(|own| own.client_credentials_secret_ref);
    let teleport = auth.teleport.map(|own| own.identity_secret_name);
    let names = exchange.map(|own| own.name).into_iter().chain(teleport);
    let folder = root.join("secrets");
    names
        .filter(|name| !name.is_empty())
        .map(|name| format!("secret `{name}` is a directory: copy it into {}", folder.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::file;
    use crate::{import::plan::ImportAction, secrets::SecretStore};

    /// The plan for a file that references the secret `t`, given its value in the source and in the target.
    fn planned(source: Option<&str>, target: Option<&str>, there: bool) -> String {
        let folder = tempfile::tempdir().unwrap();
        let text = "url: http://h/mcp\nheaders: {A: 'Bearer secret://t', B: 'secret://t'}\n";
        let side = |name: &str, secret: Option<&str>, has_file: bool| {
            let root = folder.path().join(name);
            fs::create_dir_all(root.join("mcpservers")).unwrap();
            if let Some(secret) = secret {
                SecretStore::of(&root).put("t", secret).unwrap();
            }
            let path = root.join("mcpservers/a.yaml");
            if has_file {
                fs::write(&path, text).unwrap();
            }
            (root, path)
        };
        let (_, from) = side("one", source, true);
        let (root, to) = side("two", target, there);
        let short = |text: &str| text.replace(&folder.path().display().to_string(), "");
        match file(&from, &to, &root) {
            ImportAction::Copy(copy) => {
                let moved = copy.moved.iter().map(|moved| format!(" + {}", moved.name));
                let notes = copy.notes.iter().map(|note| format!(" ! {}", short(note)));
                let rest: String = moved.chain(notes).collect();
                format!("{}{rest}", if copy.exists { "same" } else { "copy" })
            }
            ImportAction::Skip { reason } => format!("skip: {}", short(&reason)),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn referenced_secrets_are_copied() {
        assert_eq!(planned(Some("s"), None, false), "copy + t");
        assert_eq!(planned(Some("s"), Some("s"), false), "copy");
        assert_eq!(planned(None, Some("s"), false), "copy");
        assert_eq!(planned(Some("s"), None, true), "same + t");
        assert_eq!(planned(Some("s"), Some("s"), true), "same");
        let other = "skip: /two/secrets/t exists and holds another secret";
        assert_eq!(planned(Some("s"), Some("z"), false), other);
        let lost = "copy ! secret `t` does not exist: write it to /two/secrets/t";
        assert_eq!(planned(None, None, false), lost);
        let gone = file(Path::new("/none/mcpservers/a"), Path::new("/x"), Path::new("/"));
        assert!(matches!(gone, ImportAction::Skip { .. }), "{gone:?}");
    }
}
