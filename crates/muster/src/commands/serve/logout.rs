//! `DELETE /user-tokens` and `DELETE /auth/{server}`: logging out from servers without speaking MCP.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use muster_core::{
    backend::BoxFuture,
    credentials::{Authenticator, Peer, WebPages},
};
use muster_engine::user_connections::UserConnections;

const EVERYTHING: &str = "/user-tokens";
const ONE: &str = "/auth/";

/// The two pages. They require the same credentials as the endpoint.
pub(super) struct Logout {
    pub(super) guard: Arc<dyn Authenticator>,
    pub(super) user_connections: Arc<UserConnections>,
}

impl fmt::Debug for Logout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Logout")
    }
}

impl WebPages for Logout {
    fn serves(&self, path: &str) -> bool {
        path == EVERYTHING || server(path).is_some()
    }

    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            if request.method() != Method::DELETE {
                let mut reply = empty(StatusCode::METHOD_NOT_ALLOWED);
                reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static("DELETE"));
                return reply;
            }
            let caller = match self.guard.authenticate(request.headers(), peer).await {
                Ok(admission) => admission.caller(None),
                Err(refusal) => return refusal,
            };
            let Some(server) = server(request.uri().path()) else {
                self.user_connections.log_out_everywhere(&caller).await;
                return empty(StatusCode::NO_CONTENT);
            };
            // Do not check whether the server exists: the caller is logged out of an unknown server anyway.
            self.user_connections.log_out(&caller, &server).await;
            empty(StatusCode::NO_CONTENT)
        })
    }
}

/// Decodes the server that a path names.
fn server(path: &str) -> Option<String> {
    let name = path.strip_prefix(ONE)?;
    if name.is_empty() || name.contains('/') {
        return None;
    }
    // The decoder is for queries: escape `+`, which is not a space in a path.
    let pair = format!("x={}", name.replace('+', "%2B").replace('&', "%26"));
    let decoded = form_urlencoded::parse(pair.as_bytes()).next()?.1.into_owned();
    Some(decoded)
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut reply = Response::new(Bytes::new());
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

#[cfg(test)]
mod tests {
    use super::server;

    #[test]
    fn servers_in_paths() {
        for (path, expected) in [
            ("/auth/github", Some("github")),
            ("/auth/a%20b+c", Some("a b+c")),
            ("/auth/a&b=c", Some("a&b=c")),
            ("/auth/", None),
            ("/auth/a/b", None),
            ("/auth", None),
            ("/user-tokens", None),
        ] {
            assert_eq!(server(path).as_deref(), expected, "{path}");
        }
    }
}
