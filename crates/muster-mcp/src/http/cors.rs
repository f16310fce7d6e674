//! Cross-origin requests of allowed web pages.

use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header, request};

use super::{body::Body, responses};

/// The request headers that pages may send.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, Accept, Mcp-Session-Id, MCP-Protocol-Version, \
                    Mcp-Method, Mcp-Name, Last-Event-ID";
/// The response headers that pages may read.
const EXPOSED_HEADERS: &str = "Mcp-Session-Id, WWW-Authenticate, Retry-After";

/// An allowed origin.
#[derive(Debug, Clone)]
pub(super) struct AllowedOrigin(HeaderValue);

impl AllowedOrigin {
    /// The origin of a request, if it is allowed; `*` allows any.
    pub(super) fn of(headers: &HeaderMap, allowed: &[String]) -> Option<Self> {
        let origin = headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        let is_same =
            |one: &String| one == "*" || one.trim_end_matches('/').eq_ignore_ascii_case(text);
        allowed.iter().any(is_same).then(|| Self(origin.clone()))
    }

    /// The response to a preflight request.
    pub(super) fn preflight(&self, head: &request::Parts) -> Option<Response<Body>> {
        let is_preflight = head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        if head.method != Method::OPTIONS || !is_preflight {
            return None;
        }
        let mut response = responses::bare(StatusCode::NO_CONTENT);
        let headers = response.headers_mut();
        for (name, value) in [
            (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST, DELETE"),
            (header::ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS),
            (header::ACCESS_CONTROL_MAX_AGE, "600"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        Some(self.allow(response))
    }

    /// Lets the page read a response.
    pub(super) fn allow(&self, mut response: Response<Body>) -> Response<Body> {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, self.0.clone());
        headers.insert(
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(EXPOSED_HEADERS),
        );
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
        response
    }
}
