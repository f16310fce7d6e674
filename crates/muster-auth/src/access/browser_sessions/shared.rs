//! Storage of codes and sessions that all replicas of the gateway share.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue};
use muster_core::shared::SharedState;
use serde::{Deserialize, Serialize};

use super::{CODE_TTL, Login, MAX_SESSIONS, SESSION_TTL, Session};
use crate::{
    random::digest_of,
    secret::Secret,
    store::{KeyValueStore, StoreError, Vault},
};

/// The key of the CSRF token for callers without a session.
const FORM_TOKEN: &str = "console-form-token";

/// The set of the digests of cookies.
const SESSIONS: &str = "console-sessions";

const TTL: Duration = Duration::from_secs(SESSION_TTL);

/// Codes and sessions in the state that replicas share, by the digest of the code or cookie.
#[derive(Debug)]
pub(super) struct SharedSessions {
    state: Arc<dyn SharedState>,
    /// Typed values in the same state.
    vault: Vault,
}

#[derive(Serialize, Deserialize)]
struct StoredLogin {
    credentials: Vec<(String, Vec<u8>)>,
    is_local: bool,
    began: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredSession {
    login: StoredLogin,
    form_token: String,
}

impl SharedSessions {
    pub(super) fn new(state: Arc<dyn SharedState>) -> Self {
        let vault = Vault::new(Arc::clone(&state) as Arc<dyn KeyValueStore>, None);
        Self { state, vault }
    }

    pub(super) async fn put_code(&self, code: &str, login: &Login) -> Result<(), StoreError> {
        let ttl = Duration::from_secs(CODE_TTL);
        self.vault.put(&code_key(code), &StoredLogin::of(login), ttl).await
    }

    /// Takes a code out of the storage, so that it can be used only once across all replicas.
    pub(super) async fn take_code(&self, code: &str) -> Result<Option<Login>, StoreError> {
        let stored: Option<StoredLogin> = self.vault.take(&code_key(code)).await?;
        Ok(stored.map(StoredLogin::login))
    }

    /// Stores a session, evicting the oldest if there are too many.
    pub(super) async fn put_session(
        &self,
        digest: &str,
        session: &Session,
    ) -> Result<(), StoreError> {
        let mut earlier: Vec<(u64, String)> =
            self.all().await?.into_iter().map(|(digest, one)| (one.login.began, digest)).collect();
        earlier.sort();
        let excess = (earlier.len() + 1).saturating_sub(MAX_SESSIONS);
        for (_, oldest) in earlier.iter().take(excess) {
            self.end(oldest).await?;
        }
        let form_token = session.form_token.reveal().clone();
        let stored = StoredSession { login: StoredLogin::of(&session.login), form_token };
        let key = session_key(digest);
        // Store the value before joining the set: a concurrent listing removes members without a value.
        self.vault.put(&key, &stored, TTL).await?;
        if let Err(error) = self.state.join(SESSIONS, digest, TTL).await {
            // A session that cannot be listed cannot be ended either. Nobody has its cookie yet, so drop it.
            drop(self.vault.remove(&key).await);
            return Err(error);
        }
        Ok(())
    }

    pub(super) async fn session(&self, digest: &str) -> Result<Option<Session>, StoreError> {
        let stored: Option<StoredSession> = match self.vault.get(&session_key(digest)).await {
            // Encrypted with another key or stored by another version: it is unusable.
            Err(StoreError::Unreadable) => None,
            stored => stored?,
        };
        Ok(stored.map(|stored| {
            let form_token = Secret::new(stored.form_token);
            Session { login: stored.login.login(), form_token }
        }))
    }

    /// The sessions by the digests of their cookies.
    pub(super) async fn all(&self) -> Result<BTreeMap<String, Session>, StoreError> {
        let mut found = BTreeMap::new();
        for digest in self.state.members(SESSIONS).await? {
            match self.session(&digest).await? {
                Some(session) => drop(found.insert(digest, session)),
                None => self.state.leave(SESSIONS, &digest).await?,
            }
        }
        Ok(found)
    }

    /// Ends a session. Returns whether there was one.
    pub(super) async fn end(&self, digest: &str) -> Result<bool, StoreError> {
        let ended: Option<StoredSession> = match self.vault.take(&session_key(digest)).await {
            Err(StoreError::Unreadable) => None,
            ended => ended?,
        };
        self.state.leave(SESSIONS, digest).await?;
        Ok(ended.is_some())
    }

    /// The CSRF token for callers without a session, shared by all replicas. Stores `own` if there is none yet.
    pub(super) async fn form_token(&self, own: &Secret) -> Result<Secret, StoreError> {
        let text = |stored: Vec<u8>| {
            String::from_utf8(stored).map(Secret::new).map_err(|_| StoreError::Unreadable)
        };
        match self.state.touch(FORM_TOKEN, TTL).await {
            Ok(Some(stored)) => return text(stored),
            Ok(None) => (),
            // Encrypted with another key: remove it, because every request would extend its TTL.
            Err(StoreError::Unreadable) => self.state.remove(FORM_TOKEN).await?,
            Err(error) => return Err(error),
        }
        if self.state.claim(FORM_TOKEN, own.reveal().clone().into_bytes(), TTL).await? {
            return Ok(own.clone());
        }
        // Another replica stored its token first.
        self.state.get(FORM_TOKEN).await?.map_or_else(|| Ok(own.clone()), text)
    }
}

impl StoredLogin {
    fn of(login: &Login) -> Self {
        let credentials = login.credentials.iter();
        let pair = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), value.as_bytes().to_vec())
        };
        let (is_local, began) = (login.is_local, login.began);
        Self { credentials: credentials.map(pair).collect(), is_local, began }
    }

    fn login(self) -> Login {
        let pair = |(name, value): (String, Vec<u8>)| {
            let name = HeaderName::try_from(name).ok()?;
            Some((name, HeaderValue::try_from(value).ok()?))
        };
        let credentials: HeaderMap = self.credentials.into_iter().filter_map(pair).collect();
        Login { credentials, is_local: self.is_local, began: self.began }
    }
}

fn code_key(code: &str) -> String {
    format!("console-code:{}", digest_of(code))
}

fn session_key(digest: &str) -> String {
    format!("console-session:{digest}")
}
