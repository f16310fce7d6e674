//! Login links that work only in the browser of the user who asked for them.
//!
//! Without this, a user who opens someone else's link and logs in at the server's issuer would give away their account.
//! Both ends of the login are checked, because the issuer's page can be passed on as well as the link.

use http::{HeaderMap, Response, StatusCode};

use super::{OAuthClient, OAuthClientPages, login_flow::BoundFlow};
use crate::{oauth::with_query, page};
use bytes::Bytes;

/// The path of the page that a login link leads to.
pub(super) const START_PATH: &str = "/oauth/proxy/start";

const NOT_YOURS: &str = "This link is not yours";
const NOT_YOURS_TEXT: &str = "Another user of this gateway asked for this sign-in. If you continued, they could use your \
                              account at the server. Open only links that you asked for; to sign in yourself, call \
                              core_auth_login.";

impl OAuthClient {
    /// The link of a login whose browser must be its owner's.
    pub(super) fn link(&self, state: &str) -> Option<String> {
        let logins = self.options.browser_logins.as_ref()?;
        Some(with_query(&format!("{}{START_PATH}", logins.base_url()), &[("flow", state)]))
    }
}

impl OAuthClientPages {
    /// The page of a login link: on to the issuer, if the browser is the owner's.
    pub(super) async fn start(&self, headers: &HeaderMap, query: &str) -> Response<Bytes> {
        let flow = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "flow");
        let state = flow.map(|(_, state)| state.into_owned()).unwrap_or_default();
        match self.0.bound_flow(&state).await {
            Ok(Some(flow)) => match self.refuse_browser(headers, &flow, &state).await {
                None => page::redirect(&flow.url),
                Some(refusal) => refusal,
            },
            Ok(None) => page::message(
                StatusCode::BAD_REQUEST,
                "Sign-in expired",
                "This sign-in has expired or was already used. Call core_auth_login again.",
            ),
            Err(error) => unavailable(&error.to_string()),
        }
    }

    /// The response to a callback in a browser that is not the owner's; `None` if it may proceed.
    pub(super) async fn refuse_callback(
        &self,
        headers: &HeaderMap,
        state: Option<&str>,
    ) -> Option<Response<Bytes>> {
        let state = state?;
        match self.0.bound_flow(state).await {
            Ok(flow) => match self.refuse_browser(headers, &flow?, state).await {
                // The code in this URL must not be redeemed after another login: start again.
                Some(refusal) if refusal.status().is_redirection() => Some(not_yours()),
                refusal => refusal,
            },
            Err(error) => Some(unavailable(&error.to_string())),
        }
    }

    async fn refuse_browser(
        &self,
        headers: &HeaderMap,
        flow: &BoundFlow,
        state: &str,
    ) -> Option<Response<Bytes>> {
        let Some(logins) = &self.0.options.browser_logins else { return Some(not_yours()) };
        match logins.browser_principal(headers).await {
            Ok(Some(principal)) if principal == flow.owner => None,
            Ok(Some(_)) => Some(not_yours()),
            Ok(None) => {
                let link = self.0.link(state).unwrap_or_default();
                Some(logins.browser_login(headers, link).await)
            }
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
