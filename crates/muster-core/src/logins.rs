//! The port to users' logins at upstream servers.
//!
//! Token storage, MCP connections and surfaces do not depend on each other; all depend on this
//! module. A token goes from the storage to one connection only, for one server and one user.

use std::sync::Arc;

use thiserror::Error;

use crate::{
    backend::BoxFuture,
    call::{Caller, Owner},
    credentials::{BearerToken, Principal},
    server_auth::ServerAuth,
};

/// The user who logs in at a server.
#[derive(Debug, Clone)]
pub struct LoginSubject {
    /// The owner of the logins.
    pub owner: Owner,
    /// The user's login at the gateway.
    pub principal: Option<Arc<Principal>>,
}

impl LoginSubject {
    /// The subject of a call.
    pub fn of(caller: &Caller) -> Self {
        Self { owner: caller.owner(), principal: caller.principal.clone() }
    }
}

/// A server that requires a login.
#[derive(Debug, Clone, Default)]
pub struct ProtectedServer {
    /// Its name at the gateway.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Its authentication settings.
    pub auth: ServerAuth,
    /// The challenge of its last refusal.
    pub challenge: Option<String>,
}

/// A source of access tokens of one user for one server.
pub trait AccessTokenSource: Send + Sync {
    /// The token for the next request, refreshed if it is about to expire.
    fn token(&self) -> BoxFuture<'_, Result<BearerToken, LoginError>>;

    /// Returns another token after the server rejected `token` with `challenge`, if one can be obtained without the
    /// user.
    fn replace_rejected<'a>(
        &'a self,
        token: &'a BearerToken,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<BearerToken, LoginError>>;
}

crate::opaque_debug!(AccessTokenSource);

/// How a user gets access to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthMethod {
    /// By a login at the server's issuer.
    Login,
    /// By forwarding the token of the gateway login.
    Forwarded,
    /// By exchanging that token for one of the server's issuer.
    Exchanged,
}

impl AuthMethod {
    /// The method that a server's settings ask for.
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

    /// Whether it works without the user.
    pub const fn is_silent(self) -> bool {
        matches!(self, Self::Forwarded | Self::Exchanged)
    }
}

/// The token issuer of a server, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IssuerInfo {
    /// Its identifier, a URL; empty until it is known.
    pub issuer: String,
    /// The requested scope.
    pub scope: String,
}

/// Logs users in at servers.
pub trait LoginService: Send + Sync {
    /// Returns access without the user's involvement: by a stored, forwarded or exchanged token.
    fn access<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<Arc<dyn AccessTokenSource>, LoginError>>;

    /// Begins a login and returns the URL where the user logs in with a browser. `arrived` is notified when the login
    /// completes.
    fn begin<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> BoxFuture<'a, Result<String, LoginError>>;

    /// Deletes every token that the user has from the server's issuer.
    fn forget<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, ()>;

    /// Deletes every token that the user has.
    fn forget_all<'a>(&'a self, person: &'a LoginSubject) -> BoxFuture<'a, ()>;

    /// Whether the user has logged in at this very server and the login is stored. A login at
    /// another server of the same issuer does not count: the user did not ask for this one.
    fn has_stored_login<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<bool, LoginError>>;

    /// Whether the server requires scopes that the user has not granted and a login could grant.
    fn needs_step_up<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, bool>;

    /// The token issuer of the server.
    fn issuer(&self, site: &ProtectedServer) -> IssuerInfo;
}

crate::opaque_debug!(LoginService);

/// Receives completed logins.
pub trait LoginObserver: Send + Sync {
    /// The login has completed and a token is stored for `server`. Fails if the server could not be
    /// connected.
    fn logged_in(&self, person: LoginSubject, server: String) -> BoxFuture<'_, Result<(), String>>;
}

crate::opaque_debug!(LoginObserver);

/// Why there is no access. Messages never contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LoginError {
    /// The user has to log in first.
    #[error("authentication required")]
    Required,
    /// Logins at servers are not configured.
    #[error("logins at servers are not set up")]
    NotConfigured,
    /// The token issuer of the server cannot be discovered.
    #[error("unable to discover OAuth authorization server: {0}")]
    UnknownIssuer(String),
    /// A refusal, or a server that violates the protocol.
    #[error("{0}")]
    Refused(String),
    /// The granted scopes do not suffice for this request.
    #[error("{0}")]
    InsufficientScope(String),
    /// A temporary failure.
    #[error("{0}")]
    Unavailable(String),
}
