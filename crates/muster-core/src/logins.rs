//! The port to logins at servers outside: how a request of someone gets that person's token.
//!
//! Whoever keeps tokens, whoever speaks to servers and whoever decides what is shown do not know each
//! other; all know this. A token travels from the first to the second only, for one server and one
//! person.

use std::{fmt, sync::Arc};

use thiserror::Error;

use crate::{
    backend::BoxFuture,
    call::{Caller, Owner},
    credentials::{BearerToken, Principal},
    server_auth::ServerAuth,
};

/// Someone who is logged in, or wants to be.
#[derive(Debug, Clone)]
pub struct LoginSubject {
    /// Whom their logins belong to.
    pub owner: Owner,
    /// Who they are, if they have logged in to the gateway.
    pub principal: Option<Arc<Principal>>,
}

impl LoginSubject {
    /// Whoever is calling.
    pub fn of(caller: &Caller) -> Self {
        Self { owner: caller.owner(), principal: caller.principal.clone() }
    }
}

/// A server that wants a login, as far as that needs to know it.
#[derive(Debug, Clone, Default)]
pub struct ProtectedServer {
    /// What the gateway calls it.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// How its file says that it is logged in to.
    pub auth: ServerAuth,
    /// What it said when it last refused a request.
    pub challenge: Option<String>,
}

/// The access that one person has to one server.
pub trait AccessTokenSource: fmt::Debug + Send + Sync {
    /// The token for the next request, renewed if it is about to end.
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>>;

    /// The server did not take `token`; `challenge` is what it said. Another one, if that can be had
    /// without asking the person.
    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>>;
}

/// How access came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// By a login of the person at the server's issuer.
    Login,
    /// The token of the person's login to the gateway is shown to the server.
    Forwarded,
    /// That token was exchanged for one of the server's issuer.
    Exchanged,
}

impl AuthMethod {
    /// How the file of a server says that it is logged in to.
    pub fn of(auth: &ServerAuth) -> Self {
        let exchange = auth.token_exchange.as_ref().filter(|exchange| exchange.enabled);
        match exchange {
            Some(exchange)
                if !exchange.dex_token_endpoint.is_empty() && !exchange.connector_id.is_empty() =>
            {
                Self::Exchanged
            }
            Some(_) | None if auth.forward_token => Self::Forwarded,
            Some(_) | None => Self::Login,
        }
    }

    /// Whether nobody is asked for it.
    pub const fn is_silent(self) -> bool {
        matches!(self, Self::Forwarded | Self::Exchanged)
    }
}

/// What is known about who issues tokens for a server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssuerInfo {
    /// Its name, an address; empty until it is known.
    pub issuer: String,
    /// What is asked for there.
    pub scope: String,
}

/// Logs people in at servers.
pub trait LoginService: fmt::Debug + Send + Sync {
    /// Access that can be had without asking the person: by a token that is kept, by one that is shown
    /// or exchanged.
    fn access<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<Arc<dyn AccessTokenSource>, LoginError>>;

    /// An address where the person logs in with a browser. `arrived` hears when they have.
    fn begin<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> BoxFuture<'a, Result<String, LoginError>>;

    /// Forgets every token that the person has of the server's issuer.
    fn forget<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, ()>;

    /// Forgets every token that the person has of anybody.
    fn forget_all<'a>(&'a self, person: &'a LoginSubject) -> BoxFuture<'a, ()>;

    /// Whether the person has had access to this very server by a login that is kept. A login at another
    /// server of the same issuer is not enough: that one they did not ask for.
    fn has_stored_login<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<bool, LoginError>>;

    /// Whether the server wants more than the person has granted, and a login could give it.
    fn needs_step_up<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, bool>;

    /// What is known about who issues tokens for the server.
    fn issuer(&self, site: &ProtectedServer) -> IssuerInfo;
}

/// Hears that someone has come back from logging in.
pub trait LoginObserver: fmt::Debug + Send + Sync {
    /// They have, and a token is kept for `server`. Whether the server could be connected for them.
    fn logged_in(&self, person: LoginSubject, server: String) -> BoxFuture<'_, Result<(), String>>;
}

/// Why there is no access. Texts never hold a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The person has to log in first.
    #[error("authentication required")]
    Required,
    /// Logins are not set up.
    #[error("logins at servers are not set up")]
    NotConfigured,
    /// Nobody knows who issues tokens for the server.
    #[error("unable to discover OAuth authorization server: {0}")]
    UnknownIssuer(String),
    /// It cannot work like this: a refusal, or a server that breaks the rules.
    #[error("{0}")]
    Refused(String),
    /// What was granted does not do for this request. For others it does.
    #[error("{0}")]
    InsufficientScope(String),
    /// It may work later.
    #[error("{0}")]
    Unavailable(String),
}
