//! A small HTTP/1 client: one request, one connection, the whole response within limits.

use std::{error::Error as _, fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use thiserror::Error;

use crate::{
    AddressPolicy, DialError, Dialer, HttpStream, NetStream, Resolve, TrustStore, Url, UrlError,
};

/// The default timeout of a request, redirects included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The default size limit of a response body, in bytes.
const MAX_BODY: usize = 1024 * 1024;
const USER_AGENT: &str = concat!("muster/", env!("CARGO_PKG_VERSION"));

/// A request with its limits and its address policy.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Bytes,
    redirects: u8,
    policy: AddressPolicy,
    timeout: Duration,
    max_body: usize,
}

impl HttpRequest {
    /// A `GET` request for a JSON document.
    pub fn get(url: impl Into<String>, policy: AddressPolicy) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json"));
        Self {
            method: Method::GET,
            url: url.into(),
            headers,
            body: Bytes::new(),
            redirects: 0,
            policy,
            timeout: TIMEOUT,
            max_body: MAX_BODY,
        }
    }

    /// A `POST` request.
    pub fn post(
        url: impl Into<String>,
        policy: AddressPolicy,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        Self::get(url, policy).with_body(Method::POST, content_type, body)
    }

    /// Replaces the method, and adds a body.
    #[must_use]
    pub fn with_body(
        mut self,
        method: Method,
        content_type: &'static str,
        body: impl Into<Bytes>,
    ) -> Self {
        self.method = method;
        self.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
        self.body = body.into();
        self
    }

    /// A `POST` request with form fields.
    pub fn form(url: impl Into<String>, policy: AddressPolicy, fields: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        Self::post(url, policy, "application/x-www-form-urlencoded", body)
    }

    /// Adds a header. A value that a header cannot hold is left out: the server will report what is missing.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(mut value) = HeaderValue::from_str(value) {
            value.set_sensitive(true);
            self.headers.insert(name, value);
        }
        self
    }

    /// Adds a bearer token.
    #[must_use]
    pub fn bearer(self, token: &str) -> Self {
        self.header(header::AUTHORIZATION, &format!("Bearer {token}"))
    }

    /// Follows up to `max` redirects, for `GET` requests without a token only.
    #[must_use]
    pub const fn redirects(mut self, max: u8) -> Self {
        self.redirects = max;
        self
    }

    /// Limits the time the request may take, redirects included.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Limits the size of the response body.
    #[must_use]
    pub const fn max_body(mut self, bytes: usize) -> Self {
        self.max_body = bytes;
        self
    }

    fn to_wire(&self, url: &Url) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = url.request_target().clone();
        let headers = request.headers_mut();
        *headers = self.headers.clone();
        headers.insert(header::HOST, url.host_header().clone());
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        request
    }
}

/// A response, read to its end.
#[derive(Debug, Clone)]
pub struct HttpResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// The URL it came from, after redirects.
    pub url: String,
}

impl HttpResponse {
    /// Whether the content type is JSON.
    pub fn is_json(&self) -> bool {
        let value = self.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = value.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
        essence.eq_ignore_ascii_case("application/json")
            || (essence.starts_with("application/") && essence.ends_with("+json"))
    }
}

/// Why there is no response. The texts name hosts, never whole URLs: those may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HttpError {
    /// There is no connection.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The timeout passed.
    #[error("`{host}` did not answer within {seconds} s")]
    Timeout {
        /// The host.
        host: String,
        /// The timeout.
        seconds: u64,
    },
    /// The response body exceeds the limit.
    #[error("the response of `{host}` has more than {limit} bytes")]
    TooLarge {
        /// The host.
        host: String,
        /// The limit.
        limit: usize,
    },
    /// The response is malformed or incomplete.
    #[error("the response of `{host}` cannot be read: {reason}")]
    Malformed {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
}

impl HttpError {
    /// Whether the address policy refused the request before anything was sent.
    pub const fn is_refused(&self) -> bool {
        matches!(self, Self::Dial(DialError::Refused(_)))
    }
}

impl From<UrlError> for HttpError {
    fn from(err: UrlError) -> Self {
        Self::Dial(err.into())
    }
}

/// Sends requests over a [`Dialer`].
#[derive(Clone)]
pub struct HttpClient {
    dialer: Dialer,
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpClient")
    }
}

impl HttpClient {
    /// A client that trusts the certificates of `trust`.
    pub fn new(trust: Arc<TrustStore>) -> Self {
        Self { dialer: Dialer::new(trust) }
    }

    /// A client that connects with `dialer`.
    pub const fn over(dialer: Dialer) -> Self {
        Self { dialer }
    }

    /// Replaces the system's resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { dialer: self.dialer.with_resolver(resolver) }
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let url = request.policy.parse(&request.url)?;
        let (host, timeout) = (url.host().to_owned(), request.timeout);
        let sending = Box::pin(self.follow(url, request));
        let late = HttpError::Timeout { host, seconds: timeout.as_secs() };
        tokio::time::timeout(timeout, sending).await.unwrap_or(Err(late))
    }

    /// Sends a request, and returns as soon as the response begins. The timeout covers only the time until then;
    /// redirects are not followed.
    pub async fn open(&self, request: HttpRequest) -> Result<HttpStream, HttpError> {
        let url = request.policy.parse(&request.url)?;
        let opening = async {
            let stream = self.dialer.connect(&url, request.policy).await?;
            HttpStream::open(stream, &url, request.to_wire(&url)).await
        };
        let late =
            HttpError::Timeout { host: url.host().to_owned(), seconds: request.timeout.as_secs() };
        tokio::time::timeout(request.timeout, Box::pin(opening)).await.unwrap_or(Err(late))
    }

    /// Sends a request and follows redirects, each of which is checked like the first URL.
    async fn follow(&self, mut url: Url, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let mut left = request.redirects;
        // A token or a body is never sent on to another location.
        let follows = request.redirects > 0
            && request.method == Method::GET
            && !request.headers.contains_key(header::AUTHORIZATION);
        loop {
            let stream = self.dialer.connect(&url, request.policy).await?;
            let response = exchange(stream, &url, &request).await?;
            let location =
                response.headers.get(header::LOCATION).and_then(|value| value.to_str().ok());
            let (true, Some(location)) = (follows && response.status.is_redirection(), location)
            else {
                return Ok(response);
            };
            left = left.checked_sub(1).ok_or_else(|| malformed(&url, "it redirects too often"))?;
            if !location.contains("://") && !location.starts_with('/') {
                return Err(UrlError::new("a redirect must name a whole URL or path").into());
            }
            let next = url.join(location)?;
            request.policy.check_redirect(&url, &next)?;
            url = next;
        }
    }
}

async fn exchange(
    stream: NetStream,
    url: &Url,
    request: &HttpRequest,
) -> Result<HttpResponse, HttpError> {
    let broken = |err: hyper::Error| broken(url, &err);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    let exchange = async {
        let response = sender.send_request(request.to_wire(url)).await.map_err(broken)?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, request.max_body).collect().await.map_err(|err| {
            if err.is::<LengthLimitError>() {
                HttpError::TooLarge { host: url.host().to_owned(), limit: request.max_body }
            } else {
                malformed(url, "it broke off")
            }
        })?;
        let (body, url) = (body.to_bytes(), url.as_str().to_owned());
        Ok(HttpResponse { status: head.status, headers: head.headers, body, url })
    };
    let mut exchange = std::pin::pin!(exchange);
    // The connection is polled here instead of in its own task, so that dropping the request closes it.
    tokio::select! {
        response = exchange.as_mut() => response,
        _ = connection => exchange.await,
    }
}

pub(crate) fn broken(url: &Url, err: &hyper::Error) -> HttpError {
    let reason = err.source().map_or_else(|| err.to_string(), ToString::to_string);
    malformed(url, &reason)
}

fn malformed(url: &Url, reason: &str) -> HttpError {
    HttpError::Malformed { host: url.host().to_owned(), reason: reason.to_owned() }
}
