//! The web pages of the gateway as an OAuth client: the callback, and its client metadata document.

use std::{net::IpAddr, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use muster_core::{
    backend::BoxFuture,
    credentials::{self, Peer},
};

use serde::Serialize;

use super::{
    OAuthClient, login_flow::LoginResult, login_link::START_PATH, post_login_redirects::with_server,
};
use crate::{access::is_own_user, oauth::CallbackParams, page};

/// The web pages of an [`OAuthClient`].
#[derive(Debug)]
pub struct OAuthClientPages(pub(super) Arc<OAuthClient>);

/// The client metadata document of the gateway.
#[derive(Debug, Serialize)]
struct ClientMetadata<'a> {
    client_id: &'a str,
    client_name: &'static str,
    client_uri: &'a str,
    redirect_uris: [&'a str; 1],
    grant_types: [&'static str; 2],
    response_types: [&'static str; 1],
    token_endpoint_auth_method: &'static str,
    scope: &'a str,
    software_id: &'static str,
    software_version: &'static str,
}

impl credentials::WebPages for OAuthClientPages {
    fn serves(&self, path: &str) -> bool {
        let options = &self.0.options;
        path == options.callback_path
            || (path == START_PATH
                && (options.browser_logins.is_some() || !options.redirects.is_empty()))
            || (path == options.document_path && options.serves_document())
    }

    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move {
            if request.method() != Method::GET {
                return not_allowed();
            }
            let query = request.uri().query().unwrap_or_default();
            let is_start = match request.uri().path() {
                START_PATH => true,
                path if path != self.0.options.callback_path => return self.document(),
                _ => false,
            };
            if !self.0.page_limit.allows(self.client_ip(&request, peer)) {
                let text = "Too many requests came from your address. Try again in a moment.";
                return page::message(StatusCode::TOO_MANY_REQUESTS, "Too many requests", text);
            }
            if is_start {
                return self.start(request.headers(), query).await;
            }
            if self.0.options.own_browsers_only && peer.ip().is_loopback() && !is_own_user(peer) {
                let text = "This browser runs under a different user account than the gateway.";
                return page::message(StatusCode::FORBIDDEN, "Not your gateway", text);
            }
            let params = CallbackParams::parse(query).unwrap_or_default();
            let refusal = self.refuse_callback(request.headers(), params.state.as_deref()).await;
            if let Some(refusal) = refusal {
                return refusal;
            }
            let redirect = match &params.state {
                Some(state) => self.0.take_redirect(state).await,
                None => None,
            };
            match (self.0.finish(params).await, redirect) {
                (LoginResult::SignedIn { server, user, is_bound, .. }, Some(url))
                    if is_bound || user.is_none() =>
                {
                    page::redirect(StatusCode::SEE_OTHER, &with_server(&url, &server))
                }
                (result, redirect) => result_page(&result, redirect.as_deref()),
            }
        })
    }
}

impl OAuthClientPages {
    /// The address that a request came from.
    fn client_ip(&self, request: &Request<Bytes>, peer: &Peer) -> IpAddr {
        match &self.0.options.browser_logins {
            Some(logins) => logins.client_ip(request.headers(), peer.ip()),
            None => peer.ip(),
        }
    }

    fn document(&self) -> Response<Bytes> {
        let options = &self.0.options;
        let (id, redirect) = (options.document_url(), options.callback_url());
        let metadata = ClientMetadata {
            client_id: &id,
            client_name: super::NAME,
            client_uri: &options.public_url,
            redirect_uris: [&redirect],
            grant_types: ["authorization_code", "refresh_token"],
            response_types: ["code"],
            token_endpoint_auth_method: "none",
            scope: &options.scopes,
            software_id: "muster",
            software_version: env!("CARGO_PKG_VERSION"),
        };
        let body = serde_json::to_vec(&metadata).unwrap_or_default();
        let mut response = Response::new(Bytes::from(body));
        let headers = response.headers_mut();
        let set = [
            (header::CONTENT_TYPE, "application/json"),
            (header::CACHE_CONTROL, "public, max-age=3600"),
            (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        ];
        for (name, value) in set {
            headers.insert(name, HeaderValue::from_static(value));
        }
        response
    }
}

/// The page with the result of a login. It links to `redirect` instead of redirecting, so that the user reads the
/// result first.
fn result_page(result: &LoginResult, redirect: Option<&str>) -> Response<Bytes> {
    let (status, title, text) = match result {
        LoginResult::SignedIn { server, user, connect_error, .. } => {
            // The link may come from an attacker, who would then hold this login: show whose login it is.
            let user = user.as_ref().map(|user| {
                format!(
                    " {user} uses this sign-in from now on; if that is not you, revoke it at the provider."
                )
            });
            let user = user.unwrap_or_default();
            let next = match connect_error {
                None => "You can close this window.".to_owned(),
                Some(error) => {
                    format!("The server is not connected yet: {error}. Call core_auth_login again.")
                }
            };
            (StatusCode::OK, "Signed in", format!("You are signed in to {server}.{user} {next}"))
        }
        LoginResult::Failed(title, text) => (StatusCode::BAD_REQUEST, *title, text.clone()),
    };
    match (result, redirect) {
        (LoginResult::SignedIn { server, .. }, Some(url)) => {
            let (text, url) = (page::escape(&text), page::escape(&with_server(url, server)));
            let body = format!("<p>{text}</p><p><a href=\"{url}\">Continue</a></p>");
            page::html(status, &page::document(title, &body))
        }
        _ => page::message(status, title, &text),
    }
}

fn not_allowed() -> Response<Bytes> {
    let mut response = Response::new(Bytes::from_static(b"Method Not Allowed\n"));
    *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
    response
}

#[cfg(test)]
mod tests {
    use super::result_page;
    use crate::client::login_flow::LoginResult;

    #[test]
    fn pages_show_nothing_as_markup() {
        let server = "<script>alert(1)</script>".to_owned();
        let user = Some("<b>Eve</b>".to_owned());
        let connect_error = Some("'\"&".to_owned());
        let result = LoginResult::SignedIn { server, user, is_bound: false, connect_error };
        let page = result_page(&result, Some("https://ui.example/?\"><script>"));
        let body = String::from_utf8_lossy(page.body()).into_owned();
        assert!(!body.contains("<script>") && !body.contains("<b>"), "{body}");
        assert!(body.contains("&lt;script&gt;") && body.contains("&#39;&quot;&amp;"), "{body}");
    }
}
