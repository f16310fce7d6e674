//! `muster auth logout`.

use muster_api::auth::Sso;
use muster_client::{
    login::{
        self, flow, server_logins,
        token_store::{StoredToken, TokenStore},
    },
    remote::{Remote, target::Target},
};

use super::AuthTarget;
use crate::{
    error::CommandError,
    output::{self, Printer},
};

/// Ends the login at one gateway and deletes its stored token.
pub(super) async fn gateway(target: &Target, at: &AuthTarget) -> Result<(), CommandError> {
    let tokens = TokenStore::of_user()?;
    if let Some(token) = tokens.load(&target.url) {
        end_login(&token).await;
    }
    tokens.remove(&target.url)?;
    at.say(&format!("Logged out from {}", target.url))
}

/// Ends the login of a token at its gateway. A failure is only a warning, so that the token can be deleted anyway.
async fn end_login(token: &StoredToken) {
    if let Err(error) = flow::end_login(token).await {
        let url = &token.server_url;
        output::warn(&format!(
            "could not revoke the login at {url}; it stays valid until it expires: {error}"
        ));
    }
}

/// Ends all logins, including those at servers behind the gateways, and deletes the stored tokens.
pub(super) async fn all(yes: bool, at: &AuthTarget) -> Result<(), CommandError> {
    let tokens = TokenStore::of_user()?;
    let all = tokens.all();
    let count = all.len();
    if count == 0 {
        return at.say("No stored tokens to clear.");
    }
    if !yes {
        let printer = Printer::stdout();
        printer.line(&format!("The following {count} token(s) will be cleared:"))?;
        for token in &all {
            printer.line(&format!("  - {}", token.server_url))?;
        }
        if !output::confirm("Are you sure you want to clear all tokens? [y/N]: ")? {
            return printer.line("Cancelled.");
        }
    }
    for token in all {
        let token = &flow::fresh(token).await;
        if let Err(error) = flow::end_server_logins(token).await {
            let url = &token.server_url;
            output::warn(&format!("logins at the servers behind {url} may remain: {error}"));
        }
        end_login(token).await;
        tokens.remove(&token.server_url)?;
    }
    at.say(&format!("Cleared {count} stored token(s)."))
}

/// Explains how to log out from a server behind the gateway: the gateway owns that login.
pub(super) async fn server(target: &Target, name: &str) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    let auth = login::stored_auth(target).await;
    let Ok(remote) = Remote::connect(target, &auth).await else {
        return printer.line(&format!(
            "Not authenticated to {}.\nThere is no login at '{name}' to end.",
            target.url
        ));
    };
    let found = server_logins::list(&remote).await.map_err(CommandError::from);
    let found = found.and_then(|all| super::find(all, name));
    remote.close().await;
    let (how, end) = match found?.sso() {
        Some(Sso::Exchanged) => ("exchanges your token of the gateway for its own", None),
        Some(Sso::Forwarded) => ("is given your token of the gateway", None),
        Some(Sso::Failed) | None => (
            "keeps a login of its own at the gateway",
            Some(format!("End it with: muster call core_auth_logout server={name}")),
        ),
    };
    let end = end.unwrap_or_else(|| {
        "Its login ends with the one at the gateway: muster auth logout".to_owned()
    });
    printer.line(&format!("Server '{name}' {how}.\n{end}"))
}
