//! The ports to logins: who sent a request, and pages that belong to logging in.
//!
//! Transports and logins do not know each other; both know this.

use std::{fmt, net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};

use crate::{backend::BoxFuture, logins::LoginError};

/// Who sent a request, proven by a login.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The same for every request of the same person, and nobody else's: what belongs to someone is
    /// kept under it.
    pub id: Arc<str>,
    /// Who vouches for them.
    pub issuer: Arc<str>,
    /// What they are called there.
    pub subject: Arc<str>,
    /// Their address, if the issuer told it.
    pub email: Option<Arc<str>>,
    /// Their name, if the issuer told it.
    pub name: Option<Arc<str>>,
    /// What they are a member of.
    pub groups: Arc<[String]>,
    /// The login that the request belongs to: the same for all tokens that came of it.
    pub login: Arc<str>,
    /// Proof of who they are, for whom they allow it to be shown.
    pub identity: Option<Arc<dyn IdTokenSource>>,
}

impl Principal {
    /// What is unique among all issuers: a subject is so only for its own.
    pub fn id_of(issuer: &str, subject: &str) -> Arc<str> {
        format!("{}|{subject}", issuer.trim_end_matches('/')).into()
    }
}

/// ID tokens of one login, renewed as needed.
pub trait IdTokenSource: fmt::Debug + Send + Sync {
    /// One that is good for a while yet, or none if the login gives none any more. An error says that
    /// nobody can tell now.
    fn id_token(&self) -> BoxFuture<'_, Result<Option<BearerToken>, LoginError>>;
}

/// A token. Whoever holds it is taken for its owner, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken(Arc<str>);

impl BearerToken {
    /// Keeps a token.
    pub fn new(token: impl Into<Arc<str>>) -> Self {
        Self(token.into())
    }

    /// The token, for whom it is meant.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer")
    }
}

/// Stands before what is not for everybody.
pub trait Authenticator: fmt::Debug + Send + Sync {
    /// Who sent a request with these headers, or the answer to give in its place.
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Arc<Principal>, Response<Bytes>>>;
}

/// Pages beside the protocol, for browsers and other programs.
pub trait WebPages: fmt::Debug + Send + Sync {
    /// Whether a path is one of these pages.
    fn serves(&self, path: &str) -> bool;

    /// Answers a request for one of them. `peer` is where it came from.
    fn respond(&self, request: Request<Bytes>, peer: IpAddr) -> BoxFuture<'_, Response<Bytes>>;
}
