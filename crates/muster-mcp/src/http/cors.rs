//! Web pages of others that may talk to us from a browser.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request};

use super::{body::Body, reply};

/// What such pages may send. A browser asks before it sends anything unusual.
const SENT: &str = "Authorization, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, \
                    Mcp-Method, Mcp-Name, Last-Event-ID";
/// What they may read of an answer.
const READ: &str = "Mcp-Session-Id, WWW-Authenticate, Retry-After";

/// The origin of a page that may talk to us.
#[derive(Debug, Clone)]
pub(super) struct Origin(HeaderValue);

impl Origin {
    /// The origin of a request, if it is one of these; `*` is any.
    pub(super) fn of(headers: &HeaderMap, allowed: &[String]) -> Option<Self> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        let known =
            |one: &String| one == "*" || one.trim_end_matches('/').eq_ignore_ascii_case(text);
        allowed.iter().any(known).then(|| Self(origin.clone()))
    }

    /// The answer to a browser that asks what a page may send.
    pub(super) fn preflight(&self, head: &request::Parts) -> Option<Response<Body>> {
        let asks = head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if head.method != Method::OPTIONS || !asks {
            return None;
        }
        let mut response = reply::bare(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, SENT),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Some(self.allow(response))
    }

    /// Lets the page read an answer.
    pub(super) fn allow(&self, mut response: Response<Body>) -> Response<Body> {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.0.clone());
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(READ));
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        response
    }
}
