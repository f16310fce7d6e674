//! HTTP responses of a mock provider.

use http::{Response, StatusCode, header};
use serde_json::{Value, json};
use thiserror::Error;

/// An OAuth error response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{error}: {description}")]
pub(crate) struct OAuthError {
    /// The HTTP status.
    pub(crate) status: StatusCode,
    /// The error code of the specification.
    pub(crate) error: String,
    /// The description.
    pub(crate) description: String,
}

impl OAuthError {
    pub(crate) fn new(error: &str, description: impl Into<String>) -> Self {
        let status = match error {
            "invalid_client" | "invalid_token" => StatusCode::UNAUTHORIZED,
            "insufficient_scope" => StatusCode::FORBIDDEN,
            "server_error" => StatusCode::INTERNAL_SERVER_ERROR,
            "temporarily_unavailable" => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::BAD_REQUEST,
        };
        Self { status, error: error.to_owned(), description: description.into() }
    }

    pub(super) fn response(&self) -> Response<String> {
        let body = json!({"error": self.error, "error_description": self.description});
        let mut response = object(self.status, &body);
        if self.status == StatusCode::UNAUTHORIZED {
            let challenge = format!("Bearer error=\"{}\"", self.error);
            if let Ok(challenge) = challenge.parse() {
                response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            }
        }
        response
    }
}

pub(super) fn object(status: StatusCode, body: &Value) -> Response<String> {
    full(status, "application/json", body.to_string())
}

pub(super) fn page(body: String) -> Response<String> {
    full(StatusCode::OK, "text/html; charset=utf-8", body)
}

pub(super) fn bare(status: StatusCode) -> Response<String> {
    full(status, "text/plain", String::new())
}

pub(super) fn redirect(to: &str) -> Response<String> {
    let mut response = bare(StatusCode::FOUND);
    if let Ok(to) = to.parse() {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}

fn full(status: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    response
}
