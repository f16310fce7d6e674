//! The ports between transports and authentication: principals, tokens and login pages.
//!
//! Transports and `muster-auth` do not depend on each other; both depend on this module.

use std::{fmt, net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use crate::{backend::BoxFuture, logins::LoginError};

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
}

impl Principal {
    /// The key of a subject, which is unique only within its issuer.
    pub fn id_of(issuer: &str, subject: &str) -> Arc<str> {
        format!("{}|{subject}", issuer.trim_end_matches('/')).into()
    }
}

/// A source of ID tokens of one login, refreshed as needed.
pub trait IdTokenSource: fmt::Debug + Send + Sync {
    /// A token that is valid for a while, or none if the login gives none. An error means that this
    /// is not known now.
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>>;
}

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

/// Authenticates HTTP requests.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// The sender of a request with these headers, or the response that refuses it.
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Arc<Principal>, Response<Bytes>>>;
}

/// HTTP pages beside the protocol, for browsers and OAuth clients.
pub trait WebPages: fmt::Debug + Send + Sync {
    /// Whether a path is one of these pages.
    fn serves(&self, path: &str) -> bool;

    /// Responds to a request from `peer`.
    fn respond(&self, request: Request<Bytes>, peer: IpAddr) -> BoxFuture<'_, Response<Bytes>>;
}
