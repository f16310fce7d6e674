//! Login links that lead through the gateway. If users log in to the gateway, a link works only in the browser of the
//! user who requested it.
//!
//! Without this, a user who opens someone else's link and logs in at the server's issuer would let the sender of the link
//! use their account. Both ends of the login are checked, because the issuer's page can be passed on as well as the link.

use http::{HeaderMap, Response, StatusCode};

use super::{OAuthClient, OAuthClientPages, login_flow::LinkedFlow};
use crate::{oauth::with_query, page, text::printable};
use bytes::Bytes;

/// The path of the page that a login link leads to.
pub(super) const START_PATH: &str = "/oauth/proxy/start";

const NOT_YOURS: &str = "This link is not yours";
const NOT_YOURS_TEXT: &str = "Another user of this gateway asked for this sign-in. If you continued, they could use your \
                              account at the server. Open only links that you asked for; to sign in yourself, call \
                              core_auth_login.";

impl OAuthClient {
    /// The link of a login. `redirect` is the page that the browser is sent to after the login.
    pub(super) fn link(&self, state: &str, redirect: Option<&str>) -> String {
        let logins = self.options.browser_logins.as_ref();
        let base = logins.map_or(self.options.public_url.as_str(), |logins| logins.base_url());
        let params = [("state", state), ("redirect", redirect.unwrap_or_default())];
        with_query(&format!("{base}{START_PATH}"), &params)
    }
}

impl OAuthClientPages {
    /// Handles a login link: redirects the owner's browser to the issuer.
    pub(super) async fn start(&self, headers: &HeaderMap, query: &str) -> Response<Bytes> {
        let parameter = |wanted: &str| {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            pairs.find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
        };
        let state = parameter("state").unwrap_or_default();
        match self.0.linked_flow(&state).await {
            Ok(Some(flow)) => {
                let redirect = parameter("redirect").filter(|url| self.allows_redirect(url));
                let redirect = redirect.as_deref();
                if let Some(refusal) = self.refuse_browser(headers, &flow, &state, redirect).await {
                    return refusal;
                }
                if let Some(url) = redirect
                    && let Err(error) = self.0.set_redirect(&state, url).await
                {
                    return unavailable(&error.to_string());
                }
                page::redirect(StatusCode::FOUND, &flow.url)
            }
            Ok(None) => page::message(
                StatusCode::BAD_REQUEST,
                "Sign-in expired",
                "This sign-in has expired or was already used. Call core_auth_login again.",
            ),
            Err(error) => unavailable(&error.to_string()),
        }
    }

    /// Whether a login link may name a page to redirect to.
    fn allows_redirect(&self, url: &str) -> bool {
        let is_allowed = self.0.options.redirects.allows(url);
        if !is_allowed {
            tracing::warn!(
                "a login link names {}, which is not in `postLoginRedirectAllowlist`: ignored",
                printable(url)
            );
        }
        is_allowed
    }

    /// Refuses a callback in a browser that is not the owner's; `None` if it may proceed.
    pub(super) async fn refuse_callback(
        &self,
        headers: &HeaderMap,
        state: Option<&str>,
    ) -> Option<Response<Bytes>> {
        let state = state?;
        match self.0.linked_flow(state).await {
            Ok(flow) => match self.refuse_browser(headers, &flow?, state, None).await {
                // The browser is not logged in. Refuse instead of redirecting it: the code must not be redeemed after
                // that login.
                Some(refusal) if refusal.status().is_redirection() => Some(not_yours()),
                refusal => refusal,
            },
            Err(error) => Some(unavailable(&error.to_string())),
        }
    }

    async fn refuse_browser(
        &self,
        headers: &HeaderMap,
        flow: &LinkedFlow,
        state: &str,
        redirect: Option<&str>,
    ) -> Option<Response<Bytes>> {
        let owner = flow.owner.as_ref()?;
        let Some(logins) = &self.0.options.browser_logins else { return Some(not_yours()) };
        match logins.browser_principal(headers).await {
            Ok(Some(principal)) if principal == *owner => None,
            Ok(Some(_)) => Some(not_yours()),
            Ok(None) => Some(logins.browser_login(headers, self.0.link(state, redirect)).await),
            Err(error) => Some(unavailable(&error.to_string())),
        }
    }
}

fn not_yours() -> Response<Bytes> {
    page::message(StatusCode::FORBIDDEN, NOT_YOURS, NOT_YOURS_TEXT)
}

fn unavailable(reason: &str) -> Response<Bytes> {
    page::message(StatusCode::SERVICE_UNAVAILABLE, "Sign-in is not possible now", reason)
}
