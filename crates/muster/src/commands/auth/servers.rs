//! Servers behind a gateway that want logins of their own: the resource `auth://status`.

use muster_core::json::Object;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    error::CommandError,
    remote::{Remote, error::RemoteError},
};

/// A server behind the gateway, and how the user stands with it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of its own in the resource")]
pub(super) struct Server {
    pub(super) name: String,
    pub(super) status: String,
    pub(super) issuer: Option<String>,
    pub(super) auth_tool: Option<String>,
    token_forwarding_enabled: bool,
    token_exchange_enabled: bool,
    sso_attempt_failed: bool,
}

/// How a server learns who the user is without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sso {
    Forwarded,
    Exchanged,
    Failed,
}

impl Sso {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Forwarded => "Forwarded",
            Self::Exchanged => "Exchanged",
            Self::Failed => "Failed",
        }
    }
}

impl Server {
    pub(super) const fn sso(&self) -> Option<Sso> {
        match self {
            Self { sso_attempt_failed: true, .. } => Some(Sso::Failed),
            Self { token_exchange_enabled: true, .. } => Some(Sso::Exchanged),
            Self { token_forwarding_enabled: true, .. } => Some(Sso::Forwarded),
            Self { .. } => None,
        }
    }

    /// Whether the user has to log in there by hand.
    pub(super) fn wants_login(&self) -> bool {
        let by_hand = matches!(self.sso(), None | Some(Sso::Failed));
        self.status == "auth_required" && self.auth_tool.is_some() && by_hand
    }

    pub(super) fn status_word(&self) -> &str {
        match self.status.as_str() {
            "connected" => "Connected",
            "auth_required" => "Not authenticated",
            "disconnected" => "Disconnected",
            "error" => "Error",
            other => other,
        }
    }
}

/// All servers that a gateway tells about.
pub(super) async fn all(remote: &Remote) -> Result<Vec<Server>, RemoteError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Status {
        servers: Vec<Server>,
    }
    let result = remote.read("auth://status").await?;
    let result = Object::parse(&result).unwrap_or_default();
    let contents = result.get("contents").map(RawValue::get).unwrap_or_default();
    let contents: Vec<&RawValue> = serde_json::from_str(contents).unwrap_or_default();
    let text = contents.first().and_then(|item| Object::parse(item)?.get_text("text"));
    let status: Status = serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default();
    Ok(status.servers)
}

pub(super) fn find(servers: Vec<Server>, name: &str) -> Result<Server, CommandError> {
    servers.into_iter().find(|server| server.name == name).ok_or_else(|| {
        CommandError::new(format!(
            "server '{name}' not found. Use 'muster auth status' to see available servers"
        ))
    })
}
