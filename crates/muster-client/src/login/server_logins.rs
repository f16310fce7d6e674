//! Servers behind a gateway that want logins of their own: the resource `auth://status`, and the login
//! at one of them.

use std::time::Duration;

use muster_core::json::{RawObject, raw};
use muster_exec::browser;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::remote::{Remote, error::RemoteError};

/// How long a login at a server behind the gateway may take, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(500);

/// A server behind the gateway, and how the user stands with it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a member of its own in the resource")]
pub struct ServerLogin {
    /// Its name.
    pub name: String,
    /// `connected`, `auth_required`, `disconnected` or `error`.
    pub status: String,
    /// Who lets users in.
    pub issuer: Option<String>,
    /// The tool that begins a login.
    pub auth_tool: Option<String>,
    token_forwarding_enabled: bool,
    token_exchange_enabled: bool,
    sso_attempt_failed: bool,
}

/// How a server learns who the user is without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sso {
    /// The gateway forwards the user's token.
    Forwarded,
    /// The gateway exchanges the user's token for one of the server.
    Exchanged,
    /// Either was tried and failed.
    Failed,
}

impl Sso {
    /// Its name for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Forwarded => "Forwarded",
            Self::Exchanged => "Exchanged",
            Self::Failed => "Failed",
        }
    }
}

impl ServerLogin {
    /// How the server learns about the user, if by single sign-on.
    pub const fn sso(&self) -> Option<Sso> {
        match self {
            Self { sso_attempt_failed: true, .. } => Some(Sso::Failed),
            Self { token_exchange_enabled: true, .. } => Some(Sso::Exchanged),
            Self { token_forwarding_enabled: true, .. } => Some(Sso::Forwarded),
            Self { .. } => None,
        }
    }

    /// Whether the user has to log in there by hand.
    pub fn wants_login(&self) -> bool {
        let by_hand = matches!(self.sso(), None | Some(Sso::Failed));
        self.status == "auth_required" && self.auth_tool.is_some() && by_hand
    }

    /// Its status for people.
    pub fn status_word(&self) -> &str {
        match self.status.as_str() {
            "connected" => "Connected",
            "auth_required" => "Not authenticated",
            "disconnected" => "Disconnected",
            "error" | "failed" => "Error",
            other => other,
        }
    }
}

/// How the user stands with a gateway and the servers behind it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    servers: Vec<ServerLogin>,
    user: Option<String>,
}

async fn status(remote: &Remote) -> Result<Status, RemoteError> {
    let result = remote.read("auth://status").await?;
    let result = RawObject::parse(&result).unwrap_or_default();
    let contents = result.get("contents").map(RawValue::get).unwrap_or_default();
    let contents: Vec<&RawValue> = serde_json::from_str(contents).unwrap_or_default();
    let text = contents.first().and_then(|item| RawObject::parse(item)?.get_text("text"));
    Ok(serde_json::from_str(&text.unwrap_or_default()).unwrap_or_default())
}

/// All servers that a gateway tells about.
pub async fn all(remote: &Remote) -> Result<Vec<ServerLogin>, RemoteError> {
    Ok(status(remote).await?.servers)
}

/// Who the user is, if the gateway knows.
pub async fn user(remote: &Remote) -> Option<String> {
    status(remote).await.ok()?.user
}

/// Why a login at a server behind the gateway failed.
#[derive(Debug, Error)]
pub enum ServerLoginError {
    /// The gateway could not be asked.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The auth tool reported an error.
    #[error("{0}")]
    Tool(String),
    /// The auth tool answered without an address to open.
    #[error("auth tool did not return an auth URL")]
    NoUrl,
    /// The server was not connected in time.
    #[error("timeout waiting for {server} to authenticate")]
    Timeout {
        /// The server.
        server: String,
    },
}

/// Logs in at a server by the tool that it names, and waits until it is connected.
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
    if is_done(&text) {
        say(&format!("✓ {name} is already connected."));
        return Ok(());
    }
    let url = address(&text).ok_or(ServerLoginError::NoUrl)?;
    say("Opening browser for authentication...");
    if browser::open(&url).is_err() {
        say(&format!(
            "Could not open browser automatically.\nPlease open this URL in your browser:\n  {url}"
        ));
    }
    say(&format!("Waiting for {name} authentication to complete..."));
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let servers = all(remote).await.unwrap_or_default();
        if servers.iter().any(|server| server.name == *name && server.status == "connected") {
            say(&format!("✓ {name} authenticated successfully."));
            return Ok(());
        }
        sleep(EVERY).await;
    }
    Err(ServerLoginError::Timeout { server: name.clone() })
}

fn is_done(text: &str) -> bool {
    let text = text.to_lowercase();
    ["already connected", "successfully connected", "already authenticated"]
        .iter()
        .any(|mark| text.contains(mark))
}

/// The address in the answer of an auth tool: a member of it, or a line of its own.
fn address(text: &str) -> Option<String> {
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
    use super::{ServerLogin, address, is_done};

    #[test]
    fn words_for_how_servers_are() {
        let word = |status: &str| {
            let status = serde_json::json!({"name": "a", "status": status});
            serde_json::from_value::<ServerLogin>(status).unwrap().status_word().to_owned()
        };
        let all = ["connected", "auth_required", "disconnected", "error", "failed"].map(word);
        assert_eq!(all, ["Connected", "Not authenticated", "Disconnected", "Error", "Error"]);
    }

    #[test]
    fn answers_of_auth_tools() {
        assert_eq!(address(r#"{"auth_url": "https://i/a"}"#).as_deref(), Some("https://i/a"));
        assert_eq!(address("Open this:\n  https://i/b\n").as_deref(), Some("https://i/b"));
        assert_eq!(address("nothing"), None);
        assert!(is_done("Server 'x' is already connected"));
    }
}
