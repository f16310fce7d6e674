//! The port to the callers that the gateway admits: logged-in users, browsers and static tokens.
//!
//! Only `muster-auth` holds tokens. Core tools use this port to list, create and revoke them, and to resolve the name
//! of a caller.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    backend::BoxFuture,
    call::{Caller, Role},
    credentials::BearerToken,
    shared::StoreError,
};

/// A query for a caller by name, to find out what that caller may do. If no field is set, it means a caller without a
/// login.
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
    /// Its lifetime in seconds; `None` if it does not expire.
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
    /// When it was last used; up to a minute out of date.
    pub last_used: Option<u64>,
    /// The toolset that its callers are limited to.
    pub toolset: Option<String>,
    /// Whether its callers may change the gateway.
    pub role: Role,
}

/// A reference to a login that the gateway issued, for work that continues without a request from its user. It is not a
/// credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoginReference {
    /// The id of its session.
    pub session: String,
    /// The OAuth client that the token was issued to.
    pub client: String,
}

/// A login that has sent requests. Times are in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenLogin {
    /// Identifies it among all sessions; not a credential.
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
    /// The role that the user was admitted with; a policy can grant more.
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
    /// Identifies it among all sessions; not a credential.
    pub id: String,
    /// When it began.
    pub began: u64,
    /// When it expires.
    pub ends: u64,
    /// Whether it serves this machine only.
    pub is_local: bool,
}

/// An error of the caller directory.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// There is no token or session with this name.
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

/// The result of a directory operation.
pub type DirectoryFuture<'a, T> = BoxFuture<'a, Result<T, DirectoryError>>;

/// The directory of callers that may use the gateway.
pub trait CallerDirectory: Send + Sync {
    /// Returns the caller that would be admitted for this query, or the reason why none would.
    fn caller(&self, query: &CallerQuery) -> Result<Caller, DirectoryError>;

    /// The static tokens by name.
    fn tokens(&self) -> Result<Vec<TokenDescription>, DirectoryError>;

    /// Creates a static token. It cannot be shown again.
    fn create_token(&self, draft: TokenDraft) -> DirectoryFuture<'_, BearerToken>;

    /// Revokes a static token.
    fn revoke_token<'a>(&'a self, name: &'a str) -> DirectoryFuture<'a, ()>;

    /// Returns the login of a caller; `None` if the gateway did not issue it.
    fn login_of(&self, caller: &Caller) -> Option<LoginReference>;

    /// Returns the caller that a request with a token of this login would be admitted as now, limited to the toolset.
    /// `None` if the login has ended or its user may no longer use the gateway.
    fn logged_in<'a>(
        &'a self,
        login: &'a LoginReference,
        toolset: Option<&'a str>,
    ) -> DirectoryFuture<'a, Option<Caller>>;

    /// Returns the active logins that have sent requests to any replica, most recent request first. Replicas report
    /// their requests to each other within seconds.
    fn logins(&self) -> DirectoryFuture<'_, Vec<SeenLogin>>;

    /// The sessions of browsers, at any replica, newest first.
    fn browsers(&self) -> DirectoryFuture<'_, Vec<BrowserSession>>;

    /// Ends a login or the session of a browser, at any replica.
    fn end_session<'a>(&'a self, id: &'a str) -> DirectoryFuture<'a, ()>;
}

crate::opaque_debug!(CallerDirectory);

/// Parses a lifetime into seconds: a number and a unit, such as `90m`, `12h`, `30d` or `52w`.
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
