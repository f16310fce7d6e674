//! Our own credentials at an issuer that exchanges tokens, as the file of a server names them.
//!
//! Where there is no cluster a secret is a folder, with a file for each of its keys, as clusters mount them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use muster_core::{logins::LoginError, server_auth::SecretRef};

use super::{
    discovery::clean,
    identity::{Identity, Proof},
};
use crate::secret::Secret;

const ID_KEY: &str = "client-id";
const SECRET_KEY: &str = "client-secret";

/// Who we are by the secret that is named.
pub(super) fn identity(folder: Option<&Path>, named: &SecretRef) -> Result<Identity, LoginError> {
    let folder = folder.ok_or_else(|| {
        let name = clean(&named.name);
        LoginError::Refused(format!("there is no folder of secrets to look for `{name}` in"))
    })?;
    let mut place = folder.to_owned();
    for part in [&named.namespace, &named.name] {
        if !part.is_empty() {
            place.push(checked(part)?);
        }
    }
    let or =
        |key: &str, usual: &str| if key.is_empty() { usual.to_owned() } else { key.to_owned() };
    let id = value(&place, &or(&named.client_id_key, ID_KEY))?;
    let secret = value(&place, &or(&named.client_secret_key, SECRET_KEY))?;
    Ok(Identity { id, secret: Some(Secret::new(secret)), proof: Proof::Basic })
}

fn value(place: &Path, key: &str) -> Result<String, LoginError> {
    let path: PathBuf = place.join(checked(key)?);
    let text = fs::read_to_string(&path).map_err(|err| {
        LoginError::Refused(format!(
            "the secret that `clientCredentialsSecretRef` names cannot be read: {}: {err}",
            path.display()
        ))
    })?;
    Ok(text.trim().to_owned())
}

/// A name that leads nowhere else.
fn checked(name: &str) -> Result<&str, LoginError> {
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(letter) {
        return Ok(name);
    }
    Err(LoginError::Refused(format!(
        "`{}` cannot be the name of a secret: use letters, digits, `-`, `_` and `.`",
        clean(name)
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use muster_core::server_auth::SecretRef;

    use super::identity;

    #[test]
    fn secrets_are_folders() {
        let folder = tempfile::tempdir().unwrap();
        for (place, id) in [("creds", "one"), ("ns/creds", "two")] {
            let place = folder.path().join(place);
            fs::create_dir_all(&place).unwrap();
            fs::write(place.join("client-id"), format!("{id}\n")).unwrap();
            fs::write(place.join("client-secret"), " canary \n").unwrap();
            fs::write(place.join("other"), "other").unwrap();
        }
        let named = |name: &str, namespace: &str, key: &str| SecretRef {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            client_id_key: key.to_owned(),
            client_secret_key: String::new(),
        };
        for (named, expected) in [
            (named("creds", "", ""), "one"),
            (named("creds", "ns", ""), "two"),
            (named("creds", "", "other"), "other"),
            (named("nope", "", ""), "cannot be read"),
            (named("creds", "", "nope"), "cannot be read"),
            (named("../creds", "", ""), "cannot be the name"),
            (named("creds", "..", ""), "cannot be the name"),
            (named("", "", ""), "cannot be read"),
        ] {
            let found = match identity(Some(folder.path()), &named) {
                Ok(identity) => {
                    assert_eq!(identity.secret.unwrap().reveal(), "canary");
                    identity.id
                }
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{named:?}: {found}");
        }
        assert!(identity(None, &named("creds", "", "")).is_err());
    }
}
