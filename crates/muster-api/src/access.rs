//! `core_token_*` and `core_session_*`: static tokens, logins and browsers.

use muster_core::call::Role;
use serde::{Deserialize, Serialize};

use crate::{is_false, keyword::known};

/// A static token, without its secret. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StaticTokenInfo {
    /// Its name.
    pub name: String,
    /// The role of its callers.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub role: Option<Role>,
    /// The toolset that its callers are limited to.
    pub toolset: Option<String>,
    /// When it was created.
    pub created: String,
    /// When it expires.
    pub expires: Option<String>,
    /// Whether it has expired.
    pub expired: bool,
    /// When it was last used; up to a minute out of date.
    pub last_used: Option<String>,
}

/// The reply of `core_token_create`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedToken {
    /// The name of the token.
    pub name: String,
    /// The token. It cannot be shown again.
    pub token: String,
}

/// The reply of `core_session_list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SessionList {
    /// The logins that have sent requests since the gateway started, most recently active first.
    pub logins: Vec<LoginInfo>,
    /// The browsers that are logged in to the console, newest first.
    pub browsers: Vec<BrowserInfo>,
}

/// A login. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LoginInfo {
    /// Its id, for `core_session_end`.
    pub id: String,
    /// The email address, or the subject.
    pub user: String,
    /// The name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The role of its callers.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    pub role: Option<Role>,
    /// The groups.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The OAuth client.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub client: String,
    /// The issuer.
    pub issuer: String,
    /// The first request.
    pub first_seen: String,
    /// The last request.
    pub last_seen: String,
    /// The number of requests.
    pub requests: u64,
}

/// A browser that is logged in to the console. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BrowserInfo {
    /// Its id, for `core_session_end`.
    pub id: String,
    /// When it logged in.
    pub began: String,
    /// When its session expires.
    pub ends: String,
    /// Whether the session is limited to the gateway's own machine.
    #[serde(skip_serializing_if = "is_false")]
    pub local: bool,
}
