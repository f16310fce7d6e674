//! Which page a path is, and how it may be asked for.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};

use super::{
    Inner,
    fields::Fields,
    reply::{self, Failure, Reply},
};

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Resource,
    Authorization,
    Register,
    Authorize,
    Consent,
    Callback,
    Token,
    Revoke,
    Introspect,
}

impl Page {
    const fn method(self) -> Method {
        match self {
            Self::Resource | Self::Authorization | Self::Authorize | Self::Callback => Method::GET,
            Self::Register | Self::Consent | Self::Token | Self::Revoke | Self::Introspect => {
                Method::POST
            }
        }
    }

    const fn takes_form(self) -> bool {
        matches!(self, Self::Consent | Self::Token | Self::Revoke | Self::Introspect)
    }
}

impl Inner {
    pub(super) fn has_page(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    fn find(&self, path: &str) -> Option<Page> {
        if let Some(name) = path.strip_prefix("/.well-known/") {
            // What an address has behind its host, its document has behind its name.
            let base = self.config.base_url.splitn(4, '/').nth(3).unwrap_or_default();
            let (name, rest) = name.split_once('/').unwrap_or((name, ""));
            let own = rest.is_empty() || rest == base;
            let endpoint = rest == "mcp" || rest.strip_suffix("/mcp") == Some(base);
            return match name {
                "oauth-protected-resource" if own || endpoint => Some(Page::Resource),
                "oauth-authorization-server" | "openid-configuration" if own || endpoint => {
                    Some(Page::Authorization)
                }
                _ => None,
            };
        }
        Some(match path.strip_prefix("/oauth/")? {
            "register" => Page::Register,
            "authorize" => Page::Authorize,
            "consent" => Page::Consent,
            "callback" => Page::Callback,
            "token" => Page::Token,
            "revoke" => Page::Revoke,
            "introspect" => Page::Introspect,
            _ => return None,
        })
    }

    pub(super) async fn page(self: &Arc<Self>, request: &Request<Bytes>, peer: IpAddr) -> Reply {
        let Some(page) = self.find(request.uri().path()) else {
            return reply::failure(&Failure::new(StatusCode::NOT_FOUND, "not_found", "not found"));
        };
        let mut reply = match self.served(page, request, peer).await {
            Ok(reply) => reply,
            Err(failure) => reply::failure(&failure),
        };
        if reply.status() == StatusCode::METHOD_NOT_ALLOWED {
            let allow = if page.method() == Method::GET { "GET" } else { "POST" };
            reply.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
        }
        if self.config.base_url.starts_with("https://") {
            let year = HeaderValue::from_static("max-age=31536000");
            reply.headers_mut().insert(header::STRICT_TRANSPORT_SECURITY, year);
        }
        reply
    }

    async fn served(
        self: &Arc<Self>,
        page: Page,
        request: &Request<Bytes>,
        peer: IpAddr,
    ) -> Result<Reply, Failure> {
        if request.method() != page.method() {
            let failure = Failure::request("the method is not allowed here");
            return Err(Failure { status: StatusCode::METHOD_NOT_ALLOWED, ..failure });
        }
        let peer = self.config.proxies.sender(request.headers(), peer);
        let often = !self.requests.allows(peer)
            || (page == Page::Register && !self.registrations.allows(peer));
        if often {
            let status = StatusCode::TOO_MANY_REQUESTS;
            return Err(Failure::new(
                status,
                "rate_limit_exceeded",
                "too many requests; come again",
            ));
        }
        let headers = request.headers();
        let fields = if page.takes_form() {
            let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
            if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
                let message = "Content-Type must be application/x-www-form-urlencoded";
                return Err(Failure::request(message));
            }
            Fields::parse(request.body())?
        } else {
            Fields::parse(request.uri().query().unwrap_or_default().as_bytes())?
        };
        match page {
            Page::Resource => Ok(document(&self.resource(request.uri().path()))),
            Page::Authorization => Ok(document(&self.authorization())),
            Page::Register => self.register(headers, request.body()).await,
            Page::Authorize => Box::pin(self.authorize(headers, &fields)).await,
            Page::Consent => Box::pin(self.consent(headers, &fields)).await,
            Page::Callback => Box::pin(self.called_back(headers, &fields)).await,
            Page::Token => Box::pin(self.token(headers, &fields)).await,
            Page::Revoke => self.revoke(headers, &fields).await,
            Page::Introspect => self.introspect(headers, &fields).await,
        }
    }
}

/// What is the same for everybody, whoever reads it.
fn document(body: &impl serde::Serialize) -> Reply {
    let mut reply = reply::json(StatusCode::OK, body);
    let headers = reply.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=300"));
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    reply
}
