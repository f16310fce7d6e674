//! Codes and sessions that every replica of the gateway knows.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::{CODE_TTL, Login, SESSION_TTL, Session};
use crate::{
    random::{self, digest_of},
    secret::Secret,
    store::{StoreError, Vault},
};

/// The key of the token of forms for callers without a session.
const FORM_TOKEN: &str = "console-form-token";

/// Codes and sessions in the state that replicas share, by the digest of the code or cookie.
#[derive(Debug)]
pub(super) struct SharedSessions(pub(super) Vault);

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
    pub(super) async fn put_code(&self, code: &str, login: &Login) -> Result<(), StoreError> {
        let ttl = Duration::from_secs(CODE_TTL);
        self.0.put(&code_key(code), &StoredLogin::of(login), ttl).await
    }

    /// Takes a code: it is good for one attempt at all replicas.
    pub(super) async fn take_code(&self, code: &str) -> Option<Login> {
        let stored: Option<StoredLogin> = known(self.0.take(&code_key(code)).await);
        stored.map(StoredLogin::login)
    }

    pub(super) async fn put_session(&self, cookie: &str, session: &Session) -> Option<()> {
        let form_token = session.form_token.reveal().clone();
        let stored = StoredSession { login: StoredLogin::of(&session.login), form_token };
        let ttl = Duration::from_secs(SESSION_TTL);
        known(self.0.put(&session_key(cookie), &stored, ttl).await.map(Some))
    }

    pub(super) async fn session(&self, cookie: &str) -> Option<Session> {
        let stored: StoredSession = known(self.0.get(&session_key(cookie)).await)?;
        let form_token = Secret::new(stored.form_token);
        Some(Session { login: stored.login.login(), form_token })
    }

    pub(super) async fn end(&self, cookie: &str) {
        known(self.0.remove(&session_key(cookie)).await.map(Some));
    }

    /// The token of forms for callers without a session, the same at all replicas.
    pub(super) async fn form_token(&self) -> Option<Secret> {
        let ttl = Duration::from_secs(SESSION_TTL);
        known(self.0.claim(FORM_TOKEN, &random::token().ok()?, ttl).await.map(Some))?;
        let token: String = known(self.0.get(FORM_TOKEN).await)?;
        Some(Secret::new(token))
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

/// What is known; nothing while the storage is not available.
fn known<T>(stored: Result<Option<T>, StoreError>) -> Option<T> {
    stored.unwrap_or_else(|error| {
        tracing::warn!("sessions of browsers: {error}");
        None
    })
}

fn code_key(code: &str) -> String {
    format!("console-code:{}", digest_of(code))
}

fn session_key(cookie: &str) -> String {
    format!("console-session:{}", digest_of(cookie))
}
