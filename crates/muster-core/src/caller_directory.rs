//! The port to those who may use the gateway: people who have logged in, browsers, and static tokens.
//!
//! Only `muster-auth` holds tokens. Core tools list, create and revoke them through this port, and ask it which caller a
//! name stands for.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    backend::BoxFuture,
    call::{Caller, Role},
    credentials::BearerToken,
    shared::StoreError,
};

/// A caller by name, for questions about what a caller may do. Without any field it is a caller without a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallerQuery {
    /// An email address, or a subject at the issuer.
    pub user: Option<String>,
    /// The groups of the user.
    pub groups: Vec<String>,
    /// The id of the OAuth client that the user logged in with.
    pub client: Option<String>,
    /// The name of a static token.
    pub token: Option<String>,
    /// The toolset that the caller is bound to.
    pub toolset: Option<String>,
    /// Whether the caller is an operator, whatever the settings say.
    pub operator: bool,
}

/// The properties of a static token to create.
#[derive(Debug, Clone, Default)]
pub struct TokenDraft {
    /// Its name.
    pub name: String,
    /// Its lifetime in seconds; without one it does not expire.
    pub lifetime: Option<u64>,
    /// The toolset that its callers are limited to.
    pub toolset: Option<String>,
    /// Whether its callers may change the gateway.
    pub operator: bool,
}

/// A static token, without its secret. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenDescription {
    /// Its name.
    pub name: String,
    /// When it was created.
    pub created: u64,
    /// When it expires.
    pub expires: Option<u64>,
    /// Whether it has expired.
    pub is_expired: bool,
    /// When it was last used, a minute late at most.
    pub last_used: Option<u64>,
    /// The toolset that its callers are limited to.
    pub toolset: Option<String>,
    /// Whether its callers may change the gateway.
    pub role: Role,
}

/// A login that the gateway issued, for work that goes on without a request of its user. It is no credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginReference {
    /// The id of its session.
    pub session: String,
    /// The OAuth client that the token was issued to.
    pub client: String,
}

/// A login that requests came from. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLogin {
    /// Identifies it among all sessions; no credential.
    pub id: String,
    /// The email address, or the subject.
    pub user: String,
    /// The name, if the issuer sent it.
    pub name: Option<String>,
    /// The issuer.
    pub issuer: String,
    /// The groups.
    pub groups: Vec<String>,
    /// The OAuth client.
    pub client: Option<String>,
    /// Whether the user may change the gateway by admission; a policy can add that.
    pub role: Role,
    /// The first request.
    pub first_seen: u64,
    /// The last request.
    pub last_seen: u64,
    /// The number of requests.
    pub requests: u64,
}

/// The session of a browser with the console. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSession {
    /// Identifies it among all sessions; no credential.
    pub id: String,
    /// When it began.
    pub began: u64,
    /// When it ends by itself.
    pub ends: u64,
    /// Whether it serves this machine only.
    pub is_local: bool,
}

/// Why the directory cannot do what it was asked.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// There is no token or session of the name.
    #[error("{0}")]
    NotFound(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl From<StoreError> for DirectoryError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// The result of a question to the directory.
pub type DirectoryFuture<'a, T> = BoxFuture<'a, Result<T, DirectoryError>>;

/// Knows who may use the gateway.
pub trait CallerDirectory: fmt::Debug + Send + Sync {
    /// The caller that would be admitted under this name, or why none would be.
    fn caller(&self, query: &CallerQuery) -> Result<Caller, DirectoryError>;

    /// The static tokens by name.
    fn tokens(&self) -> Result<Vec<TokenDescription>, DirectoryError>;

    /// Creates a static token. It cannot be shown again.
    fn create_token(&self, draft: TokenDraft) -> DirectoryFuture<'_, BearerToken>;

    /// Revokes a static token.
    fn revoke_token<'a>(&'a self, name: &'a str) -> DirectoryFuture<'a, ()>;

    /// The login of a caller; none if the gateway did not issue one.
    fn login_of(&self, caller: &Caller) -> Option<LoginReference>;

    /// The caller with a login, limited to a toolset: what a request with a token of this login would be admitted as
    /// now. None if the login has ended, or its user may not use the gateway any more.
    fn logged_in<'a>(
        &'a self,
        login: &'a LoginReference,
        toolset: Option<&'a str>,
    ) -> DirectoryFuture<'a, Option<Caller>>;

    /// The logins that requests to any replica came from and that have not ended, those of the last request first. A
    /// replica tells the others of its requests within some seconds.
    fn logins(&self) -> DirectoryFuture<'_, Vec<SeenLogin>>;

    /// The sessions of browsers, at any replica, newest first.
    fn browsers(&self) -> DirectoryFuture<'_, Vec<BrowserSession>>;

    /// Ends a login or the session of a browser, at any replica.
    fn end_session<'a>(&'a self, id: &'a str) -> DirectoryFuture<'a, ()>;
}

/// A lifetime in seconds: a number and a unit, such as `90m`, `12h`, `30d` or `52w`.
pub fn parse_lifetime(text: &str) -> Option<u64> {
    let unit = text.chars().last()?;
    let seconds: u64 = match unit {
        'm' => 60,
        'h' => 60 * 60,
        'd' => 24 * 60 * 60,
        'w' => 7 * 24 * 60 * 60,
        _ => return None,
    };
    let number = text.strip_suffix(unit)?.parse::<u32>().ok()?;
    (number > 0).then(|| seconds.saturating_mul(number.into()))
}

#[cfg(test)]
mod tests {
    use super::parse_lifetime;

    #[test]
    fn lifetimes() {
        for (text, expected) in [
            ("90m", Some(5400)),
            ("12h", Some(43_200)),
            ("30d", Some(2_592_000)),
            ("1w", Some(604_800)),
            ("0d", None),
            ("-1d", None),
            ("30", None),
            ("d", None),
            ("", None),
            ("1.5h", None),
            ("99999999999d", None),
        ] {
            assert_eq!(parse_lifetime(text), expected, "{text}");
        }
    }
}
