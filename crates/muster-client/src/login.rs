//! Logins of the user at gateways: what is stored, and what is done when one is wanted.
//!
//! **Invariant:** a token is sent to the gateway it was made for, and to nobody else; it is kept in a
//! file that only the user can read, and is never printed.

mod callback_server;
mod discovery;
pub mod flow;
pub mod server_logins;
pub mod token_store;

use std::io;

use thiserror::Error;

use crate::{
    env_vars,
    remote::{Auth, Remote, error::RemoteError, target::Target},
};

use self::{
    flow::Prompting,
    token_store::{StoredToken, TokenStore},
};

/// How a login reaches the user: a terminal, or whatever else stands in front of them.
pub trait LoginUi: Sync {
    /// Opens an address in the browser.
    fn open(&self, url: &str) -> io::Result<()>;
    /// Shows text as it is, without a line break of its own.
    fn show(&self, text: &str);
    /// Shows a question and returns the line typed behind it.
    fn ask(&self, question: &str) -> io::Result<String>;
}

/// The name of an authentication mode is not known.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid auth mode \"{0}\": must be one of 'auto', 'prompt', or 'none'")]
pub struct UnknownAuthMode(pub String);

/// What is done when a gateway wants a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AuthMode {
    /// The browser is opened.
    #[default]
    Auto,
    /// The user is asked first.
    Prompt,
    /// Nothing: it is an error.
    None,
}

impl AuthMode {
    /// All of them by name.
    pub const NAMES: [&'static str; 3] = ["auto", "prompt", "none"];

    /// Reads what was typed, or what the environment says.
    pub fn parse(typed: Option<&str>) -> Result<Self, UnknownAuthMode> {
        let known = |name: &str| match name.to_lowercase().as_str() {
            "auto" => Some(Self::Auto),
            "prompt" => Some(Self::Prompt),
            "none" => Some(Self::None),
            _ => None,
        };
        if let Some(typed) = typed.filter(|typed| !typed.is_empty()) {
            return known(typed).ok_or_else(|| UnknownAuthMode(typed.to_owned()));
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

/// Connects for a few questions, with what is stored of the user, and with a login where that is
/// not enough.
pub async fn connect(
    target: &Target,
    mode: AuthMode,
    quiet: bool,
    ui: &dyn LoginUi,
) -> Result<Remote, RemoteError> {
    connect_for(ConnectionUse::Calls, target, mode, quiet, ui).await
}

/// Connects for a short or a long time.
pub async fn connect_for(
    stay: ConnectionUse,
    target: &Target,
    mode: AuthMode,
    quiet: bool,
    ui: &dyn LoginUi,
) -> Result<Remote, RemoteError> {
    let auth = if mode == AuthMode::None { Auth::None } else { stored_auth(target).await };
    let had_one = !matches!(auth, Auth::None);
    let challenge = match open(stay, target, &auth).await {
        Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
        connected => return connected,
    };
    if mode == AuthMode::None {
        return Err(RemoteError::AuthRequired { endpoint: target.url.clone(), challenge });
    }
    if had_one {
        // What the gateway no longer takes is of no use.
        drop(TokenStore::of_user().map(|tokens| tokens.remove(&target.url)));
        if quiet {
            return Err(RemoteError::AuthExpired { endpoint: target.url.clone() });
        }
    }
    if !wanted(target, mode, quiet, ui)? {
        return Err(RemoteError::AuthRequired { endpoint: target.url.clone(), challenge });
    }
    let token = flow::login(target, challenge.as_deref(), Prompting::Page, ui).await?;
    open(stay, target, &bearer(&token)).await
}

async fn open(stay: ConnectionUse, target: &Target, auth: &Auth) -> Result<Remote, RemoteError> {
    match stay {
        ConnectionUse::Calls => Remote::connect(target, auth).await,
        ConnectionUse::Listen => Remote::listen(target, auth).await,
    }
}

/// What is stored of the user at a gateway. What is about to end is renewed first, if it can be.
pub async fn stored_auth(target: &Target) -> Auth {
    let Some(token) = TokenStore::of_user().ok().and_then(|tokens| tokens.load(&target.url)) else {
        return Auth::None;
    };
    if token.is_ending() && token.can_renew() {
        // Without luck the old one is tried: the gateway has the last word.
        if let Ok(renewed) = flow::renew(target, &token).await {
            return bearer(&renewed);
        }
    }
    if token.is_valid() { bearer(&token) } else { Auth::None }
}

/// Logs in anew without a page, where the gateway wants a login and has known the user. Without luck
/// everything is as it was.
pub async fn try_silent_login(target: &Target, mode: AuthMode, ui: &dyn LoginUi) {
    let known = TokenStore::of_user().ok().and_then(|tokens| tokens.load(&target.url));
    if known.is_none() || mode == AuthMode::None {
        return;
    }
    let challenge = match Remote::connect(target, &stored_auth(target).await).await {
        Ok(remote) => return remote.close().await,
        Err(RemoteError::AuthRequired { challenge, .. }) => challenge,
        // Whoever connects next says what is wrong.
        Err(_) => return,
    };
    let token = flow::login(target, challenge.as_deref(), Prompting::Silent, ui).await;
    if let Err(err) = token {
        tracing::debug!("no login without a page: {err}");
    }
}

/// A token as it is sent.
pub fn bearer(token: &StoredToken) -> Auth {
    Auth::Bearer(token.access_token.reveal().clone())
}

/// Whether the user wants to log in now.
fn wanted(
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
