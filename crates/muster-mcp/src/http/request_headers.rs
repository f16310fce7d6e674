//! The headers of a request that the protocol or the gateway defines.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use muster_core::trace_context;

use crate::{
    headers::Headers,
    param_headers::{METHOD, NAME, VERSION},
    version::LEGACY,
};

/// A session id that the client chooses, and its length.
const CLIENT_SESSION: HeaderName = HeaderName::from_static("x-muster-session-id");
const CLIENT_SESSION_LENGTH: std::ops::RangeInclusive<usize> = 16..=256;

/// The trace context of a request, which its body may also have.
const TRACEPARENT: HeaderName = HeaderName::from_static(trace_context::TRACEPARENT);

/// The toolset that a client chooses, for clients that cannot choose a path.
pub(super) const TOOLSET: HeaderName = HeaderName::from_static("muster-toolset");
pub(super) const MAX_TOOLSET_LENGTH: usize = 100;

/// The session id that a client without a login chose, for clients that cannot hold a session. It must be long enough
/// to be unguessable: anyone who knows it can use the session.
pub(super) fn client_session(headers: &HeaderMap) -> Option<Arc<str>> {
    let name = first(headers, CLIENT_SESSION);
    let name = name.filter(|name| CLIENT_SESSION_LENGTH.contains(&name.len()));
    name.map(|name| format!("client/{name}").into())
}

/// The values of a header that is not a standard one. A request has few headers, and going through them costs
/// less than the hash of a long name.
fn all(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &HeaderValue> {
    headers.iter().filter(move |(key, _)| **key == name).map(|(_, value)| value)
}

/// The first value of such a header, as text; empty if it is not text.
pub(super) fn first(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    all(headers, name).next().map(|value| value.to_str().unwrap_or_default())
}

/// The headers that repeat the body, and the trace context.
static ROUTING: [HeaderName; 4] = [VERSION, METHOD, NAME, TRACEPARENT];

/// The headers that repeat the body.
pub(super) fn routing_headers(headers: &HeaderMap) -> Headers<'_> {
    // A duplicate header is ignored, because readers of the first and of the last value would disagree.
    let mut given: [Only<'_>; 4] = [None; 4];
    for (key, value) in headers {
        for (name, given) in ROUTING.iter().zip(&mut given) {
            if name == key {
                *given = Some(given.map_or(Ok(value), |_| Err(())));
            }
        }
    }
    let [version, method, name, traceparent] = given;
    Headers {
        version: text(version),
        method: bytes(method),
        name: bytes(name),
        traceparent: text(traceparent),
    }
}

/// The only value of a header; an error if there are several.
type Only<'a> = Option<Result<&'a HeaderValue, ()>>;

fn text(only: Only<'_>) -> Option<&str> {
    only?.ok()?.to_str().ok()
}

fn bytes(only: Only<'_>) -> Option<&[u8]> {
    only.map(|value| value.map_or(&[][..], HeaderValue::as_bytes))
}

/// Whether the headers name a modern version.
pub(super) fn is_modern(headers: &HeaderMap) -> bool {
    routing_headers(headers).version.is_some_and(|version| !LEGACY.contains(&version))
}

/// Whether the client of a session expects an event without data before the first message, as of 2025-11-25.
pub(super) fn is_primed(headers: &HeaderMap) -> bool {
    routing_headers(headers).version == LEGACY.first().copied()
}
