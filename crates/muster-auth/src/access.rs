//! Admission to the gateway: who is calling, and whether they may change it.
//!
//! In this order: a static token, a login if the gateway requires one, else a process of the gateway's own user on this
//! machine. The operator token makes any of these an operator, and stands for a login.

pub mod operator_file;
pub mod peer_user;
pub mod tokens;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use muster_config::settings::AccessMode;
use muster_core::{
    backend::BoxFuture,
    call::Role,
    credentials::{Admission, Authenticator, Peer, Principal},
};
use rustix::process::geteuid;

use self::{
    operator_file::{OPERATOR_HEADER, OperatorFile},
    tokens::{StaticToken, StaticTokens, TOKEN_PREFIX},
};
use crate::{
    page, principal_list::SharedPrincipalList, random, secret::Secret, server::AuthServer,
};

/// The issuer of the principals of static tokens.
pub const TOKEN_ISSUER: &str = "muster:token";

/// Root can read every file and every process.
const ROOT: u32 = 0;

/// Callers from other machines, where the gateway requires no login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoteCallers {
    /// Only with a static token.
    #[default]
    NeedToken,
    /// Anybody, as an agent.
    Anonymous,
}

/// The rules of admission.
#[derive(Debug)]
pub struct AccessOptions {
    /// Whether callers are checked.
    pub mode: AccessMode,
    /// Logins, if the gateway requires them.
    pub logins: Option<AuthServer>,
    /// The users who may change the gateway after a login.
    pub operators: SharedPrincipalList,
    /// Callers from other machines.
    pub remote: RemoteCallers,
    /// The static tokens.
    pub tokens: StaticTokens,
}

/// Admits the requests of a gateway.
#[derive(Debug)]
pub struct AccessControl {
    options: AccessOptions,
    operator: Option<Secret>,
}

impl AccessControl {
    /// Admits by these rules, and operators by the token in their file.
    pub fn new(options: AccessOptions, operator: Option<&OperatorFile>) -> Self {
        let operator = operator.map(|file| file.token().clone());
        Self { options, operator }
    }

    /// The role of a caller that proves nothing beyond being let in.
    pub const fn default_role(mode: AccessMode) -> Role {
        match mode {
            AccessMode::Private => Role::Agent,
            AccessMode::Open => Role::Operator,
        }
    }

    async fn admit(&self, headers: &HeaderMap, peer: &Peer) -> Result<Admission, Response<Bytes>> {
        let options = &self.options;
        let is_operator = self.presents_operator_token(headers);
        let mut admission = match (static_token(headers), &options.logins) {
            (Some(secret), _) => match options.tokens.present(secret) {
                Some(token) => of_token(&token),
                None => return Err(invalid_token()),
            },
            (None, Some(_)) if is_operator && !headers.contains_key(header::AUTHORIZATION) => {
                Admission::default()
            }
            (None, Some(logins)) => logins.authenticate(headers, peer).await?,
            (None, None) if is_operator => Admission::default(),
            (None, None) => self.anonymous(peer).map_err(|refusal| *refusal)?,
        };
        let is_listed = admission.principal.as_ref().is_some_and(|principal| {
            principal.issuer.as_ref() != TOKEN_ISSUER && options.operators.now().contains(principal)
        });
        let is_open = options.mode == AccessMode::Open
            && (peer.ip().is_loopback() || options.logins.is_some());
        if is_operator || is_listed || is_open {
            admission.role = Role::Operator;
        }
        Ok(admission)
    }

    fn presents_operator_token(&self, headers: &HeaderMap) -> bool {
        let presented = headers.get(OPERATOR_HEADER).and_then(|value| value.to_str().ok());
        match (&self.operator, presented) {
            (Some(operator), Some(presented)) => random::same(operator.reveal(), presented),
            _ => false,
        }
    }

    /// Admits a caller that presents nothing, where no login is required.
    fn anonymous(&self, peer: &Peer) -> Result<Admission, Box<Response<Bytes>>> {
        if !peer.ip().is_loopback() {
            return match self.options.remote {
                RemoteCallers::Anonymous => Ok(Admission::default()),
                RemoteCallers::NeedToken => Err(Box::new(token_required())),
            };
        }
        if self.options.mode == AccessMode::Open {
            return Ok(Admission::default());
        }
        match peer.user(peer_user::lookup) {
            Some(_) if is_own_user(peer) => Ok(Admission::default()),
            Some(user) => Err(Box::new(forbidden(&format!(
                "this gateway serves the processes of user {} on this machine, and this one belongs to user {user}. \
                 Ask its operator for a token (`muster token create`), or for `access.mode: open` in its config.yaml",
                geteuid().as_raw()
            )))),
            None => Err(Box::new(forbidden(
                "this gateway serves the processes of its own user on this machine, and the system does not say whose \
                 process this is. Use a token (`muster token create`), or set `access.mode: open` in config.yaml",
            ))),
        }
    }
}

impl Authenticator for AccessControl {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, Response<Bytes>>> {
        Box::pin(self.admit(headers, peer))
    }
}

/// Whether the process at the other end of a loopback connection belongs to the gateway's own user, or to root.
pub fn is_own_user(peer: &Peer) -> bool {
    let user = peer.user(peer_user::lookup);
    user.is_some_and(|user| user == geteuid().as_raw() || user == ROOT)
}

/// The static token that a request presents.
fn static_token(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && token.starts_with(TOKEN_PREFIX)).then_some(token)
}

fn of_token(token: &StaticToken) -> Admission {
    let principal = Principal {
        id: Principal::id_of(TOKEN_ISSUER, &token.name),
        issuer: TOKEN_ISSUER.into(),
        subject: token.name.as_str().into(),
        email: None,
        name: None,
        groups: Arc::new([]),
        login: format!("token/{}", token.digest).into(),
        identity: None,
        client: None,
    };
    Admission {
        principal: Some(Arc::new(principal)),
        role: if token.operator { Role::Operator } else { Role::Agent },
        token: Some(token.name.as_str().into()),
        toolset: token.toolset.as_deref().map(Into::into),
    }
}

fn invalid_token() -> Response<Bytes> {
    let reason = "the token is not known, was revoked, or has expired";
    let mut response = refusal(StatusCode::UNAUTHORIZED, reason);
    let challenge = HeaderValue::from_static("Bearer error=\"invalid_token\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn token_required() -> Response<Bytes> {
    let reason = "callers from other machines need a token: create one with `muster token create` on the gateway's \
                  machine, and send it as a bearer token";
    let mut response = refusal(StatusCode::UNAUTHORIZED, reason);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn forbidden(reason: &str) -> Response<Bytes> {
    refusal(StatusCode::FORBIDDEN, reason)
}

/// A refusal in plain text: the transport shows it in the form of its protocol.
fn refusal(status: StatusCode, reason: &str) -> Response<Bytes> {
    page::response(status, "text/plain; charset=utf-8", reason.to_owned())
}

#[cfg(test)]
mod tests;
