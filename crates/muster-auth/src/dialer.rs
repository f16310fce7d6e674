//! The one way out for everything about logins.
//!
//! Addresses come from strangers here: from metadata documents, from client ids, from servers that want
//! a login. **Invariant:** nothing is sent to an address that was not judged, and what is judged is the
//! number that is then connected to, not the name that led there. TLS everywhere but on this machine;
//! answers are bounded in size and time; each redirect is judged like the first address.

mod exchange;
mod resolve;
mod target;
mod trust;
mod zone;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use thiserror::Error;

pub use self::{
    resolve::{Resolve, SystemResolver},
    target::Target,
    trust::{BadCertificate, Trust},
    zone::Zone,
};

/// How long one request may take, with everything that belongs to it.
const LIMIT: Duration = Duration::from_secs(10);

/// How large an answer may be.
const MAX_BODY: usize = 1024 * 1024;

/// How far a request may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The open network only.
    Public,
    /// Also this machine, if the address itself says so: not by a name that merely leads here.
    Loopback,
    /// Also private networks. Never link-local addresses, never those that tell machines their secrets.
    Private,
}

/// A request to send.
#[derive(Debug, Clone)]
pub struct Outgoing {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    redirects: u8,
    reach: Reach,
    limit: Duration,
    max_body: usize,
}

impl Outgoing {
    /// Asks for a document.
    pub fn get(url: impl Into<String>, reach: Reach) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Self {
            method: Method::GET,
            url: url.into(),
            headers,
            body: Bytes::new(),
            redirects: 0,
            reach,
            limit: LIMIT,
            max_body: MAX_BODY,
        }
    }

    /// Sends a document.
    pub fn post(
        url: impl Into<String>,
        reach: Reach,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        let mut outgoing = Self::get(url, reach);
        outgoing.method = Method::POST;
        outgoing.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        outgoing.body = body.into();
        outgoing
    }

    /// Sends the fields of a form.
    pub fn form(url: impl Into<String>, reach: Reach, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        Self::post(url, reach, "application/x-www-form-urlencoded", body)
    }

    /// Adds a header. One that cannot be sent is left out, and the other side will say what it misses.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        self
    }

    /// Shows a token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header(header::AUTHORIZATION, &format!("Bearer {token}"))
    }

    /// Follows so many redirects. Only for documents that are asked for without a token.
    #[must_use]
    pub const fn redirects(mut self, most: u8) -> Self {
        self.redirects = most;
        self
    }

    /// Takes at most this long.
    #[must_use]
    pub const fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Takes at most so many bytes of an answer.
    #[must_use]
    pub const fn at_most(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    /// All of its body.
    pub body: Bytes,
    /// Where it came from in the end.
    pub url: String,
}

impl Answer {
    /// Whether it is marked as JSON.
    pub fn is_json(&self) -> bool {
        let kind = self.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("application/json")
            || (kind.starts_with("application/") && kind.ends_with("+json"))
    }
}

/// Why there is no answer. The texts name hosts, never whole addresses: those may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DialError {
    /// The address cannot be used, or leads where requests must not go.
    #[error("{0}")]
    Refused(String),
    /// Nobody is there.
    #[error("`{host}` cannot be reached: {reason}")]
    Unreachable {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// The other side is not who it should be.
    #[error("no TLS with `{host}`: {reason}")]
    Untrusted {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
    /// It took too long.
    #[error("`{host}` did not answer within {seconds} s")]
    Slow {
        /// Who.
        host: String,
        /// How long was waited.
        seconds: u64,
    },
    /// There was more than is taken.
    #[error("the answer of `{host}` has more than {limit} bytes")]
    TooLarge {
        /// Who.
        host: String,
        /// What would have been taken.
        limit: usize,
    },
    /// The answer broke off or was none.
    #[error("the answer of `{host}` cannot be read: {reason}")]
    Broken {
        /// Who.
        host: String,
        /// Why.
        reason: String,
    },
}

/// Sends requests.
#[derive(Clone)]
pub struct Dialer {
    trust: Arc<Trust>,
    resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

impl Dialer {
    /// One that trusts what it is told to.
    pub fn new(trust: Arc<Trust>) -> Self {
        Self { trust, resolver: Arc::new(SystemResolver) }
    }

    /// Finds hosts in another way than the system does.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// Sends a request and takes the whole answer.
    pub async fn send(&self, outgoing: Outgoing) -> Result<Answer, DialError> {
        let target = Target::parse(&outgoing.url, outgoing.reach)?;
        let (host, limit) = (target.host().to_owned(), outgoing.limit);
        let sending = Box::pin(self.follow(target, outgoing));
        let slow = DialError::Slow { host, seconds: limit.as_secs() };
        tokio::time::timeout(limit, sending).await.unwrap_or(Err(slow))
    }

    async fn follow(&self, mut target: Target, outgoing: Outgoing) -> Result<Answer, DialError> {
        let mut left = outgoing.redirects;
        let follows =
            outgoing.method == Method::GET && !outgoing.headers.contains_key(header::AUTHORIZATION);
        loop {
            let addresses = self.addresses(&target, outgoing.reach).await?;
            let answer = self.exchange(&target, &addresses, &outgoing).await?;
            let place = answer.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let (true, Some(place)) = (answer.status.is_redirection() && follows, place) else {
                return Ok(answer);
            };
            if outgoing.redirects == 0 {
                return Ok(answer);
            }
            let Some(rest) = left.checked_sub(1) else {
                let reason = "it redirects too often".to_owned();
                return Err(DialError::Broken { host: target.host().to_owned(), reason });
            };
            left = rest;
            target = target.join(place, outgoing.reach)?;
        }
    }
}
