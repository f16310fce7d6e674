//! `muster auth login`.

use muster_api::auth::{LoginState, ServerAuthStatus};
use muster_client::{
    login::{
        self,
        flow::{self, Prompting},
        server_logins,
        token_store::TokenStore,
    },
    remote::{Remote, error::RemoteError, target::Target},
};
use muster_core::text;

use super::{AuthTarget, status::status_label};
use crate::{error::CommandError, output::Printer, terminal::Terminal};

/// Whether the login page is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prompt {
    Page,
    SilentFirst,
}

/// Connects to a gateway, after a login if it requires one.
pub(super) async fn gateway(target: &Target, prompt: Prompt) -> Result<Remote, CommandError> {
    let auth = login::stored_auth(target).await;
    let challenge = match Remote::connect(target, &auth).await {
        Ok(remote) => return Ok(remote),
        Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
        Err(err) => {
            return Err(CommandError::new(format!("failed to check connection: {err}")));
        }
    };
    if let Some(auth) = login::replace_refused(target, &auth, challenge.as_deref()).await
        && let Ok(remote) = Remote::connect(target, &auth).await
    {
        return Ok(remote);
    }
    let printer = Printer::stdout();
    let ui = &Terminal::Stdout;
    let challenge = challenge.as_deref();
    let has_token = TokenStore::of_user()?.load(&target.url).is_some();
    if prompt == Prompt::SilentFirst && has_token {
        let silent = flow::login(target, challenge, Prompting::Silent, ui).await;
        if let Ok(token) = silent {
            let url = &target.url;
            printer.line(&format!("\nSuccessfully re-authenticated to {url} (silent)"))?;
            return Ok(Remote::connect(target, &login::bearer(&token)).await?);
        }
    }
    let token = flow::login(target, challenge, Prompting::Page, ui).await?;
    printer.line(&format!("Successfully authenticated to {}", target.url))?;
    Ok(Remote::connect(target, &login::bearer(&token)).await?)
}

/// Logs in at a gateway and waits for single sign-on at the servers that share this login.
pub(super) async fn gateway_with_sso(
    target: &Target,
    prompt: Prompt,
    at: &AuthTarget,
) -> Result<(), CommandError> {
    let remote = match connected(target).await {
        Some(remote) => {
            let has_token = TokenStore::of_user()?.load(&target.url).is_some();
            let url = &target.url;
            at.say(&match has_token {
                true => format!("Already logged in to {url}"),
                false => format!("{url} does not require you to log in"),
            })?;
            remote
        }
        None => gateway(target, prompt).await?,
    };
    // A gateway that lacks the `auth://status` resource has no servers that require logins.
    let servers = server_logins::settled(&remote).await.unwrap_or_default();
    remote.close().await;
    for line in servers.iter().filter_map(sso_line) {
        at.say(&line)?;
    }
    Ok(())
}

/// Describes the result of single sign-on at a server; `None` if the server does not use it.
fn sso_line(server: &ServerAuthStatus) -> Option<String> {
    let name = &server.name;
    server.sso()?;
    match server.status {
        LoginState::Connected => Some(format!("  {name}: connected")),
        LoginState::SsoPending => Some(format!("  {name}: still connecting")),
        LoginState::ReauthRequired => {
            let error = server.error.as_deref().map(text::printable);
            let error = error.map(|error| format!(": {error}")).unwrap_or_default();
            Some(format!("  {name}: single sign-on failed{error}"))
        }
        _ => None,
    }
}

/// Connects to a gateway, if that needs no login.
async fn connected(target: &Target) -> Option<Remote> {
    let auth = login::stored_auth(target).await;
    Remote::connect(target, &auth).await.ok()
}

async fn gateway_first(
    target: &Target,
    prompt: Prompt,
    at: &AuthTarget,
) -> Result<Remote, CommandError> {
    if let Some(remote) = connected(target).await {
        return Ok(remote);
    }
    at.say("Authenticating to aggregator first...")?;
    gateway(target, prompt).await.map_err(|err| {
        CommandError::new(format!("failed to authenticate to aggregator: {err}")).code_of(&err)
    })
}

/// Logs in at one server behind a gateway.
pub(super) async fn server(
    target: &Target,
    name: &str,
    prompt: Prompt,
    at: &AuthTarget,
) -> Result<(), CommandError> {
    let remote = gateway_first(target, prompt, at).await?;
    let failed = |err| CommandError::new(format!("failed to get auth status: {err}"));
    let all = server_logins::settled(&remote).await.map_err(failed)?;
    let server = super::find(all, name)?;
    let done = match server.status {
        LoginState::Connected => at.say(&format!(
            "Server '{name}' is already connected and does not require authentication."
        )),
        LoginState::AuthRequired if server.sso().is_some() => Err(CommandError::new(format!(
            "server '{name}' uses your login at the gateway, but did not accept it"
        ))
        .hint("log in to the gateway again: muster auth logout, then muster auth login")),
        LoginState::AuthRequired if server.auth_tool.is_none() => Err(CommandError::new(format!(
            "server '{name}' requires authentication but no auth tool is available"
        ))),
        LoginState::AuthRequired | LoginState::ReauthRequired => {
            at.say(&format!("Authenticating to {name}..."))?;
            let say = |text: &str| drop(at.say(text));
            server_logins::log_in(&remote, &server, &say).await.map_err(CommandError::from)
        }
        status => at.say(&format!(
            "Server '{name}' is in state '{}' and cannot be authenticated.",
            status_label(status).to_lowercase()
        )),
    };
    remote.close().await;
    done
}

/// Logs in at every server behind a gateway that requires it.
pub(super) async fn all(
    target: &Target,
    prompt: Prompt,
    at: &AuthTarget,
) -> Result<(), CommandError> {
    let remote = gateway(target, prompt).await?;
    let waiting: Vec<ServerAuthStatus> = match server_logins::settled(&remote).await {
        Ok(all) => all.into_iter().filter(ServerAuthStatus::needs_login).collect(),
        Err(err) => {
            remote.close().await;
            return Err(CommandError::new(format!("could not read the state of servers: {err}")));
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
        match server_logins::log_in(&remote, server, &|text| drop(at.say(text))).await {
            Ok(()) => done += 1,
            Err(err) => at.say(&format!("  Failed: {err}"))?,
        }
    }
    remote.close().await;
    at.say(&format!("Authentication complete. {done}/{count} servers authenticated."))?;
    check_all(done, count)
}

/// Fails if not every login succeeded.
fn check_all(done: usize, count: usize) -> Result<(), CommandError> {
    match count - done {
        0 => Ok(()),
        failed => Err(CommandError::new(format!("{failed} of {count} logins failed"))),
    }
}

#[cfg(test)]
mod tests {
    use super::check_all;

    #[test]
    fn failed_logins_are_an_error() {
        assert!(check_all(2, 2).is_ok());
        assert_eq!(check_all(1, 3).unwrap_err().to_string(), "2 of 3 logins failed");
    }
}
