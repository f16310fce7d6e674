//! Sessions of browsers: a cookie that stands for the credentials of an operator.
//!
//! A command presents its credentials and receives a single-use code. The browser that it opens exchanges the code for
//! a cookie. Each request with the cookie is authenticated with the stored credentials, so revoking a token also ends
//! the sessions that it began.
//!
//! **Invariant:** a session that began on a loopback address is valid only for processes of the gateway's own user. A
//! browser sends its cookies to every port of a host, so another user's server on this machine may receive the cookie.

mod shared;

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header};
use muster_core::{
    call::{Caller, Role},
    caller_directory::BrowserSession,
    credentials::{Authenticator, Peer},
    shared::SharedState,
};

use self::shared::SharedSessions;
use super::{is_own_user, operator_file::OPERATOR_HEADER, recent_logins::session_id, refusal};
use crate::{
    clock::Clock,
    lock::Lock,
    random::{self, NoRandomness, digest_of},
    secret::Secret,
    store::StoreError,
};

/// How long a code is valid, in seconds.
const CODE_TTL: u64 = 60;
/// How long a session lasts, in seconds.
const SESSION_TTL: u64 = 12 * 60 * 60;
/// The maximum number of codes and of sessions. The oldest are evicted.
const MAX_CODES: usize = 16;
const MAX_SESSIONS: usize = 64;

const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The sessions of the browsers of operators.
pub struct BrowserSessions {
    guard: Arc<dyn Authenticator>,
    clock: Clock,
    state: Lock<State>,
    /// The sessions that all replicas share, if there are several.
    shared: Option<SharedSessions>,
    /// The CSRF token for callers without a session, if every user of this machine is an operator. Replicas agree on
    /// the token of whichever stores it first.
    shared_form_token: Secret,
}

/// An operator at a browser.
#[derive(Debug)]
pub struct BrowserCaller {
    /// The caller.
    pub caller: Caller,
    /// The CSRF token that forms must repeat. `None` for a program that presented its credentials itself: no web page
    /// can make a browser do that.
    pub form_token: Option<Secret>,
}

#[derive(Default)]
struct State {
    /// By the digest of the code or cookie.
    codes: BTreeMap<String, Login>,
    sessions: BTreeMap<String, Session>,
}

/// The credentials behind a session, and the kind of address they were presented at.
#[derive(Clone)]
struct Login {
    credentials: HeaderMap,
    is_local: bool,
    began: u64,
}

#[derive(Clone)]
struct Session {
    login: Login,
    form_token: Secret,
}

impl BrowserSessions {
    /// Creates an empty set of sessions whose credentials `guard` checks.
    pub fn new(guard: Arc<dyn Authenticator>, clock: Clock) -> Result<Self, NoRandomness> {
        let shared_form_token = Secret::new(random::token()?);
        Ok(Self { guard, clock, state: Lock::default(), shared: None, shared_form_token })
    }

    /// Shares the sessions among all replicas of the gateway, in an encrypted storage.
    #[must_use]
    pub fn shared_in(self, state: Arc<dyn SharedState>) -> Self {
        Self { shared: Some(SharedSessions::new(state)), ..self }
    }

    /// Returns a single-use code for the browser of the operator whose credentials are in `headers`.
    pub async fn begin(&self, headers: &HeaderMap, peer: &Peer) -> Result<Secret, Response<Bytes>> {
        self.operator(headers, peer).await?;
        let code = random::token().map_err(|error| internal(&error))?;
        let login = Login {
            credentials: presented(headers),
            is_local: is_loopback(headers),
            began: self.clock.now(),
        };
        if let Some(shared) = &self.shared {
            shared.put_code(&code, &login).await.map_err(|error| unavailable(&error))?;
            return Ok(Secret::new(code));
        }
        let mut state = self.state.lock();
        let codes = &mut state.codes;
        codes.retain(|_, login| !self.has_ended(login, CODE_TTL));
        make_room(codes, MAX_CODES, |login| login.began);
        codes.insert(digest_of(&code), login);
        Ok(Secret::new(code))
    }

    /// Exchanges a code for the value of a `Set-Cookie` header; `None` if it is not valid. Any attempt consumes the
    /// code.
    pub async fn redeem(
        &self,
        code: &str,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Option<String>, Response<Bytes>> {
        let login = match &self.shared {
            Some(shared) => shared.take_code(code).await.map_err(|error| unavailable(&error))?,
            None => self.state.lock().codes.remove(&digest_of(code)),
        };
        let is_valid = |login: &Login| !self.has_ended(login, CODE_TTL) && login.serves(peer);
        let Some(login) = login.filter(is_valid) else { return Ok(None) };
        let tokens = random::token().and_then(|cookie| Ok((cookie, random::token()?)));
        let (cookie, form_token) = tokens.map_err(|error| internal(&error))?;
        let form_token = Secret::new(form_token);
        let login = Login { began: self.clock.now(), ..login };
        let session = Session { login, form_token };
        let set_cookie = set_cookie(headers, peer, &cookie, SESSION_TTL);
        if let Some(shared) = &self.shared {
            let stored = shared.put_session(&digest_of(&cookie), &session).await;
            stored.map_err(|error| unavailable(&error))?;
            return Ok(Some(set_cookie));
        }
        let mut state = self.state.lock();
        let sessions = &mut state.sessions;
        sessions.retain(|_, session| !self.has_ended(&session.login, SESSION_TTL));
        make_room(sessions, MAX_SESSIONS, |session| session.login.began);
        sessions.insert(digest_of(&cookie), session);
        Ok(Some(set_cookie))
    }

    /// Authenticates the operator of a request by the session cookie, or else by the credentials in the request.
    pub async fn admit(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<BrowserCaller, Response<Bytes>> {
        if let Some(Session { login, form_token }) = self.session(headers, peer).await? {
            let caller = self.operator(&login.credentials, peer).await?;
            return Ok(BrowserCaller { caller, form_token: Some(form_token) });
        }
        let caller = self.operator(headers, peer).await?;
        let form_token = match presented(headers).is_empty() {
            true => Some(self.form_token().await?),
            false => None,
        };
        Ok(BrowserCaller { caller, form_token })
    }

    /// Returns the session of the request's cookie, if it is still valid for this peer.
    async fn session(
        &self,
        headers: &HeaderMap,
        peer: &Peer,
    ) -> Result<Option<Session>, Response<Bytes>> {
        let Some(cookie) = cookie(headers, peer) else { return Ok(None) };
        let digest = digest_of(&cookie);
        let session = match &self.shared {
            Some(shared) => shared.session(&digest).await.map_err(|error| unavailable(&error))?,
            None => self.state.lock().sessions.get(&digest).cloned(),
        };
        Ok(session.filter(|session| {
            !self.has_ended(&session.login, SESSION_TTL) && session.login.serves(peer)
        }))
    }

    async fn form_token(&self) -> Result<Secret, Response<Bytes>> {
        let own = &self.shared_form_token;
        match &self.shared {
            Some(shared) => shared.form_token(own).await.map_err(|error| unavailable(&error)),
            None => Ok(own.clone()),
        }
    }

    /// Ends the session of a browser. Returns the value of the `Set-Cookie` header that deletes its cookie.
    pub async fn end(&self, headers: &HeaderMap, peer: &Peer) -> Result<String, Response<Bytes>> {
        if let Some(cookie) = cookie(headers, peer) {
            let ended = self.end_by_digest(&digest_of(&cookie)).await;
            ended.map_err(|error| unavailable(&error))?;
        }
        Ok(set_cookie(headers, peer, "", 0))
    }

    /// Lists the sessions of all replicas, newest first.
    pub(super) async fn list(&self) -> Result<Vec<BrowserSession>, StoreError> {
        let sessions = self.all().await?.into_iter();
        let sessions = sessions.filter(|(_, session)| !self.has_ended(&session.login, SESSION_TTL));
        let mut listed: Vec<BrowserSession> = sessions
            .map(|(digest, Session { login, .. })| BrowserSession {
                id: session_id(&digest),
                began: login.began,
                ends: login.began.saturating_add(SESSION_TTL),
                is_local: login.is_local,
            })
            .collect();
        listed.sort_by_key(|session| std::cmp::Reverse(session.began));
        Ok(listed)
    }

    /// Ends the session with an id, whichever replica began it. Returns whether there was one.
    pub(super) async fn end_by_id(&self, id: &str) -> Result<bool, StoreError> {
        let mut digests = self.all().await?.into_keys();
        match digests.find(|digest| session_id(digest) == id) {
            Some(digest) => self.end_by_digest(&digest).await,
            None => Ok(false),
        }
    }

    /// The sessions by the digests of their cookies.
    async fn all(&self) -> Result<BTreeMap<String, Session>, StoreError> {
        match &self.shared {
            Some(shared) => shared.all().await,
            None => Ok(self.state.lock().sessions.clone()),
        }
    }

    async fn end_by_digest(&self, digest: &str) -> Result<bool, StoreError> {
        match &self.shared {
            Some(shared) => shared.end(digest).await,
            None => Ok(self.state.lock().sessions.remove(digest).is_some()),
        }
    }

    async fn operator(&self, headers: &HeaderMap, peer: &Peer) -> Result<Caller, Response<Bytes>> {
        let admission = self.guard.authenticate(headers, peer).await?;
        match admission.role {
            Role::Operator => Ok(admission.caller(None)),
            Role::Agent => Err(refusal(
                StatusCode::FORBIDDEN,
                "this is for operators of the gateway; `muster console` opens it as one",
            )),
        }
    }

    fn has_ended(&self, login: &Login, ttl: u64) -> bool {
        self.clock.now().saturating_sub(login.began) >= ttl
    }
}

impl fmt::Debug for BrowserSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrowserSessions")
    }
}

impl Login {
    fn serves(&self, peer: &Peer) -> bool {
        !self.is_local || (peer.ip().is_loopback() && is_own_user(peer))
    }
}

/// The credentials among the headers of a request.
fn presented(headers: &HeaderMap) -> HeaderMap {
    let is_credential =
        |name: &http::HeaderName| *name == header::AUTHORIZATION || name == OPERATOR_HEADER;
    let found = headers.iter().filter(|(name, _)| is_credential(name));
    found.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Whether the `Host` header names a loopback address.
fn is_loopback(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    };
    LOOPBACK.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// The name of the cookie. It includes the port, because cookies are shared between the ports of a host.
fn cookie_name(peer: &Peer) -> String {
    format!("muster-console-{}", peer.local.port())
}

fn cookie(headers: &HeaderMap, peer: &Peer) -> Option<String> {
    let name = cookie_name(peer);
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

fn set_cookie(headers: &HeaderMap, peer: &Peer, value: &str, max_age: u64) -> String {
    let forwarded = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok());
    let secure = if forwarded == Some("https") { "; Secure" } else { "" };
    let name = cookie_name(peer);
    format!("{name}={value}; Path=/console; Max-Age={max_age}; HttpOnly; SameSite=Strict{secure}")
}

/// Removes the oldest entries until there is room for one more.
fn make_room<T>(entries: &mut BTreeMap<String, T>, most: usize, began: impl Fn(&T) -> u64) {
    while entries.len() >= most {
        let oldest = entries.iter().min_by_key(|(_, entry)| began(entry));
        let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
        entries.remove(&oldest);
    }
}

fn unavailable(error: &StoreError) -> Response<Bytes> {
    refusal(StatusCode::SERVICE_UNAVAILABLE, &error.to_string())
}

fn internal(error: &NoRandomness) -> Response<Bytes> {
    refusal(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

#[cfg(test)]
mod tests;
