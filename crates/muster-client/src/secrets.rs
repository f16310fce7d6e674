//! Secrets beside the configuration: a file each that nobody else can read, and `secret://NAME` where
//! the configuration needs one.
//!
//! **Invariant:** what is read here goes into the environment, the arguments or the headers of a
//! server, and nowhere else. Errors name the secret, never its value.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_core::{
    backend::BoxFuture,
    connect::{ConnectError, Connection, ConnectionObserver, Connector, Endpoint},
    logins::AccessTokenSource,
};
use thiserror::Error;

const SCHEME: &str = "secret://";

/// Why a secret cannot be had or kept.
#[derive(Debug, Error)]
pub enum SecretError {
    /// There is none of that name.
    #[error("secret `{name}` is not there: put it into {}", .path.display())]
    Missing {
        /// Its name.
        name: String,
        /// Where it would be.
        path: PathBuf,
    },
    /// A name that could lead elsewhere.
    #[error("`{0}` cannot be the name of a secret: use letters, digits, `-`, `_` and `.`")]
    Name(String),
    /// The file cannot be read or written.
    #[error("secret `{name}`: {source}")]
    Io {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
}

/// The secrets of one configuration.
#[derive(Debug, Clone)]
pub struct SecretStore {
    folder: PathBuf,
}

impl SecretStore {
    /// Those beside the configuration in `root`.
    pub fn of(root: &Path) -> Self {
        Self { folder: root.join("secrets") }
    }

    /// The file of a secret.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A secret by its name.
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

    /// Keeps a secret, in place of an older one of that name.
    pub fn put(&self, name: &str, value: &str) -> Result<(), SecretError> {
        check(name)?;
        let failed = |source| SecretError::Io { name: name.to_owned(), source };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed)?;
        let beside = self.folder.join(format!(".tmp-{}-{name}", std::process::id()));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&beside);
        let written = file
            .and_then(|mut file| {
                io::Write::write_all(&mut file, value.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&beside, self.path(name)));
        if written.is_err() {
            drop(fs::remove_file(&beside));
        }
        written.map_err(failed)
    }

    /// Text with the secrets that it names.
    pub fn fill(&self, text: &str) -> Result<String, SecretError> {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, behind)) = next(rest) {
            filled.push_str(before);
            filled.push_str(&self.get(name)?);
            rest = behind;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn filled(&self, endpoint: &Endpoint) -> Result<Endpoint, SecretError> {
        let pairs = |pairs: &[(String, String)]| -> Result<Vec<_>, SecretError> {
            let filled = pairs.iter().map(|(key, value)| Ok((key.clone(), self.fill(value)?)));
            filled.collect()
        };
        Ok(match endpoint {
            Endpoint::Stdio { command, args, env } => Endpoint::Stdio {
                command: command.clone(),
                args: args.iter().map(|arg| self.fill(arg)).collect::<Result<_, _>>()?,
                env: pairs(env)?,
            },
            Endpoint::Http { url, headers } => {
                Endpoint::Http { url: self.fill(url)?, headers: pairs(headers)? }
            }
            Endpoint::Mtls { url, headers, identity, app } => Endpoint::Mtls {
                url: self.fill(url)?,
                headers: pairs(headers)?,
                identity: identity.clone(),
                app: app.clone(),
            },
            Endpoint::Sse { url, headers } => {
                Endpoint::Sse { url: self.fill(url)?, headers: pairs(headers)? }
            }
        })
    }
}

/// How a configuration names a secret.
pub fn reference(name: &str) -> String {
    format!("{SCHEME}{name}")
}

/// Whether text names a secret.
pub fn is_reference(text: &str) -> bool {
    text.contains(SCHEME)
}

/// The names of the secrets in a text, each once.
pub fn named(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some((_, name, behind)) = next(rest) {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        rest = behind;
    }
    names
}

/// What stands before the first secret that a text names, its name, and what follows.
fn next(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once(SCHEME)?;
    let end = after.find(|letter| !is_letter(letter)).unwrap_or(after.len());
    let (name, behind) = after.split_at(end);
    Some((before, name, behind))
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.')
}

fn check(name: &str) -> Result<(), SecretError> {
    let fits = !name.is_empty() && !name.starts_with('.') && name.chars().all(is_letter);
    if fits { Ok(()) } else { Err(SecretError::Name(name.to_owned())) }
}

/// Connects to servers with the secrets that their files name.
#[derive(Debug)]
pub struct SecretConnector<C> {
    secrets: SecretStore,
    inner: Arc<C>,
}

impl<C> SecretConnector<C> {
    /// A connector that fills in secrets before it connects through `inner`.
    pub fn new(secrets: SecretStore, inner: Arc<C>) -> Self {
        Self { secrets, inner }
    }
}

impl<C: Connector> Connector for SecretConnector<C> {
    fn connect<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            // Read anew each time: a secret that was put right is used by the next attempt.
            let filled = self.secrets.filled(endpoint);
            let filled = filled.map_err(|err| ConnectError::Permanent(err.to_string()))?;
            self.inner.connect(name, &filled, limit, events).await
        })
    }

    fn connect_as<'a>(
        &'a self,
        name: &'a str,
        endpoint: &'a Endpoint,
        access: Arc<dyn AccessTokenSource>,
        limit: Duration,
        events: Arc<dyn ConnectionObserver>,
    ) -> BoxFuture<'a, Result<Arc<dyn Connection>, ConnectError>> {
        Box::pin(async move {
            let filled = self.secrets.filled(endpoint);
            let filled = filled.map_err(|err| ConnectError::Permanent(err.to_string()))?;
            self.inner.connect_as(name, &filled, access, limit, events).await
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::SecretStore;

    #[test]
    fn secrets_are_filled_in_where_they_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let secrets = SecretStore::of(folder.path());
        secrets.put("a.b-c_1", "s3cret\n").unwrap();
        let filled = |text: &str| secrets.fill(text).map_err(|err| err.to_string());
        assert_eq!(filled("plain").unwrap(), "plain");
        assert_eq!(filled("Bearer secret://a.b-c_1, x").unwrap(), "Bearer s3cret, x");
        assert!(filled("secret://nope").unwrap_err().contains("`nope` is not there"));
        assert!(filled("secret://../x").unwrap_err().contains("cannot be the name"));
        let mode = |path: std::path::PathBuf| {
            std::fs::metadata(path).unwrap().permissions().mode() & 0o777
        };
        assert_eq!(mode(secrets.path("a.b-c_1")), 0o600);
        assert_eq!(mode(folder.path().join("secrets")), 0o700);
    }
}
