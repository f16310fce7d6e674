//! The consent page: the user decides whether a client may act for them.

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::{AuthorizationFlow, FLOW_TTL};
use crate::{
    page::{self, escape},
    random,
    server::{
        Inner,
        params::Params,
        redirect_uri::RedirectUri,
        responses::{OAuthError, Reply},
    },
};

/// How long a browser's consent is remembered.
const CONSENT_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

fn pending_key(id: &str) -> String {
    format!("ask:{}", random::digest_of(id))
}

/// Consent is bound to a browser, a client and a redirect URI.
fn consent_key(client: &str, redirect_uri: &str, browser: &str) -> String {
    // A client on the user's own machine listens on a different port each time.
    let target = match RedirectUri::parse(redirect_uri) {
        Some(uri) if uri.is_loopback() => "loopback",
        _ => redirect_uri,
    };
    format!("consent:{}", random::digest_of(&format!("{browser}\n{client}\n{target}")))
}

impl Inner {
    /// Whether this browser has consented to this client before.
    pub(super) async fn has_consented(
        &self,
        client: &str,
        redirect_uri: &str,
        browser: Option<&str>,
    ) -> Result<bool, OAuthError> {
        let Some(browser) = browser else { return Ok(false) };
        let key = consent_key(client, redirect_uri, browser);
        Ok(self.vault.get::<bool>(&key).await?.is_some())
    }

    /// Shows the consent page.
    pub(super) async fn ask_consent(&self, flow: AuthorizationFlow) -> Result<Reply, OAuthError> {
        let id = random::token()?;
        self.vault.put(&pending_key(&id), &flow, FLOW_TTL).await?;
        Ok(consent_page(&flow, &id))
    }

    /// `POST /oauth/consent`.
    pub(in crate::server) async fn consent(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        let expired =
            || OAuthError::request("the login has expired or was already answered; start it again");
        let key = pending_key(params.require("flow")?);
        let flow: AuthorizationFlow = self.vault.get(&key).await?.ok_or_else(expired)?;
        let browser = self.cookie(headers).map(|cookie| random::digest_of(&cookie));
        if browser.is_none() || browser != flow.browser {
            return Err(OAuthError::request("the login was started in another browser"));
        }
        let flow: AuthorizationFlow = self.vault.take(&key).await?.ok_or_else(expired)?;
        if params.get("decision") != Some("allow") {
            let error =
                OAuthError { code: "access_denied", ..OAuthError::request("the user refused") };
            return Ok(self.redirect_error(&flow.redirect_uri, &flow.state, &error));
        }
        if let Some(browser) = &flow.browser {
            let key = consent_key(&flow.client, &flow.redirect_uri, browser);
            self.vault.put(&key, &true, CONSENT_TTL).await?;
        }
        self.redirect_to_provider(flow).await
    }
}

fn consent_page(flow: &AuthorizationFlow, id: &str) -> Reply {
    let name = if flow.client_name.is_empty() {
        "An application without a name"
    } else {
        &flow.client_name
    };
    let described = if flow.client.starts_with("https://") {
        format!("<dt>Described at</dt><dd>{}</dd>", escape(&flow.client))
    } else {
        String::new()
    };
    let local = RedirectUri::parse(&flow.redirect_uri).is_some_and(|uri| uri.is_loopback());
    let warning = if local {
        "<p>It runs on your own computer. Continue only if you have just started it yourself.</p>"
    } else {
        ""
    };
    let document = page::document(
        "Allow access?",
        &format!(
            "<p><strong>{}</strong> wants to use this gateway on your behalf.</p>\
             <dl>{described}<dt>Sends you back to</dt><dd>{}</dd></dl>{warning}\
             <form method=\"post\" action=\"consent\">\
             <input type=\"hidden\" name=\"flow\" value=\"{}\">\
             <button name=\"decision\" value=\"allow\">Allow</button> \
             <button name=\"decision\" value=\"deny\">Deny</button></form>",
            escape(name),
            escape(&flow.redirect_uri),
            escape(id),
        ),
    );
    let mut reply = page::html(StatusCode::OK, &document);
    // With `no-referrer`, the browser would not send the form's `Origin`.
    let policy = HeaderValue::from_static("same-origin");
    reply.headers_mut().insert(header::REFERRER_POLICY, policy);
    reply
}
