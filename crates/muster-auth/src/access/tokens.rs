//! Static tokens: named bearer tokens for clients that cannot log in.
//!
//! The file holds digests only: a token is shown once, when it is created. A running gateway reloads the file after it
//! has been replaced.

mod usage;

use std::{
    collections::BTreeMap,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use muster_core::{
    call::Role,
    caller_directory::{TokenDescription, TokenDraft},
};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use self::usage::UsageLog;
use crate::{
    clock::Clock,
    lock::Lock,
    private_file::{self, FilePrivacy},
    random,
    secret::Secret,
};

/// The prefix of every token, by which secret scanners recognize a leaked one.
pub const TOKEN_PREFIX: &str = "mst_";

const MAX_NAME: usize = 64;

/// How long a change waits for the lock while another process changes the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(20);

/// A static token, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StaticToken {
    /// Its name, which policies, logs and `revoke` use.
    pub name: String,
    /// The SHA-256 digest of the token.
    pub digest: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// The toolset that its callers are limited to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toolset: Option<String>,
    /// Whether its callers may change the gateway.
    #[serde(default)]
    pub operator: bool,
}

impl StaticToken {
    /// Whether it has expired.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }
}

/// Why the tokens cannot be read or changed.
#[derive(Debug, Error)]
pub enum TokenFileError {
    /// The file cannot be used.
    #[error("cannot use {}: {source}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The name has invalid characters, or too many.
    #[error("`{0}` is not a token name: use 1 to {MAX_NAME} letters, digits, `.`, `_` and `-`")]
    InvalidName(String),
    /// A token of this name exists.
    #[error("there is a token named `{0}` already")]
    Exists(String),
}

#[derive(Default, Serialize, Deserialize)]
struct TokenRecords {
    tokens: Vec<StaticToken>,
}

/// The file with the tokens of a gateway: `tokens.json` in its configuration directory.
#[derive(Debug, Clone)]
pub struct TokenFile {
    path: PathBuf,
    clock: Clock,
}

impl TokenFile {
    /// The file of a configuration directory.
    pub fn of(config: &Path, clock: Clock) -> Self {
        Self { path: config.join("tokens.json"), clock }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tokens, sorted by name; none if there is no file.
    pub fn load(&self) -> Result<Vec<StaticToken>, TokenFileError> {
        let read = private_file::read(&self.path, FilePrivacy::OwnerWrites);
        let text = read.map_err(|source| self.failed(source))?;
        let Some(text) = text else { return Ok(Vec::new()) };
        let records: TokenRecords =
            serde_json::from_str(&text).map_err(|err| self.failed(err.into()))?;
        let mut tokens = records.tokens;
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(tokens)
    }

    /// When tokens were last used, in seconds since 1970, by their digests. Up to a minute out of date.
    fn last_used(&self) -> BTreeMap<String, u64> {
        usage::read(&self.path)
    }

    /// All tokens for a listing, sorted by name.
    pub fn described(&self) -> Result<Vec<TokenDescription>, TokenFileError> {
        let (now, last_used) = (self.clock.now(), self.last_used());
        let described = |token: StaticToken| TokenDescription {
            is_expired: token.is_expired(now),
            last_used: last_used.get(&token.digest).copied(),
            role: if token.operator { Role::Operator } else { Role::Agent },
            name: token.name,
            created: token.created,
            expires: token.expires,
            toolset: token.toolset,
        };
        Ok(self.load()?.into_iter().map(described).collect())
    }

    /// Creates a token and returns its secret, which is not stored. Blocks while another process changes the file.
    pub fn create(&self, draft: &TokenDraft) -> Result<Secret, TokenFileError> {
        let TokenDraft { name, lifetime, toolset, operator } = draft;
        let is_known = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_known) {
            return Err(TokenFileError::InvalidName(name.clone()));
        }
        let random = random::token().map_err(|err| self.failed(io::Error::other(err)))?;
        let token = format!("{TOKEN_PREFIX}{random}");
        let now = self.clock.now();
        self.update(|tokens| {
            if tokens.iter().any(|known| known.name == *name) {
                return Err(TokenFileError::Exists(name.clone()));
            }
            tokens.push(StaticToken {
                name: name.clone(),
                digest: random::digest_of(&token),
                created: now,
                expires: lifetime.map(|lifetime| now.saturating_add(lifetime)),
                toolset: toolset.clone(),
                operator: *operator,
            });
            Ok(())
        })?;
        Ok(Secret::new(token))
    }

    /// Deletes a token. Returns whether there was one. Blocks while another process changes the file.
    pub fn revoke(&self, name: &str) -> Result<bool, TokenFileError> {
        let mut is_known = false;
        self.update(|tokens| {
            is_known = tokens.iter().any(|known| known.name == name);
            tokens.retain(|known| known.name != name);
            Ok(())
        })?;
        Ok(is_known)
    }

    fn update(
        &self,
        change: impl FnOnce(&mut Vec<StaticToken>) -> Result<(), TokenFileError>,
    ) -> Result<(), TokenFileError> {
        let failed = |source| self.failed(source);
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(failed)?;
        let _lock = self.lock().map_err(failed)?;
        let mut tokens = self.load()?;
        change(&mut tokens)?;
        let text = serde_json::to_string_pretty(&TokenRecords { tokens });
        let text = text.map_err(|err| failed(err.into()))?;
        private_file::write(&self.path, &format!("{text}\n")).map_err(failed)
    }

    /// Locks the file, so that concurrent changes do not overwrite each other. The lock is taken on a separate file
    /// that other users cannot open, so that they cannot hold it.
    #[expect(clippy::disallowed_methods, reason = "callers in a runtime use a blocking thread")]
    fn lock(&self) -> io::Result<File> {
        let path = self.path.with_extension("lock");
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        let deadline = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(lock),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => thread::sleep(LOCK_POLL),
                Err(Errno::WOULDBLOCK) => {
                    let text = "another process has been changing it for seconds";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn failed(&self, source: io::Error) -> TokenFileError {
        TokenFileError::File { path: self.path.clone(), source }
    }
}

/// The tokens that a gateway accepts.
#[derive(Debug)]
pub struct StaticTokens {
    file: TokenFile,
    known: Lock<KnownTokens>,
    usage: Arc<UsageLog>,
}

#[derive(Debug, Default)]
struct KnownTokens {
    version: Option<FileVersion>,
    /// Keyed by digest, so that the time of a lookup reveals nothing about the token.
    by_digest: BTreeMap<String, Arc<StaticToken>>,
}

/// Inode, size and modification time. They identify the content of a file that is only ever replaced as a whole.
type FileVersion = (u64, u64, i64, i64);

impl StaticTokens {
    /// The tokens in a file.
    pub fn new(file: TokenFile) -> Self {
        let usage = Arc::new(UsageLog::of(file.path()));
        Self { file, known: Lock::default(), usage }
    }

    /// Whether there are any.
    pub fn is_empty(&self) -> bool {
        self.refresh();
        self.known.lock().by_digest.is_empty()
    }

    /// Finds the token with this secret, unless it has expired or been revoked.
    pub fn find(&self, secret: &str) -> Option<Arc<StaticToken>> {
        self.by_digest(&random::digest_of(secret))
    }

    /// Whether a token has neither expired nor been revoked.
    pub(crate) fn has(&self, digest: &str) -> bool {
        self.by_digest(digest).is_some()
    }

    fn by_digest(&self, digest: &str) -> Option<Arc<StaticToken>> {
        self.refresh();
        let token = self.known.lock().by_digest.get(digest).cloned()?;
        (!token.is_expired(self.file.clock.now())).then_some(token)
    }

    /// Finds the token with this secret and records its use. Must be called in a runtime.
    pub(crate) fn present(&self, secret: &str) -> Option<Arc<StaticToken>> {
        let token = self.find(secret)?;
        self.usage.record(&token.digest, self.file.clock.now());
        Some(token)
    }

    /// Reloads the file if it has been replaced. If the file cannot be read, no token is valid.
    fn refresh(&self) {
        // `metadata` follows links: Kubernetes replaces the target when a mounted Secret changes.
        let found = fs::metadata(self.file.path()).ok();
        let version =
            found.map(|found| (found.ino(), found.size(), found.mtime(), found.mtime_nsec()));
        if self.known.lock().version == version {
            return;
        }
        let tokens = self.file.load().unwrap_or_else(|err| {
            tracing::error!("static tokens are not accepted: {err}");
            Vec::new()
        });
        let by_digest =
            tokens.into_iter().map(|token| (token.digest.clone(), Arc::new(token))).collect();
        *self.known.lock() = KnownTokens { version, by_digest };
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        os::unix::fs::{PermissionsExt as _, symlink},
    };

    use muster_core::caller_directory::TokenDraft;

    use super::{StaticTokens, TokenFile, TokenFileError};
    use crate::clock::Clock;

    fn draft(name: &str) -> TokenDraft {
        TokenDraft { name: name.to_owned(), ..TokenDraft::default() }
    }

    #[test]
    fn a_token_is_accepted_until_it_expires_or_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::of(folder.path(), Clock::system());
        let tokens = StaticTokens::new(file.clone());
        assert!(tokens.is_empty());
        let ci = TokenDraft { toolset: Some("build".to_owned()), ..draft("ci") };
        let token = file.create(&ci).unwrap();
        assert!(token.reveal().starts_with("mst_") && token.reveal().len() == 47);
        let found = tokens.find(token.reveal()).unwrap();
        assert_eq!((found.name.as_str(), found.toolset.as_deref()), ("ci", Some("build")));
        assert!(tokens.find("mst_x").is_none());

        let text = fs::read_to_string(file.path()).unwrap();
        assert!(!text.contains(token.reveal()), "only digests are stored");
        let mode = fs::metadata(file.path()).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
        assert!(matches!(file.create(&ci), Err(TokenFileError::Exists(_))));
        for name in ["", "a b", "a/b", &"x".repeat(65)] {
            assert!(matches!(file.create(&draft(name)), Err(TokenFileError::InvalidName(_))));
        }

        let short = TokenDraft { lifetime: Some(0), ..draft("short") };
        let expired = file.create(&short).unwrap();
        assert!(tokens.find(expired.reveal()).is_none());
        assert!(tokens.find(token.reveal()).is_some());
        assert!(file.revoke("ci").unwrap());
        assert!(!file.revoke("ci").unwrap());
        assert!(tokens.find(token.reveal()).is_none());

        let last = file.create(&draft("last")).unwrap();
        assert!(tokens.find(last.reveal()).is_some());
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).unwrap();
        fs::write(file.path(), fs::read(file.path()).unwrap()).unwrap();
        assert!(tokens.find(last.reveal()).is_none(), "anybody could have added a token");
    }

    #[test]
    fn changes_at_once_lose_no_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile::of(folder.path(), Clock::system());
        std::thread::scope(|scope| {
            for number in 0..8 {
                let file = &file;
                scope.spawn(move || file.create(&draft(&format!("t{number}"))).unwrap());
            }
        });
        assert_eq!(file.load().unwrap().len(), 8);
        let lock = folder.path().join("tokens.lock");
        let mode = fs::metadata(lock).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "no other user can hold the lock");
    }

    /// Kubernetes mounts a Secret as links, and replaces the folder behind them when it changes.
    #[test]
    fn a_token_that_is_removed_from_a_mounted_secret_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mount = folder.path().join("mount");
        let versions =
            ["..1", "..2"].map(|version| TokenFile::of(&mount.join(version), Clock::system()));
        let token = versions[0].create(&draft("ci")).unwrap();
        let other = versions[1].create(&draft("other")).unwrap();
        symlink("..1", mount.join("..data")).unwrap();
        symlink("..data/tokens.json", mount.join("tokens.json")).unwrap();
        let tokens = StaticTokens::new(TokenFile::of(&mount, Clock::system()));
        assert!(tokens.find(token.reveal()).is_some());
        symlink("..2", mount.join("..next")).unwrap();
        fs::rename(mount.join("..next"), mount.join("..data")).unwrap();
        assert!(tokens.find(token.reveal()).is_none());
        assert!(tokens.find(other.reveal()).is_some());
    }
}
