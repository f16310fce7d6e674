//! Responses: statuses and headers.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use muster_core::json::Raw;
use serde_json::value::RawValue;

use super::{
    body::{Body, Events},
    options::Health,
    sessions::HttpSession,
};
use crate::{
    server::Answer,
    version::Era,
    wire::{RpcError, code, error_body},
};

/// The header that names a legacy session.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Refusals of HTTP itself have no code of their own.
const REFUSED: i64 = -32000;
/// What other servers answer for a session that is gone.
const NO_SESSION: i64 = -32001;

/// An answer as a document.
pub(super) fn answer(answer: &Answer) -> Response<Body> {
    json(status(answer.era, answer.code()), answer.to_body())
}

/// A legacy client takes 404 for the end of its session, so its errors are all well transported.
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

/// An answer to a request that was not even tried.
pub(super) fn untried(answer: &Answer) -> Response<Body> {
    let status = match (answer.era, answer.code()) {
        (Era::Legacy, _) => StatusCode::OK,
        (Era::Modern, Some(code::METHOD_NOT_FOUND)) => StatusCode::NOT_FOUND,
        (Era::Modern, _) => StatusCode::BAD_REQUEST,
    };
    json(status, answer.to_body())
}

/// A refusal that read a message, or could not.
pub(super) fn refusal(
    status: StatusCode,
    id: Option<&RawValue>,
    error: &RpcError,
) -> Response<Body> {
    json(status, error_body(id, error))
}

/// A refusal by HTTP's own rules.
pub(super) fn refuse(status: StatusCode, message: &str) -> Response<Body> {
    refusal(status, None, &RpcError::new(REFUSED, message))
}

/// There is no such session, or none was named.
pub(super) fn no_session(named: bool, id: Option<&RawValue>) -> Response<Body> {
    let (status, code, message) = if named {
        (StatusCode::NOT_FOUND, NO_SESSION, "Session not found: send `initialize` again")
    } else {
        let message = "Bad Request: the header Mcp-Session-Id is missing: send `initialize` first";
        (StatusCode::BAD_REQUEST, REFUSED, message)
    };
    refusal(status, id, &RpcError::new(code, message))
}

/// Only some methods are served here.
pub(super) fn not_allowed(allowed: &'static str) -> Response<Body> {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, "Method not allowed");
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// A response that was made elsewhere.
pub(super) fn ready(response: Response<Bytes>) -> Response<Body> {
    response.map(|body| Body::Whole(Some(body)))
}

pub(super) fn health(health: Health) -> Response<Body> {
    let body: Box<str> = Raw::into(health.body);
    json(health.status, String::from(body).into_bytes())
}

/// For people who mistyped the address.
pub(super) fn not_found(endpoint: &str) -> Response<Body> {
    let text = format!("not found\nhint: the MCP endpoint is at {endpoint}\n");
    let mut response = whole(StatusCode::NOT_FOUND, text.into_bytes());
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}

/// Taken; there is nothing to say.
pub(super) fn accepted() -> Response<Body> {
    bare(StatusCode::ACCEPTED)
}

/// A status and nothing else.
pub(super) fn bare(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// Events as they happen. Proxies are told not to hold them back.
pub(super) fn events(events: Events) -> Response<Body> {
    let mut response = Response::new(Body::Events(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Adds the name of the session.
pub(super) fn named(mut response: Response<Body>, session: &HttpSession) -> Response<Body> {
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
