//! Logins at the servers behind a gateway: the resource `auth://status`, and the login at one server.

use std::time::Duration;

use muster_core::json::{RawObject, raw};
use muster_exec::browser;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::remote::{Remote, error::RemoteError};

/// The timeout of a login at a server, and the polling interval.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The user's login state at a server behind the gateway.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of its own in the resource")]
pub struct ServerLogin {
    /// Its name.
    pub name: String,
    /// `connected`, `auth_required`, `disconnected` or `error`.
    pub status: String,
    /// The OAuth issuer.
    pub issuer: Option<String>,
    /// The tool that starts a login.
    pub auth_tool: Option<String>,
    token_forwarding_enabled: bool,
    token_exchange_enabled: bool,
    sso_attempt_failed: bool,
}

/// The single sign-on of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sso {
    /// The gateway forwards the user's token.
    Forwarded,
    /// The gateway exchanges the user's token for one for the server.
    Exchanged,
    /// Forwarding or exchange failed.
    Failed,
}

impl Sso {
    /// Its display name.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Forwarded => "Forwarded",
            Self::Exchanged => "Exchanged",
            Self::Failed => "Failed",
        }
    }
}

impl ServerLogin {
    /// Its single sign-on, if any.
    pub const fn sso(&self) -> Option<Sso> {
        match self {
            Self { sso_attempt_failed: true, .. } => Some(Sso::Failed),
            Self { token_exchange_enabled: true, .. } => Some(Sso::Exchanged),
            Self { token_forwarding_enabled: true, .. } => Some(Sso::Forwarded),
            Self { .. } => None,
        }
    }

    /// Whether the user has to log in interactively.
    pub fn needs_login(&self) -> bool {
        let interactive = matches!(self.sso(), None | Some(Sso::Failed));
        self.status == "auth_required" && self.auth_tool.is_some() && interactive
    }

    /// The display name of its status.
    pub fn status_label(&self) -> &str {
        match self.status.as_str() {
            "connected" => "Connected",
            "auth_required" => "Not authenticated",
            "disconnected" => "Disconnected",
            "error" | "failed" => "Error",
            other => other,
        }
    }
}

/// The document of `auth://status`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AuthStatus {
    servers: Vec<ServerLogin>,
    user: Option<String>,
}

async fn status(remote: &Remote) -> Result<AuthStatus, RemoteError> {
    let result = remote.read("auth://status").await?;
    let result = RawObject::parse(&result).unwrap_or_default();
    let contents = result.get("contents").map(RawValue::get).unwrap_or_default();
    let contents: Vec<&RawValue> = serde_json::from_str(contents).unwrap_or_default();
    let text = contents.first().and_then(|item| RawObject::parse(item)?.get_text("text"));
    Ok(serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default())
}

/// Lists the login state of all servers.
pub async fn list(remote: &Remote) -> Result<Vec<ServerLogin>, RemoteError> {
    Ok(status(remote).await?.servers)
}

/// The name of the user, if the gateway knows it.
pub async fn user(remote: &Remote) -> Option<String> {
    status(remote).await.ok()?.user
}

/// Why a login at a server behind the gateway failed.
#[derive(Debug, Error)]
pub enum ServerLoginError {
    /// A request to the gateway failed.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The auth tool reported an error.
    #[error("{0}")]
    Tool(String),
    /// The response of the auth tool has no URL.
    #[error("auth tool did not return an auth URL")]
    NoUrl,
    /// The server was not connected in time.
    #[error("timeout waiting for {server} to authenticate")]
    Timeout {
        /// The server.
        server: String,
    },
}

/// Logs in at a server with its auth tool and waits until the server is connected.
pub async fn log_in(
    remote: &Remote,
    server: &ServerLogin,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), ServerLoginError> {
    let name = &server.name;
    let tool = server.auth_tool.as_deref().unwrap_or("core_auth_login");
    let answer = remote.call(tool, &raw(&json!({"server": name}))).await?;
    let text = answer.texts().join("\n");
    if answer.failed {
        return Err(ServerLoginError::Tool(text));
    }
    if is_connected(&text) {
        say(&format!("✓ {name} is already connected."));
        return Ok(());
    }
    let url = auth_url(&text).ok_or(ServerLoginError::NoUrl)?;
    say("Opening browser for authentication...");
    if browser::open(&url).is_err() {
        say(&format!(
            "Could not open browser automatically.\nPlease open this URL in your browser:\n  {url}"
        ));
    }
    say(&format!("Waiting for {name} authentication to complete..."));
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        let servers = list(remote).await.unwrap_or_default();
        if servers.iter().any(|server| server.name == *name && server.status == "connected") {
            say(&format!("✓ {name} authenticated successfully."));
            return Ok(());
        }
        sleep(POLL_INTERVAL).await;
    }
    Err(ServerLoginError::Timeout { server: name.clone() })
}

fn is_connected(text: &str) -> bool {
    let text = text.to_lowercase();
    ["already connected", "successfully connected", "already authenticated"]
        .iter()
        .any(|mark| text.contains(mark))
}

/// The URL in the response of an auth tool: a member of the JSON, or a line of the text.
fn auth_url(text: &str) -> Option<String> {
    let json: Option<Value> = serde_json::from_str(text).ok();
    let member = json.as_ref().and_then(|json| json.get("auth_url")?.as_str());
    let line = || {
        text.lines()
            .map(str::trim)
            .find(|line| line.starts_with("http://") || line.starts_with("https://"))
    };
    member.or_else(line).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{ServerLogin, auth_url, is_connected};

    #[test]
    fn status_labels() {
        let label = |status: &str| {
            let status = serde_json::json!({"name": "a", "status": status});
            serde_json::from_value::<ServerLogin>(status).unwrap().status_label().to_owned()
        };
        let all = ["connected", "auth_required", "disconnected", "error", "failed"].map(label);
        assert_eq!(all, ["Connected", "Not authenticated", "Disconnected", "Error", "Error"]);
    }

    #[test]
    fn responses_of_auth_tools() {
        assert_eq!(auth_url(r#"{"auth_url": "https://i/a"}"#).as_deref(), Some("https://i/a"));
        assert_eq!(auth_url("Open this:\n  https://i/b\n").as_deref(), Some("https://i/b"));
        assert_eq!(auth_url("nothing"), None);
        assert!(is_connected("Server 'x' is already connected"));
    }
}
