//! Responses of the OAuth endpoints: documents, errors, redirects.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde::Serialize;

use crate::page;

/// A response with its complete body.
pub(super) type Reply = Response<Bytes>;

/// The `Retry-After` of responses with status 503, in seconds.
const RETRY_AFTER: &str = "30";

/// An OAuth error response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OAuthError {
    pub(super) status: StatusCode,
    pub(super) code: &'static str,
    pub(super) description: String,
}

impl OAuthError {
    pub(super) fn new(
        status: StatusCode,
        code: &'static str,
        description: impl Into<String>,
    ) -> Self {
        Self { status, code, description: description.into() }
    }

    /// The request is malformed.
    pub(super) fn request(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", description)
    }

    /// The code or refresh token is not valid.
    pub(super) fn grant(description: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_grant", description)
    }

    /// The client is unknown or not authenticated.
    pub(super) fn client(description: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "invalid_client", description)
    }

    /// A dependency, such as the identity provider, is temporarily unavailable.
    pub(super) fn unavailable(description: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable", description)
    }

    /// An internal error.
    pub(super) fn server(description: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", description)
    }
}

impl From<crate::store::StoreError> for OAuthError {
    fn from(err: crate::store::StoreError) -> Self {
        tracing::warn!("{err}");
        Self::unavailable("the storage of logins is not available")
    }
}

impl From<crate::random::NoRandomness> for OAuthError {
    fn from(err: crate::random::NoRandomness) -> Self {
        Self::server(err.to_string())
    }
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    error_description: &'a str,
}

/// A JSON document.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Reply {
    let body = serde_json::to_vec(body).unwrap_or_default();
    page::response(status, "application/json", body)
}

/// The response for an error.
pub(super) fn error(error: &OAuthError) -> Reply {
    let body = ErrorBody { error: error.code, error_description: &error.description };
    let mut reply = json(error.status, &body);
    let headers = reply.headers_mut();
    if error.status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER));
    }
    if error.status == StatusCode::TOO_MANY_REQUESTS {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
    }
    if error.code == "invalid_client" && error.status == StatusCode::UNAUTHORIZED {
        let basic = HeaderValue::from_static("Basic realm=\"muster\"");
        headers.insert(header::WWW_AUTHENTICATE, basic);
    }
    reply
}

/// A redirect.
pub(super) fn redirect(location: &str) -> Reply {
    match HeaderValue::from_str(location) {
        Ok(location) => {
            let mut reply =
                page::response(StatusCode::FOUND, "text/plain; charset=utf-8", Bytes::new());
            reply.headers_mut().insert(header::LOCATION, location);
            reply
        }
        Err(_) => error(&OAuthError::server("the redirect URI cannot be sent in a header")),
    }
}
