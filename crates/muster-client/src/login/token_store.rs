//! The token store: one private file per gateway.

use std::{
    fs, io,
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::Timestamp;
use muster_auth::{oauth::ClientAuthMethod, random::sha256, secret::Secret};
use muster_core::hex;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::user_dirs::{self, NoHome};

/// A token with less remaining lifetime is not used.
const MIN_LIFETIME: Duration = Duration::from_secs(60);
/// A token with less remaining lifetime is refreshed, if possible.
const REFRESH_BEFORE: Duration = Duration::from_secs(5 * 60);

/// A token of the user for one gateway.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredToken {
    /// The access token.
    pub access_token: Secret,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<Secret>,
    /// Always `Bearer`.
    pub token_type: String,
    /// When it expires, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiry: Option<Timestamp>,
    /// The ID token, which identifies the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id_token: Option<Secret>,
    /// The base URL of the gateway.
    pub server_url: String,
    /// The issuer.
    pub issuer_url: String,
    /// The OAuth client it was issued to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The secret of that client, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// How that client authenticates, if it has a secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_auth_method: Option<ClientAuthMethod>,
    /// When it was issued.
    pub created_at: Timestamp,
}

impl StoredToken {
    /// Whether it can be used.
    pub fn is_valid(&self) -> bool {
        self.time_left().is_none_or(|left| left > MIN_LIFETIME)
    }

    /// Whether it should be refreshed.
    pub fn expires_soon(&self) -> bool {
        self.time_left().is_some_and(|left| left < REFRESH_BEFORE)
    }

    /// Whether it can be refreshed.
    pub const fn can_refresh(&self) -> bool {
        self.refresh_token.is_some()
    }

    /// The remaining lifetime, if it expires.
    fn time_left(&self) -> Option<Duration> {
        let expiry = self.expiry.filter(|expiry| *expiry > Timestamp::UNIX_EPOCH)?;
        let left = expiry.as_second().saturating_sub(Timestamp::now().as_second());
        Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)))
    }
}

/// Why the token files cannot be used.
#[derive(Debug, Error)]
pub enum TokenError {
    /// There is no directory for them.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// A token could not be written.
    #[error("cannot write the token to {}: {source}", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A token could not be deleted.
    #[error("cannot delete the token {}: {source}", .path.display())]
    Delete {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// The stored tokens of the user.
#[derive(Debug, Clone)]
pub struct TokenStore {
    folder: PathBuf,
}

impl TokenStore {
    /// The store in the user's configuration directory.
    pub fn of_user() -> Result<Self, NoHome> {
        Ok(Self { folder: user_dirs::config()?.join("tokens") })
    }

    /// The token for a gateway.
    pub fn load(&self, endpoint: &str) -> Option<StoredToken> {
        let text = fs::read_to_string(self.file(endpoint)).ok()?;
        let token: StoredToken = serde_json::from_str(&text).ok()?;
        // Check the URL in the file: renaming a file must not send its token to another gateway.
        (token.server_url == base_url(endpoint)).then_some(token)
    }

    /// Stores a token.
    pub fn store(&self, token: &StoredToken) -> Result<(), TokenError> {
        let path = self.file(&token.server_url);
        let text = serde_json::to_string_pretty(token).map_err(io::Error::from);
        text.and_then(|text| write(&self.folder, &path, &text))
            .map_err(|source| TokenError::Write { path, source })
    }

    /// Deletes the token for a gateway. Returns whether there was one.
    pub fn remove(&self, endpoint: &str) -> Result<bool, TokenError> {
        let path = self.file(endpoint);
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(TokenError::Delete { path, source }),
        }
    }

    /// All tokens, sorted by gateway.
    pub fn all(&self) -> Vec<StoredToken> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let files = entries.map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|ext| ext == "json"));
        let read = |path: PathBuf| serde_json::from_str(&fs::read_to_string(path).ok()?).ok();
        let mut all: Vec<StoredToken> = files.filter_map(read).collect();
        all.sort_by(|one, other| one.server_url.cmp(&other.server_url));
        all
    }

    fn file(&self, endpoint: &str) -> PathBuf {
        let digest = sha256(base_url(endpoint).as_bytes());
        let name = hex::encode(digest.get(..16).unwrap_or(&digest));
        self.folder.join(format!("{name}.json"))
    }
}

/// Writes a private file atomically. Others cannot read it, not even while it is being written.
fn write(folder: &Path, file: &Path, text: &str) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let next = file.with_extension(format!("{}.tmp", std::process::id()));
    // A file left by a crash may have other permissions.
    drop(fs::remove_file(&next));
    let mut options = fs::OpenOptions::new();
    let mut out = options.write(true).create_new(true).mode(0o600).open(&next)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    fs::rename(&next, file)
}

/// The base URL of a gateway: its endpoint without the path of the transport.
pub fn base_url(endpoint: &str) -> &str {
    let cut = endpoint.strip_suffix('/').unwrap_or(endpoint);
    cut.strip_suffix("/mcp").or_else(|| cut.strip_suffix("/sse")).unwrap_or(cut)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use jiff::Timestamp;

    use super::{StoredToken, TokenStore, base_url};

    fn token(expiry: Option<i64>) -> StoredToken {
        let now = Timestamp::now().as_second();
        StoredToken {
            access_token: "canary".to_owned().into(),
            refresh_token: Some("canary-two".to_owned().into()),
            token_type: "Bearer".to_owned(),
            expiry: expiry.map(|left| Timestamp::from_second(now + left).unwrap()),
            id_token: None,
            server_url: "https://g.example".to_owned(),
            issuer_url: "https://i.example".to_owned(),
            client_id: None,
            client_secret: None,
            client_auth_method: None,
            created_at: Timestamp::now(),
        }
    }

    #[test]
    fn base_urls() {
        for url in ["https://g", "https://g/", "https://g/mcp", "https://g/sse", "https://g/mcp/"] {
            assert_eq!(base_url(url), "https://g", "{url}");
        }
        assert_eq!(base_url("https://g/x"), "https://g/x");
    }

    #[test]
    fn files_are_private_and_bound_to_their_gateway() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = TokenStore { folder: folder.path().join("tokens") };
        tokens.store(&token(Some(3600))).unwrap();
        assert!(tokens.load("https://g.example/mcp").unwrap().is_valid());
        assert!(tokens.load("https://other.example/mcp").is_none());
        let file = tokens.file("https://g.example/sse");
        let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(&tokens.folder)), (0o600, 0o700));
        assert_eq!(file.file_stem().unwrap().len(), 32);
        // A file under the name of another gateway is ignored.
        std::fs::copy(&file, tokens.file("https://other.example")).unwrap();
        assert!(tokens.load("https://other.example/mcp").is_none());
        assert!(tokens.remove("https://g.example/mcp").unwrap());
        assert!(!tokens.remove("https://g.example/mcp").unwrap());
    }

    #[test]
    fn expiry() {
        let is = |left| (token(left).is_valid(), token(left).expires_soon());
        assert_eq!(is(Some(3600)), (true, false));
        assert_eq!(is(Some(120)), (true, true));
        assert_eq!(is(Some(30)), (false, true));
        assert_eq!(is(Some(-30)), (false, true));
        assert_eq!(is(None), (true, false));
    }

    #[test]
    fn debug_output_hides_the_tokens() {
        assert!(!format!("{:?}", token(None)).contains("canary"));
    }
}
