//! The gateway's credentials for token exchange, as a server's `clientCredentialsSecretRef` names them.
//!
//! Outside a cluster a secret is a folder with a file for each key, the way clusters mount secrets.

use std::{
    fs,
    path::{Path, PathBuf},
};

use muster_core::{logins::LoginError, secret_source::SecretSource, server_auth::SecretRef};

use crate::{
    oauth::{ClientAuthMethod, ClientIdentity},
    secret::Secret,
    text::printable,
};

const ID_KEY: &str = "client-id";
const SECRET_KEY: &str = "client-secret";

/// Reads the client id and secret that `reference` names, from a cluster if there is one.
pub(super) async fn read(
    cluster: Option<&dyn SecretSource>,
    folder: Option<&Path>,
    reference: &SecretRef,
) -> Result<ClientIdentity, LoginError> {
    let Some(cluster) = cluster else { return load(folder, reference) };
    let read = async |key: &str, default: &'static str| {
        let key = if key.is_empty() { default } else { key };
        let value = cluster.secret(&reference.namespace, &reference.name, key).await;
        value.map_err(LoginError::Refused)
    };
    let id = read(&reference.client_id_key, ID_KEY).await?.reveal().clone();
    let secret = Some(read(&reference.client_secret_key, SECRET_KEY).await?);
    Ok(ClientIdentity { id, secret, auth_method: ClientAuthMethod::Basic })
}

/// Reads the client id and secret that `reference` names, below the folder of secrets.
pub(crate) fn load(
    folder: Option<&Path>,
    reference: &SecretRef,
) -> Result<ClientIdentity, LoginError> {
    let folder = folder.ok_or_else(|| {
        let name = printable(&reference.name);
        LoginError::Refused(format!(
            "secret `{name}` cannot be read: there is no folder of secrets"
        ))
    })?;
    let mut path = folder.to_owned();
    for part in [&reference.namespace, &reference.name] {
        if !part.is_empty() {
            path.push(checked(part)?);
        }
    }
    let read = |key: &str, default: &str| value(&path, if key.is_empty() { default } else { key });
    let id = read(&reference.client_id_key, ID_KEY)?;
    let secret = Some(Secret::new(read(&reference.client_secret_key, SECRET_KEY)?));
    Ok(ClientIdentity { id, secret, auth_method: ClientAuthMethod::Basic })
}

fn value(folder: &Path, key: &str) -> Result<String, LoginError> {
    let path: PathBuf = folder.join(checked(key)?);
    let text = fs::read_to_string(&path).map_err(|err| {
        LoginError::Refused(format!(
            "the secret that `clientCredentialsSecretRef` names cannot be read: {}: {err}",
            path.display()
        ))
    })?;
    Ok(text.trim().to_owned())
}

/// Refuses a name that would lead to another folder.
fn checked(name: &str) -> Result<&str, LoginError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    if !name.is_empty() && !name.starts_with('.') && name.chars().all(allowed) {
        return Ok(name);
    }
    Err(LoginError::Refused(format!(
        "`{}` cannot be the name of a secret: use letters, digits, `-`, `_` and `.`",
        printable(name)
    )))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use muster_core::server_auth::SecretRef;

    use super::load;

    #[test]
    fn secrets_are_folders() {
        let folder = tempfile::tempdir().unwrap();
        for (path, id) in [("creds", "one"), ("ns/creds", "two")] {
            let path = folder.path().join(path);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("client-id"), format!("{id}\n")).unwrap();
            fs::write(path.join("client-secret"), " canary \n").unwrap();
            fs::write(path.join("other"), "other").unwrap();
        }
        let secret_ref = |name: &str, namespace: &str, key: &str| SecretRef {
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            client_id_key: key.to_owned(),
            client_secret_key: String::new(),
        };
        for (reference, expected) in [
            (secret_ref("creds", "", ""), "one"),
            (secret_ref("creds", "ns", ""), "two"),
            (secret_ref("creds", "", "other"), "other"),
            (secret_ref("nope", "", ""), "cannot be read"),
            (secret_ref("creds", "", "nope"), "cannot be read"),
            (secret_ref("../creds", "", ""), "cannot be the name"),
            (secret_ref("creds", "..", ""), "cannot be the name"),
            (secret_ref("", "", ""), "cannot be read"),
        ] {
            let found = match load(Some(folder.path()), &reference) {
                Ok(identity) => {
                    assert_eq!(identity.secret.unwrap().reveal(), "canary");
                    identity.id
                }
                Err(error) => error.to_string(),
            };
            assert!(found.contains(expected), "{reference:?}: {found}");
        }
        assert!(load(None, &secret_ref("creds", "", "")).is_err());
    }
}
