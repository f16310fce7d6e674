//! `muster auth login`.

use std::time::Duration;

use muster_exec::browser;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{
    At,
    servers::{self, Server},
};
use crate::{
    commands::asking::one,
    error::CommandError,
    login::{
        self,
        flow::{self, Prompting, Screen},
        tokens::Tokens,
    },
    output::Printer,
    remote::{Remote, error::RemoteError, target::Target},
};

/// How long a login at a server behind the gateway may take, and how often it is looked at.
const PATIENCE: Duration = Duration::from_secs(120);
const EVERY: Duration = Duration::from_millis(500);

/// Whether a page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Page,
    SilentFirst,
}

/// Logs in at a gateway that wants it; the connection that comes of it.
pub(super) async fn gateway(target: &Target, how: How) -> Result<Remote, CommandError> {
    let auth = login::remembered(target).await;
    let challenge = match Remote::connect(target, &auth).await {
        Ok(remote) => return Ok(remote),
        Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
        Err(err) => {
            return Err(CommandError::new(format!("failed to check connection: {err}")));
        }
    };
    let printer = Printer::standard();
    let screen = Screen { open: &browser::open, say: &login::say };
    let challenge = challenge.as_deref();
    let knows_us = Tokens::of_user()?.load(&target.url).is_some();
    if how == How::SilentFirst && knows_us {
        let silent = flow::login(target, challenge, Prompting::Silent, &screen).await;
        if let Ok(token) = silent {
            let url = &target.url;
            printer.line(&format!("\nSuccessfully re-authenticated to {url} (silent)"))?;
            return Ok(Remote::connect(target, &login::bearer(&token)).await?);
        }
    }
    let token = flow::login(target, challenge, Prompting::Page, &screen).await?;
    printer.line(&format!(
        "Successfully authenticated to {}\nServers that share this login connect with the first request.",
        target.url
    ))?;
    Ok(Remote::connect(target, &login::bearer(&token)).await?)
}

async fn gateway_first(target: &Target, how: How, at: &At) -> Result<Remote, CommandError> {
    let known = login::remembered(target).await;
    if let Ok(remote) = Remote::connect(target, &known).await {
        return Ok(remote);
    }
    at.say("Authenticating to aggregator first...")?;
    gateway(target, how).await.map_err(|err| {
        CommandError::new(format!("failed to authenticate to aggregator: {err}")).code_of(&err)
    })
}

/// Logs in at one server behind a gateway.
pub(super) async fn server(
    target: &Target,
    name: &str,
    how: How,
    at: &At,
) -> Result<(), CommandError> {
    let remote = gateway_first(target, how, at).await?;
    let failed = |err| CommandError::new(format!("failed to get auth status: {err}"));
    let all = servers::all(&remote).await.map_err(failed)?;
    let server = servers::find(all, name)?;
    let done = match server.status.as_str() {
        "connected" => at.say(&format!(
            "Server '{name}' is already connected and does not require authentication."
        )),
        "auth_required" if server.auth_tool.is_none() => Err(CommandError::new(format!(
            "server '{name}' requires authentication but no auth tool is available"
        ))),
        "auth_required" => {
            at.say(&format!("Authenticating to {name}..."))?;
            log_in(&remote, &server, at).await
        }
        state => {
            at.say(&format!("Server '{name}' is in state '{state}' and cannot be authenticated."))
        }
    };
    remote.close().await;
    done
}

/// Logs in at every server behind a gateway that wants it.
pub(super) async fn all(target: &Target, how: How, at: &At) -> Result<(), CommandError> {
    let remote = gateway(target, how).await?;
    let waiting: Vec<Server> = match servers::all(&remote).await {
        Ok(all) => all.into_iter().filter(Server::wants_login).collect(),
        Err(err) => {
            remote.close().await;
            return at.say(&format!("Warning: could not read the state of servers: {err}"));
        }
    };
    let count = waiting.len();
    if count == 0 {
        at.say("No MCP servers require authentication.\nAll authentication complete.")?;
        remote.close().await;
        return Ok(());
    }
    let names: String = waiting.iter().map(|server| format!("\n  - {}", server.name)).collect();
    at.say(&format!("Found {count} MCP server(s) requiring authentication:{names}"))?;
    let mut done = 0;
    for (index, server) in waiting.iter().enumerate() {
        at.say(&format!("[{}/{count}] Authenticating to {}", index + 1, server.name))?;
        match log_in(&remote, server, at).await {
            Ok(()) => done += 1,
            Err(err) => at.say(&format!("  Failed: {err}"))?,
        }
    }
    remote.close().await;
    at.say(&format!("Authentication complete. {done}/{count} servers authenticated."))
}

/// Logs in at a server by the tool that it names, and waits until it is connected.
async fn log_in(remote: &Remote, server: &Server, at: &At) -> Result<(), CommandError> {
    let name = &server.name;
    let tool = server.auth_tool.as_deref().unwrap_or("core_auth_login");
    let answer = remote.call(tool, &one("server", name)).await?;
    let text = answer.texts().join("\n");
    if answer.failed {
        return Err(CommandError::new(text));
    }
    if is_done(&text) {
        return at.say(&format!("✓ {name} is already connected."));
    }
    let url =
        address(&text).ok_or_else(|| CommandError::new("auth tool did not return an auth URL"))?;
    at.say("Opening browser for authentication...")?;
    if browser::open(&url).is_err() {
        at.say(&format!(
            "Could not open browser automatically.\nPlease open this URL in your browser:\n  {url}"
        ))?;
    }
    at.say(&format!("Waiting for {name} authentication to complete..."))?;
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        let all = servers::all(remote).await.unwrap_or_default();
        if all.iter().any(|server| server.name == *name && server.status == "connected") {
            return at.say(&format!("✓ {name} authenticated successfully."));
        }
        sleep(EVERY).await;
    }
    Err(CommandError::new(format!("timeout waiting for {name} to authenticate"))
        .hint(format!("try again with `muster auth login --server {name}`")))
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
    use super::{address, is_done};

    #[test]
    fn answers_of_auth_tools() {
        assert_eq!(address(r#"{"auth_url": "https://i/a"}"#).as_deref(), Some("https://i/a"));
        assert_eq!(address("Open this:\n  https://i/b\n").as_deref(), Some("https://i/b"));
        assert_eq!(address("nothing"), None);
        assert!(is_done("Server 'x' is already connected"));
    }
}
