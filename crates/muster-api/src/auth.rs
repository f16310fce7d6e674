//! The resource `auth://status` and the details of `core_auth_login`.

use serde::{Deserialize, Serialize};

use crate::is_false;

/// The contents of `auth://status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuthStatus {
    /// The servers that should run.
    pub servers: Vec<ServerAuthStatus>,
    /// The caller's email address or subject, if the gateway requires a login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A caller's login at one server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the resource")]
pub struct ServerAuthStatus {
    /// The server's name.
    pub name: String,
    /// Whether the caller can use it.
    pub status: LoginState,
    /// The issuer of tokens, if a login is required.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub issuer: String,
    /// The scope of tokens, if a login is required.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub scope: String,
    /// The tool that starts a login, if one is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_tool: Option<String>,
    /// Whether the gateway forwards the caller's token.
    #[serde(skip_serializing_if = "is_false")]
    pub token_forwarding_enabled: bool,
    /// Whether the gateway exchanges the caller's token.
    #[serde(skip_serializing_if = "is_false")]
    pub token_exchange_enabled: bool,
    /// Whether forwarding or exchanging the token failed.
    #[serde(skip_serializing_if = "is_false")]
    pub sso_attempt_failed: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Whether a caller can use a server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoginState {
    /// It is connected.
    Connected,
    /// The caller has to log in.
    #[serde(alias = "pending_auth")]
    AuthRequired,
    /// The gateway is connecting with the caller's login.
    SsoPending,
    /// The caller's login at the gateway does not work at the server, or no longer does.
    ReauthRequired,
    /// Connecting failed several times in a row.
    Unreachable,
    /// Connecting failed.
    #[serde(alias = "error")]
    Failed,
    /// It is not connected.
    #[default]
    Disconnected,
    /// Another state; a newer gateway may know more.
    #[serde(other)]
    Other,
}

impl LoginState {
    /// Its name in replies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "connected",
            Self::AuthRequired => "auth_required",
            Self::SsoPending => "sso_pending",
            Self::ReauthRequired => "reauth_required",
            Self::Unreachable => "unreachable",
            Self::Failed => "failed",
            Self::Disconnected => "disconnected",
            Self::Other => "other",
        }
    }

    /// Whether the caller has to log in before the server can be connected.
    pub const fn wants_login(self) -> bool {
        matches!(self, Self::AuthRequired | Self::ReauthRequired)
    }
}

/// The single sign-on of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sso {
    /// The gateway forwards the caller's token.
    Forwarded,
    /// The gateway exchanges the caller's token for one of the server.
    Exchanged,
    /// Forwarding or exchanging it failed.
    Failed,
}

impl ServerAuthStatus {
    /// Its single sign-on, if it has one.
    pub const fn sso(&self) -> Option<Sso> {
        match self {
            Self { sso_attempt_failed: true, .. } => Some(Sso::Failed),
            Self { token_exchange_enabled: true, .. } => Some(Sso::Exchanged),
            Self { token_forwarding_enabled: true, .. } => Some(Sso::Forwarded),
            Self { .. } => None,
        }
    }

    /// Whether its auth tool has to be called.
    pub fn needs_login(&self) -> bool {
        let interactive = matches!(self.sso(), None | Some(Sso::Failed));
        self.status.wants_login() && self.auth_tool.is_some() && interactive
    }
}

/// The structured content of a `core_auth_login` that needs a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LoginDetails {
    /// The URL to open.
    pub auth_url: String,
}
