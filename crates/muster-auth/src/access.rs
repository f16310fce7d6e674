//! Admission to the gateway: who is calling, and whether they may change it.
//!
//! Credentials are checked in this order: a static token; a login, if the gateway requires one; otherwise the caller
//! must be a process of the gateway's own user on this machine. The kernel identifies such a process, or it presents
//! the token from a file that only this user can read. The operator token makes any caller an operator and replaces a
//! login.

pub mod browser_sessions;
pub mod directory;
pub mod operator_file;
pub mod peer_user;
pub mod recent_logins;
pub mod tokens;

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use muster_config::settings::AccessMode;
use muster_core::{
    backend::BoxFuture,
    call::{Caller, Role},
    credentials::{Admission, Authenticator, Peer, Principal},
};
use rustix::process::geteuid;

use self::{
    operator_file::{LOCAL_HEADER, OPERATOR_HEADER, OperatorFile},
    recent_logins::RecentLogins,
    tokens::{StaticToken, StaticTokens, TOKEN_PREFIX},
};
use crate::{
    clock::Clock, page, principal_list::SharedPrincipalList, random, secret::Secret,
    server::AuthServer,
};

/// The issuer of the principals of static tokens.
pub const TOKEN_ISSUER: &str = "muster:token";

/// The prefix of the login id of a static token; the digest follows.
const TOKEN_LOGIN: &str = "token/";

/// Root can read every file and every process.
const ROOT: u32 = 0;

/// The gateway's own user, read once, so that requests make no system call.
static OWN_USER: LazyLock<u32> = LazyLock::new(|| geteuid().as_raw());

/// How callers from other machines are admitted if the gateway requires no login.
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
    /// Remembers the logins that requests come from.
    pub recent: RecentLogins,
}

/// Admits the requests of a gateway.
#[derive(Debug)]
pub struct AccessControl {
    options: AccessOptions,
    operator: Option<Secret>,
    clock: Clock,
    /// The token of the user's own clients.
    local: Option<Secret>,
}

impl AccessControl {
    /// Creates access control with these rules and the tokens of the operator file.
    pub fn new(options: AccessOptions, file: Option<&OperatorFile>) -> Self {
        let operator = file.map(|file| file.operator().clone());
        let local = file.map(|file| file.local().clone());
        Self { options, operator, local, clock: Clock::system() }
    }

    /// The role of a caller that is admitted without operator credentials.
    pub const fn default_role(mode: AccessMode) -> Role {
        match mode {
            AccessMode::Private | AccessMode::Token => Role::Agent,
            AccessMode::Open => Role::Operator,
        }
    }

    async fn admit(&self, headers: &HeaderMap, peer: &Peer) -> Result<Admission, Response<Bytes>> {
        let options = &self.options;
        let is_operator = presents(headers, OPERATOR_HEADER, self.operator.as_ref());
        let mut admission = match (static_token(headers), &options.logins) {
            (Some(secret), _) => match options.tokens.present(secret) {
                Some(token) => of_token(&token),
                None => return Err(invalid_token()),
            },
            (None, Some(_)) if is_operator && !headers.contains_key(header::AUTHORIZATION) => {
                Admission::default()
            }
            (None, Some(logins)) => logins.authenticate(headers, peer).await?,
            (None, None) if is_operator || self.is_own_client(headers, peer) => {
                Admission::default()
            }
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
        if let Some(principal) = &admission.principal
            && admission.token.is_none()
        {
            options.recent.record(principal, admission.role, self.clock.now());
        }
        Ok(admission)
    }

    /// Whether a client on this machine presents the token from the operator file, and so runs as the gateway's user.
    fn is_own_client(&self, headers: &HeaderMap, peer: &Peer) -> bool {
        peer.ip().is_loopback() && presents(headers, LOCAL_HEADER, self.local.as_ref())
    }

    /// Admits a caller without credentials, if no login is required.
    fn anonymous(&self, peer: &Peer) -> Result<Admission, Box<Response<Bytes>>> {
        if !peer.ip().is_loopback() {
            return match self.options.remote {
                RemoteCallers::Anonymous => Ok(Admission::default()),
                RemoteCallers::NeedToken => Err(Box::new(token_required(FROM_ELSEWHERE))),
            };
        }
        match self.options.mode {
            AccessMode::Open => return Ok(Admission::default()),
            AccessMode::Token => return Err(Box::new(token_required(BY_TOKEN_ONLY))),
            AccessMode::Private => (),
        }
        match peer.user(peer_user::lookup) {
            Some(_) if is_own_user(peer) => Ok(Admission::default()),
            Some(user) => Err(Box::new(forbidden(&format!(
                "this gateway serves the processes of user {} on this machine, and this one belongs to user {user}. \
                 Ask its operator for a token (`muster token create`), or for `access.mode: open` in its config.yaml",
                *OWN_USER
            )))),
            None => Err(Box::new(forbidden(
                "this gateway serves the processes of its own user on this machine, and the system does not say whose \
                 process this is. Connect with `muster agent --mcp-server`, use a token (`muster token create`), or set \
                 `access.mode: open` in config.yaml",
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

    fn still_admits<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            match (&caller.principal, &self.options.logins) {
                (Some(principal), _) if *principal.issuer == *TOKEN_ISSUER => {
                    let digest = principal.login.strip_prefix(TOKEN_LOGIN).unwrap_or_default();
                    self.options.tokens.has(digest)
                }
                (Some(_), Some(logins)) => logins.still_admits(caller).await,
                (Some(_), None) | (None, _) => true,
            }
        })
    }
}

/// Whether the process at the other end of a loopback connection belongs to the gateway's own user, or to root.
pub fn is_own_user(peer: &Peer) -> bool {
    let user = peer.user(peer_user::lookup);
    user.is_some_and(|user| user == *OWN_USER || user == ROOT)
}

/// Whether a request presents a token in a header.
fn presents(headers: &HeaderMap, header: &str, token: Option<&Secret>) -> bool {
    let presented = headers.get(header).and_then(|value| value.to_str().ok());
    match (token, presented) {
        (Some(token), Some(presented)) => random::same(token.reveal(), presented),
        _ => false,
    }
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
        login: format!("{TOKEN_LOGIN}{}", token.digest).into(),
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

const FROM_ELSEWHERE: &str = "callers from other machines need a token: create one with `muster token create` on the \
                              gateway's machine, and send it as a bearer token";

const BY_TOKEN_ONLY: &str = "this gateway admits callers with a token only (`access.mode: token`): connect with `muster \
                             agent --mcp-server`, which has one, or create one with `muster token create` and send it as \
                             a bearer token";

fn token_required(reason: &str) -> Response<Bytes> {
    let mut response = refusal(StatusCode::UNAUTHORIZED, reason);
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    response
}

fn forbidden(reason: &str) -> Response<Bytes> {
    refusal(StatusCode::FORBIDDEN, reason)
}

/// A refusal in plain text. The transport converts it to an error of its protocol.
fn refusal(status: StatusCode, reason: &str) -> Response<Bytes> {
    page::response(status, "text/plain; charset=utf-8", reason.to_owned())
}

#[cfg(test)]
mod tests;
