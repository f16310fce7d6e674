//! Answers of the OAuth endpoints: documents, errors, redirects, pages.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

/// An answer.
pub(super) type Reply = Response<Bytes>;

/// After how many seconds to come again, while whoever knows the users is away.
const RETRY_AFTER: &str = "30";

/// Why a request is refused, as OAuth has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) description: String,
}

impl Failure {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        description: impl Into<String>,
    ) -> Self {
        Self { status, code, description: description.into() }
    }

    /// The request is not as it should be.
    pub(super) fn request(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", description)
    }

    /// What is to be exchanged is worth nothing.
    pub(super) fn grant(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_grant", description)
    }

    /// The client is not who it says, or not known.
    pub(super) fn client(description: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_client", description)
    }

    /// Not now.
    pub(super) fn later(description: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", description)
    }

    /// Something went wrong on our side.
    pub(super) fn server(description: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", description)
    }
}

impl From<crate::store::StoreError> for Failure {
    fn from(err: crate::store::StoreError) -> Self {
        tracing::warn!("{err}");
        Self::later("the storage of logins is not available")
    }
}

impl From<crate::random::NoRandomness> for Failure {
    fn from(err: crate::random::NoRandomness) -> Self {
        Self::server(err.to_string())
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    error_description: &'a str,
}

/// A document.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(body).unwrap_or_default();
    reply(status, "application/json", body)
}

/// A refusal.
pub(super) fn failure(failure: &Failure) -> Reply {
    let body = ErrorBody { error: failure.code, error_description: &failure.description };
    let mut reply = json(failure.status, &body);
    let headers = reply.headers_mut();
    if failure.status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    if failure.status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
    }
    if failure.code == "invalid_client" && failure.status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"muster\"");
        headers.insert(header::WWW_AUTHENTICATE, basic);
    }
    reply
}

/// To somewhere else.
pub(super) fn redirect(location: &str) -> Reply {
    match HeaderValue::from_str(location) {
        Ok(location) => {
            let mut reply = reply(StatusCode::FOUND, "text/plain; charset=utf-8", Vec::new());
            reply.headers_mut().insert(header::LOCATION, location);
            reply
        }
        Err(_) => failure(&Failure::server("the address to go to cannot be sent")),
    }
}

/// A page for people. Forms on it may be sent here only.
pub(super) fn page(status: StatusCode, html: String) -> Reply {
    let mut reply = reply(status, "text/html; charset=utf-8", html.into_bytes());
    let headers = reply.headers_mut();
    let policy =
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'";
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
    // With `no-referrer` browsers would not say where a form comes from.
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    reply
}

fn reply(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Reply {
    let mut reply = Response::new(Bytes::from(body));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    for (name, value) in [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

/// Text as it stands in a page.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
