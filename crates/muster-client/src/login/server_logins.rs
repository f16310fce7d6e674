//! Logins at the servers behind a gateway: their state in the resource `auth://status`, and logging in at one server.

use std::time::Duration;

use muster_api::auth::{AuthStatus, LoginDetails, LoginState, ServerAuthStatus};
use muster_core::json::raw;
use muster_exec::browser;
use serde_json::json;
use thiserror::Error;
use tokio::time::{Instant, sleep};

use crate::{
    inventory,
    remote::{Remote, error::RemoteError},
};

/// How long single sign-on may take after a login at the gateway.
const SSO_TIMEOUT: Duration = Duration::from_secs(30);
/// The timeout of a login at a server, and the polling interval.
const TIMEOUT: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(500);

async fn status(remote: &Remote) -> Result<AuthStatus, RemoteError> {
    let result = remote.read("auth://status").await?;
    let text = inventory::resource_text(&result).unwrap_or_default();
    Ok(serde_json::from_str(&text).unwrap_or_default())
}

/// Lists the login state of all servers.
pub async fn list(remote: &Remote) -> Result<Vec<ServerAuthStatus>, RemoteError> {
    Ok(status(remote).await?.servers)
}

/// Lists the login state of all servers. Waits until single sign-on has succeeded or failed at each, or timed out.
pub async fn settled(remote: &Remote) -> Result<Vec<ServerAuthStatus>, RemoteError> {
    let end = Instant::now() + SSO_TIMEOUT;
    loop {
        let servers = list(remote).await?;
        let is_pending = servers.iter().any(|server| server.status == LoginState::SsoPending);
        if !is_pending || Instant::now() >= end {
            return Ok(servers);
        }
        sleep(POLL_INTERVAL).await;
    }
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
    server: &ServerAuthStatus,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), ServerLoginError> {
    let name = &server.name;
    let tool = server.auth_tool.as_deref().unwrap_or("core_auth_login");
    let answer = remote.call(tool, &raw(&json!({"server": name}))).await?;
    if answer.failed {
        return Err(ServerLoginError::Tool(answer.texts().join("\n")));
    }
    let Some(LoginDetails { auth_url: url }) = answer.details() else {
        // Without a page to open, the login succeeded only if the server is connected.
        if !is_connected(remote, name).await {
            return Err(ServerLoginError::NoUrl);
        }
        say(&format!("✓ {name} is already connected."));
        return Ok(());
    };
    say("Opening browser for authentication...");
    if browser::open(&url).is_err() {
        say(&format!(
            "Could not open browser automatically.\nPlease open this URL in your browser:\n  {url}"
        ));
    }
    say(&format!("Waiting for {name} authentication to complete..."));
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        if is_connected(remote, name).await {
            say(&format!("✓ {name} authenticated successfully."));
            return Ok(());
        }
        sleep(POLL_INTERVAL).await;
    }
    Err(ServerLoginError::Timeout { server: name.clone() })
}

async fn is_connected(remote: &Remote, name: &str) -> bool {
    let servers = list(remote).await.unwrap_or_default();
    servers.iter().any(|server| server.name == name && server.status == LoginState::Connected)
}
