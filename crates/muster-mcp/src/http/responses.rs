//! HTTP responses: statuses and headers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use muster_core::json::Raw;
use serde_json::value::RawValue;

use super::{
    body::{Body, EventStream},
    options::HealthResponse,
    sessions::HttpSession,
};
use crate::{
    server::RpcResponse,
    version::Era,
    wire::{RpcError, code, error_body},
};

/// The header that names a legacy session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The code of errors that JSON-RPC does not define.
const SERVER_ERROR: i64 = -32000;
/// The code that other servers use for an unknown session.
const NO_SESSION: i64 = -32001;

/// A JSON-RPC response as a document.
pub(super) fn rpc(response: &RpcResponse) -> Response<Body> {
    json(status(response.era, response.code()), response.to_body())
}

/// The HTTP status of a response. A legacy client treats 404 as the end of its session, so its errors have a success
/// status.
const fn status(era: Era, code: Option<i64>) -> StatusCode {
    match (era, code) {
        (Era::Modern, Some(code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (
            Era::Modern,
            Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION),
        ) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The response to an invalid request.
pub(super) fn invalid(response: &RpcResponse) -> Response<Body> {
    let status = match (response.era, response.code()) {
        (Era::Legacy, _) => StatusCode::OK,
        (Era::Modern, Some(code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (Era::Modern, _) => StatusCode::BAD_REQUEST,
    };
    json(status, response.to_body())
}

/// A JSON-RPC error with a failure status.
pub(super) fn error(
    status: StatusCode,
    id: Option<&RawValue>,
    rpc_error: &RpcError,
) -> Response<Body> {
    json(status, error_body(id, rpc_error))
}

/// An error that only HTTP defines.
pub(super) fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    error(status, None, &RpcError::new(SERVER_ERROR, message))
}

/// The response when the server or the caller is at a limit: the client may retry.
pub(super) fn busy(status: StatusCode, id: Option<&RawValue>, message: &str) -> Response<Body> {
    let mut response = error(status, id, &RpcError::new(SERVER_ERROR, message));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The response when the session is unknown or the header is missing.
pub(super) fn no_session(is_named: bool, id: Option<&RawValue>) -> Response<Body> {
    let (status, code, message) = if is_named {
        (StatusCode::NOT_FOUND, NO_SESSION, "Session not found: send `initialize` again")
    } else {
        let message = "Bad Request: the header Mcp-Session-Id is missing: send `initialize` first";
        (StatusCode::BAD_REQUEST, SERVER_ERROR, message)
    };
    error(status, id, &RpcError::new(code, message))
}

/// The response to a plain `GET` of the endpoint: an event stream that explains the endpoint in a comment, and ends.
pub(super) fn greeting() -> Response<Body> {
    const TEXT: &[u8] = b": an MCP endpoint; send JSON-RPC messages by POST\n\n";
    let mut response = Response::new(Body::Whole(Some(Bytes::from_static(TEXT))));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The response when the HTTP method is not allowed.
pub(super) fn not_allowed(allowed: &'static str) -> Response<Body> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A response of another component.
pub(super) fn from_bytes(response: Response<Bytes>) -> Response<Body> {
    response.map(|body| Body::Whole(Some(body)))
}

/// The refusal of a guard. Plain text becomes an error message, which clients show to their users.
pub(super) fn refusal(refusal: Response<Bytes>) -> Response<Body> {
    let headers = refusal.headers();
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("text/plain")) {
        return from_bytes(refusal);
    }
    let mut response = refuse(refusal.status(), &String::from_utf8_lossy(refusal.body()));
    if let Some(challenge) = headers.get(header::WWW_AUTHENTICATE) {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge.clone());
    }
    response
}

pub(super) fn health(health: HealthResponse) -> Response<Body> {
    let body: Box<str> = Raw::into(health.body);
    json(health.status, String::from(body).into_bytes())
}

/// The response for an unknown path, which names the right one.
pub(super) fn not_found(endpoint: &str) -> Response<Body> {
    let text = format!("not found\nhint: the MCP endpoint is at {endpoint}\n");
    let mut response = whole(StatusCode::NOT_FOUND, text.into_bytes());
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Accepted, without a body.
pub(super) fn accepted() -> Response<Body> {
    bare(StatusCode::ACCEPTED)
}

/// A status without a body.
pub(super) fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// An event stream. The headers keep proxies from buffering it.
pub(super) fn events(events: EventStream) -> Response<Body> {
    let mut response = Response::new(Body::Events(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Adds the session id.
pub(super) fn with_session(mut response: Response<Body>, session: &HttpSession) -> Response<Body> {
    response.headers_mut().insert(SESSION, session.header.clone());
    response
}

fn json(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = whole(status, body);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    response
}

fn whole(status: StatusCode, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::Whole(Some(Bytes::from(body))));
    *response.status_mut() = status;
    response
}
