//! The gateway's credentials for token exchange, as a server's `clientCredentialsSecretRef` names them.
//!
//! Outside a cluster, a secret is a folder with one file per key, as Kubernetes mounts Secrets.

use std::{
    fs,
    path::{Path, PathBuf},
};

use muster_core::{
    logins::LoginError,
    secret_source::{SecretSource, SecretSourceError},
    server_auth::SecretRef,
};

use crate::{
    oauth::{ClientAuthMethod, ClientIdentity},
    secret::Secret,
    text::printable,
};

const ID_KEY: &str = "client-id";
const SECRET_KEY: &str = "client-secret";

/// The location of the secrets that settings and definitions refer to.
#[derive(Debug, Clone, Copy, Default)]
pub struct SecretLocation<'a> {
    /// The cluster, used instead of the folder.
    pub cluster: Option<&'a dyn SecretSource>,
    /// A folder of the configuration directory.
    pub folder: Option<&'a Path>,
}

/// Reads the client id and secret that `reference` names.
pub(crate) async fn read(
    location: SecretLocation<'_>,
    reference: &SecretRef,
) -> Result<ClientIdentity, LoginError> {
    let Some(cluster) = location.cluster else { return load(location.folder, reference) };
    let SecretRef { name, namespace, client_id_key, client_secret_key } = reference;
    let keys = [or_default(client_id_key, ID_KEY), or_default(client_secret_key, SECRET_KEY)];
    let values = cluster.secrets(namespace, name, &keys).await.map_err(|error| match error {
        SecretSourceError::Missing(reason) => LoginError::Refused(reason),
        SecretSourceError::Unavailable(reason) => LoginError::Unavailable(reason),
    })?;
    let mut values = values.into_iter();
    let id = values.next().map(|id| id.reveal().clone()).unwrap_or_default();
    Ok(ClientIdentity { id, secret: values.next(), auth_method: ClientAuthMethod::Basic })
}

fn or_default<'a>(key: &'a str, default: &'a str) -> &'a str {
    if key.is_empty() { default } else { key }
}

/// Reads the client id and secret that `reference` names, below the folder of secrets.
fn load(folder: Option<&Path>, reference: &SecretRef) -> Result<ClientIdentity, LoginError> {
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
    let id = value(&path, or_default(&reference.client_id_key, ID_KEY))?;
    let secret = value(&path, or_default(&reference.client_secret_key, SECRET_KEY))?;
    let secret = Some(Secret::new(secret));
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

/// Refuses a name that would escape the folder.
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

    use muster_core::{
        logins::LoginError,
        secret_source::{SecretFuture, SecretSource, SecretSourceError},
        server_auth::SecretRef,
    };

    use super::{SecretLocation, load, read};
    use crate::secret::Secret;

    /// A cluster whose Secrets hold the names of their keys.
    #[derive(Debug)]
    struct Cluster;

    impl SecretSource for Cluster {
        fn secrets<'a>(
            &'a self,
            _: &'a str,
            name: &'a str,
            keys: &'a [&'a str],
        ) -> SecretFuture<'a, Vec<Secret>> {
            let values = match name {
                "down" => Err(SecretSourceError::Unavailable("no answer".to_owned())),
                "missing" => Err(SecretSourceError::Missing("not there".to_owned())),
                _ => Ok(keys.iter().map(|key| Secret::new((*key).to_owned())).collect()),
            };
            Box::pin(std::future::ready(values))
        }
    }

    #[tokio::test]
    async fn an_outage_of_the_cluster_does_not_refuse_a_login() {
        let location = SecretLocation { cluster: Some(&Cluster), folder: None };
        let read = async |name: &str| {
            let name = name.to_owned();
            let reference = SecretRef {
                name,
                namespace: String::new(),
                client_id_key: String::new(),
                client_secret_key: "key".to_owned(),
            };
            read(location, &reference).await
        };
        let identity = read("creds").await.unwrap();
        assert_eq!(identity.id, "client-id");
        assert_eq!(identity.secret.unwrap().reveal(), "key");
        let expected = LoginError::Unavailable("no answer".to_owned());
        assert_eq!(read("down").await.unwrap_err(), expected);
        let expected = LoginError::Refused("not there".to_owned());
        assert_eq!(read("missing").await.unwrap_err(), expected);
    }

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
