//! Files of muster's own on their way into another configuration, with the secrets that they name.

use std::{fs, path::Path};

use muster_config::mcpserver;

use super::plan::{Copied, Moved, What};
use crate::secrets::{self, SecretError, SecretStore};

/// What becomes of the file `from`, which would be `to` in the configuration in `root`.
pub(super) fn file(from: &Path, to: &Path, root: &Path) -> What {
    let text = match fs::read_to_string(from) {
        Ok(text) => text,
        Err(err) => return What::Skip { reason: err.to_string() },
    };
    let is_there = match fs::read_to_string(to) {
        Ok(there) if there == text => true,
        Ok(_) => {
            let reason = format!("{} is there and says something else", to.display());
            return What::Skip { reason };
        }
        Err(_) => false,
    };
    // A file lies in a folder of its configuration, and the secrets lie beside that folder.
    let Some(source) = from.parent().and_then(Path::parent) else {
        return What::Skip { reason: "it lies in no folder".to_owned() };
    };
    let (mut moved, mut notes) = (Vec::new(), folders(&text, root));
    for name in secrets::named(&text) {
        match brought(&name, &SecretStore::of(source), &SecretStore::of(root)) {
            Brought::There => (),
            Brought::Comes(one) => moved.push(one),
            Brought::Lost(note) => notes.push(note),
            Brought::Other(reason) => return What::Skip { reason },
        }
    }
    let copied = Copied { from: from.to_owned(), path: to.to_owned(), is_there, moved, notes };
    What::Copy(Box::new(copied))
}

/// What becomes of a secret.
enum Brought {
    There,
    Comes(Moved),
    /// Nobody has it.
    Lost(String),
    /// There is another one of that name.
    Other(String),
}

fn brought(name: &str, source: &SecretStore, target: &SecretStore) -> Brought {
    match (source.get(name), target.get(name)) {
        (Ok(one), Ok(other)) if one != other => Brought::Other(format!(
            "{} is there and holds another secret",
            target.path(name).display()
        )),
        (_, Ok(_)) => Brought::There,
        (Ok(value), Err(SecretError::Missing { .. })) => {
            Brought::Comes(Moved::new(source.path(name).display().to_string(), name, value))
        }
        (Ok(_), Err(err)) | (Err(err), Err(SecretError::Io { .. })) => {
            Brought::Other(err.to_string())
        }
        (Err(_), Err(err)) => Brought::Lost(err.to_string()),
    }
}

/// Secrets that are whole folders stay where they are.
fn folders(text: &str, root: &Path) -> Vec<String> {
    let auth = mcpserver::parse(text, "x").ok().and_then(|loaded| loaded.value.spec.auth);
    let Some(auth) = auth else { return Vec::new() };
    let exchange = auth.token_exchange.and_then(|own| own.client_credentials_secret_ref);
    let teleport = auth.teleport.map(|own| own.identity_secret_name);
    let names = exchange.map(|own| own.name).into_iter().chain(teleport);
    let folder = root.join("secrets");
    names
        .filter(|name| !name.is_empty())
        .map(|name| format!("secret `{name}` is a folder: put it into {}", folder.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::file;
    use crate::{import::plan::What, secrets::SecretStore};

    /// What becomes of a file that names the secret `t`, by what each side holds of it.
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
            What::Copy(copy) => {
                let moved = copy.moved.iter().map(|moved| format!(" + {}", moved.name));
                let notes = copy.notes.iter().map(|note| format!(" ! {}", short(note)));
                let rest: String = moved.chain(notes).collect();
                format!("{}{rest}", if copy.is_there { "same" } else { "copy" })
            }
            What::Skip { reason } => format!("skip: {}", short(&reason)),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn secrets_come_along() {
        assert_eq!(planned(Some("s"), None, false), "copy + t");
        assert_eq!(planned(Some("s"), Some("s"), false), "copy");
        assert_eq!(planned(None, Some("s"), false), "copy");
        assert_eq!(planned(Some("s"), None, true), "same + t");
        assert_eq!(planned(Some("s"), Some("s"), true), "same");
        let other = "skip: /two/secrets/t is there and holds another secret";
        assert_eq!(planned(Some("s"), Some("z"), false), other);
        let lost = "copy ! secret `t` is not there: put it into /two/secrets/t";
        assert_eq!(planned(None, None, false), lost);
        let gone = file(Path::new("/none/mcpservers/a"), Path::new("/x"), Path::new("/"));
        assert!(matches!(gone, What::Skip { .. }), "{gone:?}");
    }
}
