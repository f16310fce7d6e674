//! Routing: maps paths to endpoints and checks their methods.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};

use super::{
    Inner,
    params::Params,
    responses::{self, OAuthError, Reply},
};

/// An endpoint of the authorization server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Endpoint {
    ResourceMetadata,
    ServerMetadata,
    Register,
    Authorize,
    Consent,
    Callback,
    Token,
    Revoke,
    Introspect,
}

impl Endpoint {
    const fn method(self) -> Method {
        match self {
            Self::ResourceMetadata | Self::ServerMetadata | Self::Authorize | Self::Callback => {
                Method::GET
            }
            Self::Register | Self::Consent | Self::Token | Self::Revoke | Self::Introspect => {
                Method::POST
            }
        }
    }

    const fn has_form(self) -> bool {
        matches!(self, Self::Consent | Self::Token | Self::Revoke | Self::Introspect)
    }
}

impl Inner {
    pub(super) fn has_endpoint(&self, path: &str) -> bool {
        self.route(path).is_some()
    }

    fn route(&self, path: &str) -> Option<Endpoint> {
        if let Some(name) = path.strip_prefix("/.well-known/") {
            // The path of the URL follows the name of the well-known document (RFC 8414, 3.1).
            let base = self.config.base_url.splitn(4, '/').nth(3).unwrap_or_default();
            let (name, rest) = name.split_once('/').unwrap_or((name, ""));
            let is_base = rest.is_empty() || rest == base;
            let is_mcp = rest == "mcp" || rest.strip_suffix("/mcp") == Some(base);
            return match name {
                "oauth-protected-resource" if is_base || is_mcp => Some(Endpoint::ResourceMetadata),
                "oauth-authorization-server" | "openid-configuration" if is_base || is_mcp => {
                    Some(Endpoint::ServerMetadata)
                }
                _ => None,
            };
        }
        Some(match path.strip_prefix("/oauth/")? {
            "register" => Endpoint::Register,
            "authorize" => Endpoint::Authorize,
            "consent" => Endpoint::Consent,
            "callback" => Endpoint::Callback,
            "token" => Endpoint::Token,
            "revoke" => Endpoint::Revoke,
            "introspect" => Endpoint::Introspect,
            _ => return None,
        })
    }

    pub(super) async fn respond(self: &Arc<Self>, request: &Request<Bytes>, peer: IpAddr) -> Reply {
        let Some(endpoint) = self.route(request.uri().path()) else {
            return responses::error(&OAuthError::new(
                StatusCode::NOT_FOUND,
                "not_found",
                "not found",
            ));
        };
        let mut reply = match self.serve(endpoint, request, peer).await {
            Ok(reply) => reply,
            Err(error) => responses::error(&error),
        };
        if reply.status() == StatusCode::METHOD_NOT_ALLOWED {
            let allow = if endpoint.method() == Method::GET { "GET" } else { "POST" };
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.config.base_url.starts_with("https://") {
            let year = HeaderValue::from_static("max-age=31536000");
            reply.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, year);
        }
        reply
    }

    async fn serve(
        self: &Arc<Self>,
        endpoint: Endpoint,
        request: &Request<Bytes>,
        peer: IpAddr,
    ) -> Result<Reply, OAuthError> {
        if request.method() != endpoint.method() {
            let error = OAuthError::request("the method is not allowed here");
            return Err(OAuthError { status: StatusCode::METHOD_NOT_ALLOWED, ..error });
        }
        let peer = self.config.proxies.client_ip(request.headers(), peer);
        let limited = !self.request_limit.allows(peer)
            || (endpoint == Endpoint::Register && !self.registration_limit.allows(peer));
        if limited {
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(OAuthError::new(
                status,
                "rate_limit_exceeded",
                "too many requests; retry later",
            ));
        }
        let headers = request.headers();
        let params = if endpoint.has_form() {
            let content_type =
                headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
            let essence = content_type.and_then(|value| value.split(';').next());
            let essence = essence.unwrap_or_default().trim();
            if !essence.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
                let message = "Content-Type must be application/x-www-form-urlencoded";
                return Err(OAuthError::request(message));
            }
            Params::parse(request.body())?
        } else {
            Params::parse(request.uri().query().unwrap_or_default().as_bytes())?
        };
        match endpoint {
            Endpoint::ResourceMetadata => {
                Ok(document(&self.resource_metadata(request.uri().path())))
            }
            Endpoint::ServerMetadata => Ok(document(&self.server_metadata())),
            Endpoint::Register => self.register(headers, request.body()).await,
            Endpoint::Authorize => Box::pin(self.authorize(headers, &params)).await,
            Endpoint::Consent => Box::pin(self.consent(headers, &params)).await,
            Endpoint::Callback => Box::pin(self.callback(headers, &params)).await,
            Endpoint::Token => Box::pin(self.token(headers, &params)).await,
            Endpoint::Revoke => self.revoke(headers, &params).await,
            Endpoint::Introspect => self.introspect(headers, &params).await,
        }
    }
}

/// A public document, which may be cached and read by any web page.
fn document(body: &impl serde::Serialize) -> Reply {
    let mut reply = responses::json(StatusCode::OK, body);
    let headers = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    reply
}
