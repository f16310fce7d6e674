//! The ports between transports and authentication: principals, tokens and login pages.
//!
//! Transports and `muster-auth` do not depend on each other; both depend on this module.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, request};

use crate::{
    backend::BoxFuture,
    call::{Caller, Role},
    logins::LoginError,
};

/// The authenticated sender of a request.
#[derive(Debug, Clone)]
pub struct Principal {
    /// A stable key, unique among all issuers: everything that belongs to the principal is stored
    /// under it.
    pub id: Arc<str>,
    /// The issuer that authenticated the principal.
    pub issuer: Arc<str>,
    /// The subject at the issuer.
    pub subject: Arc<str>,
    /// The email address, if the issuer sent it.
    pub email: Option<Arc<str>>,
    /// The name, if the issuer sent it.
    pub name: Option<Arc<str>>,
    /// The group memberships.
    pub groups: Arc<[String]>,
    /// The login that the request belongs to: the same for all its tokens.
    pub login: Arc<str>,
    /// ID tokens of the login, for servers that they may be forwarded to.
    pub identity: Option<Arc<dyn IdTokenSource>>,
    /// The OAuth client that the gateway issued the token to.
    pub client: Option<Arc<str>>,
}

impl Principal {
    /// The key of a subject, which is unique only within its issuer.
    pub fn id_of(issuer: &str, subject: &str) -> Arc<str> {
        format!("{}|{subject}", issuer.trim_end_matches('/')).into()
    }
}

/// A source of ID tokens of one login, refreshed as needed.
pub trait IdTokenSource: Send + Sync {
    /// Returns a token that stays valid for a while, or `None` if the login has no ID tokens. An error means that the
    /// token cannot be determined now.
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>>;
}

crate::opaque_debug!(IdTokenSource);

/// A bearer token. Its `Debug` output does not contain the token.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(Arc<str>);

impl BearerToken {
    /// Wraps a token.
    pub fn new(token: impl Into<Arc<str>>) -> Self {
        Self(token.into())
    }

    /// The token itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

/// The other end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The address of the client.
    pub remote: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The user id of the client's process, looked up at most once per connection.
    user: OnceLock<Option<u32>>,
}

impl Peer {
    /// The client at `remote`, connected to `local`.
    pub fn new(remote: SocketAddr, local: SocketAddr) -> Self {
        Self { remote, local, user: OnceLock::new() }
    }

    /// The IP address of the client.
    pub fn ip(&self) -> IpAddr {
        self.remote.ip().to_canonical()
    }

    /// The user id of the client's process, found by `lookup` on first use; `None` if it is unknown.
    pub fn user(&self, lookup: impl FnOnce(SocketAddr, SocketAddr) -> Option<u32>) -> Option<u32> {
        *self.user.get_or_init(|| lookup(self.remote, self.local))
    }
}

/// A request that may proceed, and its principal.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    /// The principal; `None` for an anonymous request.
    pub principal: Option<Arc<Principal>>,
    /// Whether the sender may change the gateway.
    pub role: Role,
    /// The name of the static token that was presented.
    pub token: Option<Arc<str>>,
    /// The toolset that the token or the request is limited to.
    pub toolset: Option<Arc<str>>,
}

/// A request named another toolset than the one its token is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetMismatch {
    /// The toolset of the token.
    pub bound: Arc<str>,
}

impl Admission {
    /// The admission of a principal as an ordinary user.
    pub fn of(principal: Arc<Principal>) -> Self {
        Self { principal: Some(principal), ..Self::default() }
    }

    /// The admission, limited to the toolset that the request names. A token that is bound to a toolset cannot choose another.
    pub fn limited_to(self, requested: Option<&str>) -> Result<Self, ToolsetMismatch> {
        match (&self.toolset, requested) {
            (_, None) => Ok(self),
            (None, Some(requested)) => Ok(Self { toolset: Some(requested.into()), ..self }),
            (Some(bound), Some(requested)) if **bound == *requested => Ok(self),
            (Some(bound), Some(_)) => Err(ToolsetMismatch { bound: Arc::clone(bound) }),
        }
    }

    /// Returns the caller. `session` identifies a caller without a principal.
    pub fn caller(self, session: Option<Arc<str>>) -> Caller {
        let Self { principal, role, token, toolset } = self;
        let caller = match principal {
            Some(principal) => Caller::authenticated(principal),
            None => Caller { session, ..Caller::local() },
        };
        Caller { role, token, toolset, ..caller }
    }
}

/// Authenticates HTTP requests.
pub trait Authenticator: Send + Sync {
    /// The sender of a request with these headers, or the response that refuses it.
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, Response<Bytes>>>;

    /// Whether a caller that was admitted before would still be admitted. Checked for callers with open streams, which
    /// send no further requests.
    fn still_admits<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool>;
}

crate::opaque_debug!(Authenticator);

/// The greatest length of a form that anyone may send, in bytes.
pub const MAX_FORM: usize = 64 * 1024;

/// HTTP pages outside the protocol, for browsers and OAuth clients.
pub trait WebPages: Send + Sync {
    /// Whether a path is one of these pages.
    fn serves(&self, path: &str) -> bool;

    /// The greatest length of the body of a request, in bytes. It is low unless the caller is known, because anyone may
    /// send forms.
    fn max_body<'a>(&'a self, _: &'a request::Parts, _: &'a Peer) -> BoxFuture<'a, usize> {
        Box::pin(std::future::ready(MAX_FORM))
    }

    /// Responds to a request from `peer`.
    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>>;
}

crate::opaque_debug!(WebPages);

#[cfg(test)]
mod tests {
    use super::Admission;

    #[test]
    fn a_bound_toolset_cannot_be_exchanged() {
        for (bound, requested, expected) in [
            (None, None, Ok(None)),
            (None, Some("a"), Ok(Some("a"))),
            (Some("a"), None, Ok(Some("a"))),
            (Some("a"), Some("a"), Ok(Some("a"))),
            (Some("a"), Some("b"), Err("a")),
        ] {
            let admission = Admission { toolset: bound.map(Into::into), ..Admission::default() };
            let limited = admission.limited_to(requested);
            let found = match &limited {
                Ok(admission) => Ok(admission.toolset.as_deref()),
                Err(mismatch) => Err(&*mismatch.bound),
            };
            assert_eq!(found, expected, "{bound:?} {requested:?}");
        }
    }
}
