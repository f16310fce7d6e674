//! The secret store of a configuration: one private file per secret, referenced as `secret://NAME`.
//!
//! **Invariant:** a secret goes only into the environment, arguments, URL or headers of a server. Errors
//! name the secret, never its value.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_core::{
    backend::BoxFuture,
    connect::{ConnectError, ConnectRequest, ConnectResult, Connector, Endpoint, MachineIdentity},
    secret::Secret,
    secret_source::{SecretSource, SecretSourceError, references},
};
use thiserror::Error;

const SCHEME: &str = "secret://";

/// Why a secret cannot be read or stored.
#[derive(Debug, Error)]
pub enum SecretError {
    /// There is no secret of that name.
    #[error("secret `{name}` does not exist: write it to {}", .path.display())]
    Missing {
        /// Its name.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// Another secret has that name.
    #[error("secret `{name}` exists with another value: delete {} if nothing uses it", .path.display())]
    Taken {
        /// Its name.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// The name has characters that are not allowed: it could be a path.
    #[error("invalid secret name `{0}`: use letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// The file cannot be read or written.
    #[error("secret `{name}`: {source}")]
    Io {
        /// Its name.
        name: String,
        /// The cause.
        source: io::Error,
    },
}

/// The secrets of one configuration.
#[derive(Debug, Clone)]
pub struct SecretStore {
    folder: PathBuf,
}

impl SecretStore {
    /// The store of the configuration in `root`.
    pub fn of(root: &Path) -> Self {
        Self { folder: root.join("secrets") }
    }

    /// The file of a secret.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The value of a secret.
    pub fn get(&self, name: &str) -> Result<String, SecretError> {
        check(name)?;
        match fs::read_to_string(self.path(name)) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(err) if err.kind() == io::ErrorKind::NotFound => {
                Err(SecretError::Missing { name: name.to_owned(), path: self.path(name) })
            }
            Err(source) => Err(SecretError::Io { name: name.to_owned(), source }),
        }
    }

    /// Stores a secret, replacing an existing one of the same name.
    pub fn put(&self, name: &str, value: &str) -> Result<(), SecretError> {
        check(name)?;
        let failed = |source| SecretError::Io { name: name.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let temporary = self.folder.join(format!(".tmp-{}-{name}", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&temporary);
        let written = file
            .and_then(|mut file| {
                io::Write::write_all(&mut file, value.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&temporary, self.path(name)));
        if written.is_err() {
            drop(fs::remove_file(&temporary));
        }
        written.map_err(failed)
    }

    /// Replaces every reference in a text by its secret.
    pub fn resolve(&self, text: &str) -> Result<String, SecretError> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, after_name)) = next_reference(rest) {
            filled.push_str(before);
            filled.push_str(&self.get(name)?);
            rest = after_name;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn resolve_endpoint(&self, endpoint: &Endpoint) -> Result<Endpoint, SecretError> {
        let mut resolved = endpoint.clone();
        for text in resolved.texts_mut() {
            *text = self.resolve(text)?;
        }
        Ok(resolved)
    }
}

/// The reference to a secret, as a configuration contains it.
pub fn reference(name: &str) -> String {
    format!("{SCHEME}{name}")
}

/// Whether a text references a secret.
pub fn is_reference(text: &str) -> bool {
    text.contains(SCHEME)
}

/// The names of the secrets that a text references, without duplicates.
pub fn referenced(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((_, name, after_name)) = next_reference(rest) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        rest = after_name;
    }
    names
}

/// The text before the first reference, the name of its secret, and the text after it.
fn next_reference(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once(SCHEME)?;
    let end = after.find(|letter| !is_name_char(letter)).unwrap_or(after.len());
    let (name, after_name) = after.split_at(end);
    Some((before, name, after_name))
}

fn is_name_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

fn check(name: &str) -> Result<(), SecretError> {
    let fits = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_name_char);
    if fits { Ok(()) } else { Err(SecretError::Name(name.to_owned())) }
}

/// A connector that resolves secret references before it connects.
#[derive(Debug)]
pub struct SecretConnector<C> {
    secrets: SecretStore,
    /// The secrets of the cluster, used instead of the store.
    cluster: Option<Arc<dyn SecretSource>>,
    inner: Arc<C>,
}

impl<C> SecretConnector<C> {
    /// Wraps `inner`.
    pub fn new(secrets: SecretStore, inner: Arc<C>) -> Self {
        Self { secrets, cluster: None, inner }
    }

    /// Reads secrets from `cluster` instead of the store, if there is one.
    #[must_use]
    pub fn in_cluster(self, cluster: Option<Arc<dyn SecretSource>>) -> Self {
        Self { cluster, ..self }
    }
}

/// Replaces every reference in an endpoint by a secret of the cluster.
async fn resolve_in_cluster(
    cluster: &dyn SecretSource,
    endpoint: &Endpoint,
) -> Result<Endpoint, SecretSourceError> {
    let mut resolved = endpoint.clone();
    for text in resolved.texts_mut() {
        let written = text.clone();
        // Replace from the end, so that earlier ranges stay valid.
        for (range, name, key) in references(&written).into_iter().rev() {
            for secret in cluster.secrets("", name, &[key]).await? {
                text.replace_range(range.clone(), secret.reveal());
            }
        }
    }
    if let Endpoint::Mtls { identity, .. } = &mut resolved
        && let MachineIdentity::Secret { namespace, name } = identity
    {
        // Read all three at once: a certificate only matches the key of the same version.
        let keys = [MachineIdentity::CERTIFICATE, MachineIdentity::KEY, MachineIdentity::AUTHORITY];
        let values = cluster.secrets(namespace, name, &keys).await?;
        if let Ok([certificate, key, authority]) = <[Secret; 3]>::try_from(values) {
            *identity = MachineIdentity::Pem { certificate, key, authority };
        }
    }
    Ok(resolved)
}

fn connect_error(error: SecretSourceError) -> ConnectError {
    match error {
        SecretSourceError::Missing(reason) => ConnectError::Permanent(reason),
        SecretSourceError::Unavailable(reason) => ConnectError::Transient(reason),
    }
}

impl<C: Connector> Connector for SecretConnector<C> {
    fn connect<'a>(&'a self, request: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult> {
        Box::pin(async move {
            // Do not cache secrets: the next attempt must use one that was corrected meanwhile.
            let endpoint = match &self.cluster {
                Some(cluster) => {
                    let resolved = resolve_in_cluster(&**cluster, request.endpoint).await;
                    resolved.map_err(connect_error)?
                }
                None => {
                    let resolved = self.secrets.resolve_endpoint(request.endpoint);
                    resolved.map_err(|error| ConnectError::Permanent(error.to_string()))?
                }
            };
            self.inner.connect(ConnectRequest { endpoint: &endpoint, ..request }).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use muster_core::{
        connect::{ConnectError, Endpoint, MachineIdentity},
        secret::Secret,
        secret_source::{SecretFuture, SecretSource, SecretSourceError},
    };

    use super::{SecretStore, connect_error, resolve_in_cluster};

    /// Secrets whose values are their namespaces, names and keys.
    #[derive(Debug)]
    struct EchoSecrets;

    impl SecretSource for EchoSecrets {
        fn secrets<'a>(
            &'a self,
            namespace: &'a str,
            name: &'a str,
            keys: &'a [&'a str],
        ) -> SecretFuture<'a, Vec<Secret>> {
            let value = |key: &&str| Secret::new(format!("{namespace}/{name}/{key}"));
            let values = match name {
                "missing" => Err(SecretSourceError::Missing("there is none".to_owned())),
                "down" => Err(SecretSourceError::Unavailable("no answer".to_owned())),
                _ => Ok(keys.iter().map(value).collect()),
            };
            Box::pin(std::future::ready(values))
        }
    }

    #[tokio::test]
    async fn the_identity_of_a_machine_may_be_a_secret_of_the_cluster() {
        let endpoint = |name: &str| Endpoint::Mtls {
            url: "https://h/mcp".to_owned(),
            headers: vec![("T".to_owned(), "secret://t/k".to_owned())],
            identity: MachineIdentity::Secret { namespace: "n".to_owned(), name: name.to_owned() },
            app: String::new(),
        };
        let found = resolve_in_cluster(&EchoSecrets, &endpoint("tbot")).await.unwrap();
        let Endpoint::Mtls { headers, identity, .. } = found else { panic!("{found:?}") };
        assert_eq!(headers, [("T".to_owned(), "/t/k".to_owned())]);
        let part = |key: &str| Secret::new(format!("n/tbot/{key}"));
        let expected = MachineIdentity::Pem {
            certificate: part("tlscert"),
            key: part("key"),
            authority: part("teleport-application-ca.pem"),
        };
        assert_eq!(identity, expected);
        let missing = resolve_in_cluster(&EchoSecrets, &endpoint("missing")).await.unwrap_err();
        assert!(matches!(connect_error(missing), ConnectError::Permanent(_)));
        let down = resolve_in_cluster(&EchoSecrets, &endpoint("down")).await.unwrap_err();
        assert!(matches!(connect_error(down), ConnectError::Transient(_)), "it is tried again");
    }

    #[test]
    fn references_are_resolved() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = SecretStore::of(folder.path());
        secrets.put("a.b-c_1", "s3cret\n").unwrap();
        let resolved = |text: &str| secrets.resolve(text).map_err(|err| err.to_string());
        assert_eq!(resolved("plain").unwrap(), "plain");
        assert_eq!(resolved("Bearer secret://a.b-c_1, x").unwrap(), "Bearer s3cret, x");
        assert!(resolved("secret://nope").unwrap_err().contains("`nope` does not exist"));
        assert!(resolved("secret://../x").unwrap_err().contains("invalid secret name"));
        let mode = |path: std::path::PathBuf| {
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode(secrets.path("a.b-c_1")), 0o600);
        assert_eq!(mode(folder.path().join("secrets")), 0o700);
    }
}
