//! The user's logins at gateways: stored tokens, and the OAuth login when there is none.
//!
//! **Invariant:** a token is sent only to the gateway it was issued for. It is stored in a file that
//! only the user can read, and never printed.

mod callback_server;
pub mod flow;
pub mod server_logins;
pub mod token_store;

use std::io;

use muster_auth::oauth::BearerChallenge;
use thiserror::Error;

use crate::{
    env_vars,
    remote::{Credentials, Remote, error::RemoteError, target::Target},
};

use self::{
    flow::Prompting,
    token_store::{StoredToken, TokenStore},
};

/// The user interface of a login.
pub trait LoginUi: Sync {
    /// Opens an address in the browser.
    fn open(&self, url: &str) -> io::Result<()>;
    /// Shows text unchanged, without adding a line break.
    fn show(&self, text: &str);
    /// Shows a question and returns the line that the user types.
    fn ask(&self, question: &str) -> io::Result<String>;
}

/// An unknown name of an authentication mode.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid auth mode \"{0}\": must be one of 'auto', 'prompt', or 'none'")]
pub struct UnknownAuthMode(pub String);

/// What to do if a gateway requires a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// Open the browser.
    #[default]
    Auto,
    /// Ask the user first.
    Prompt,
    /// Fail.
    None,
}

impl AuthMode {
    /// The names of all modes.
    pub const NAMES: [&'static str; 3] = ["auto", "prompt", "none"];

    /// Parses the value of the flag, or of `MUSTER_AUTH_MODE` if there is none.
    pub fn parse(flag: Option<&str>) -> Result<Self, UnknownAuthMode> {
        let known = |name: &str| match name.to_lowercase().as_str() {
            "auto" => Some(Self::Auto),
            "prompt" => Some(Self::Prompt),
            "none" => Some(Self::None),
            _ => None,
        };
        if let Some(flag) = flag.filter(|flag| !flag.is_empty()) {
            return known(flag).ok_or_else(|| UnknownAuthMode(flag.to_owned()));
        }
        let preset = env_vars::get("MUSTER_AUTH_MODE");
        Ok(preset.and_then(|name| known(&name)).unwrap_or_default())
    }
}

/// What a connection is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionUse {
    /// A few calls; notifications are ignored.
    Calls,
    /// A long-lived connection that receives notifications.
    Listen,
}

/// Connects for a few calls, with the stored token or after a login.
pub async fn connect(
    target: &Target,
    mode: AuthMode,
    quiet: bool,
    ui: &dyn LoginUi,
) -> Result<Remote, RemoteError> {
    connect_for(ConnectionUse::Calls, target, mode, quiet, ui).await
}

/// Connects with the stored token or after a login.
pub async fn connect_for(
    usage: ConnectionUse,
    target: &Target,
    mode: AuthMode,
    quiet: bool,
    ui: &dyn LoginUi,
) -> Result<Remote, RemoteError> {
    let auth = if mode == AuthMode::None { Credentials::None } else { stored_auth(target).await };
    let had_token = !matches!(auth, Credentials::None);
    let mut challenge = match open(usage, target, &auth).await {
        Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
        connected => return connected,
    };
    if let Some(auth) = replace_refused(target, &auth, challenge.as_deref()).await {
        challenge = match open(usage, target, &auth).await {
            Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
            connected => return connected,
        };
    }
    if mode == AuthMode::None {
        return Err(RemoteError::AuthRequired { endpoint: target.url.clone(), challenge });
    }
    if had_token {
        forget_refused(target, challenge.as_deref());
        if quiet {
            return Err(RemoteError::AuthExpired { endpoint: target.url.clone() });
        }
    }
    if !user_agrees(target, mode, quiet, ui)? {
        return Err(RemoteError::AuthRequired { endpoint: target.url.clone(), challenge });
    }
    let token = flow::login(target, challenge.as_deref(), Prompting::Page, ui).await?;
    open(usage, target, &bearer(&token)).await
}

/// Returns new credentials for a gateway that calls the stored token invalid: the token is refreshed, unless another
/// process already did so.
pub async fn replace_refused(
    target: &Target,
    refused: &Credentials,
    challenge: Option<&str>,
) -> Option<Credentials> {
    let Credentials::Bearer(refused) = refused else { return None };
    let challenge = BearerChallenge::parse(challenge.unwrap_or_default());
    if challenge.error.as_deref() != Some("invalid_token") {
        return None;
    }
    let token = TokenStore::of_user().ok()?.load(&target.url)?;
    if token.access_token.reveal() != refused {
        return Some(bearer(&token));
    }
    let refreshed = if token.can_refresh() { flow::refresh(&token).await.ok() } else { None };
    refreshed.map(|token| bearer(&token))
}

/// Deletes the stored token of a gateway that calls it invalid, unless it can be refreshed. The challenge must say
/// `invalid_token`: a gateway also refuses requests for other reasons, such as a token for another toolset.
pub fn forget_refused(target: &Target, challenge: Option<&str>) {
    let Ok(tokens) = TokenStore::of_user() else { return };
    let challenge = BearerChallenge::parse(challenge.unwrap_or_default());
    let can_refresh = tokens.load(&target.url).is_some_and(|token| token.can_refresh());
    if challenge.error.as_deref() == Some("invalid_token") && !can_refresh {
        // If this fails, the next login replaces the token.
        drop(tokens.remove(&target.url));
    }
}

async fn open(
    usage: ConnectionUse,
    target: &Target,
    auth: &Credentials,
) -> Result<Remote, RemoteError> {
    let target = &target.as_operator();
    match usage {
        ConnectionUse::Calls => Remote::connect(target, auth).await,
        ConnectionUse::Listen => Remote::listen(target, auth).await,
    }
}

/// The stored credentials for a gateway. A token about to expire is refreshed first.
pub async fn stored_auth(target: &Target) -> Credentials {
    let Some(token) = TokenStore::of_user().ok().and_then(|tokens| tokens.load(&target.url)) else {
        return Credentials::None;
    };
    let token = flow::fresh(token).await;
    if token.is_valid() { bearer(&token) } else { Credentials::None }
}

/// Tries to log in again without showing a page, if the user was logged in before and the gateway
/// requires a login. Failures are ignored.
pub async fn try_silent_login(target: &Target, mode: AuthMode, ui: &dyn LoginUi) {
    let known = TokenStore::of_user().ok().and_then(|tokens| tokens.load(&target.url));
    if known.is_none() || mode == AuthMode::None {
        return;
    }
    let challenge = match Remote::connect(target, &stored_auth(target).await).await {
        Ok(remote) => return remote.close().await,
        Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
        // The next connection reports the error.
        Err(_) => return,
    };
    let token = flow::login(target, challenge.as_deref(), Prompting::Silent, ui).await;
    if let Err(err) = token {
        tracing::debug!("silent login failed: {err}");
    }
}

/// The credentials with a stored token.
pub fn bearer(token: &StoredToken) -> Credentials {
    Credentials::Bearer(token.access_token.reveal().clone())
}

/// Whether to log in now.
fn user_agrees(
    target: &Target,
    mode: AuthMode,
    quiet: bool,
    ui: &dyn LoginUi,
) -> Result<bool, RemoteError> {
    if quiet {
        return Ok(true);
    }
    if mode == AuthMode::Auto {
        ui.show("Authentication required. Opening browser...\n");
        return Ok(true);
    }
    let question = format!(
        "Authentication required for {}\nOpen browser to authenticate? [Y/n]: ",
        target.url
    );
    let answer = ui.ask(&question).map_err(|err| RemoteError::Request(err.to_string()))?;
    Ok(matches!(answer.to_lowercase().as_str(), "" | "y" | "yes"))
}
