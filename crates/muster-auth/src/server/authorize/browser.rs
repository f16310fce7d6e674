//! Logins at the gateway's own pages, without a client. They establish whose browser it is.

use std::time::Duration;

use http::HeaderMap;

use super::AuthorizationFlow;
use crate::{
    random,
    server::{
        Inner,
        responses::{OAuthError, Reply},
    },
    store::StoreError,
};

/// How long a browser is associated with its user after a login.
const BROWSER_TTL: Duration = Duration::from_secs(60 * 60);

impl AuthorizationFlow {
    /// Whether no client is involved: the browser returns to a page of the gateway.
    pub(super) const fn is_browser_login(&self) -> bool {
        self.client.is_empty()
    }
}

impl Inner {
    /// The id of the principal who last logged in with this browser.
    pub(in crate::server) async fn browser_principal(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<String>, StoreError> {
        match self.cookie(headers) {
            Some(cookie) => self.vault.get(&browser_key(&random::digest_of(&cookie))).await,
            None => Ok(None),
        }
    }

    /// Redirects the browser to the provider and, after the login, to `return_to`, a page of the gateway.
    pub(in crate::server) async fn browser_login(
        &self,
        headers: &HeaderMap,
        return_to: String,
    ) -> Result<Reply, OAuthError> {
        let cookie = self.cookie(headers);
        let browser = match &cookie {
            Some(cookie) => cookie.clone(),
            None => random::token()?,
        };
        let flow = AuthorizationFlow {
            client: String::new(),
            client_name: String::new(),
            redirect_uri: return_to,
            state: String::new(),
            scope: None,
            challenge: String::new(),
            browser: Some(random::digest_of(&browser)),
            verifier: random::token()?,
            nonce: random::token()?,
        };
        let mut reply = self.redirect_to_provider(flow).await?;
        if cookie.is_none() {
            self.set_cookie(&mut reply, &browser);
        }
        Ok(reply)
    }

    /// Associates the browser of a flow with the principal who logged in.
    pub(super) async fn remember_browser(
        &self,
        flow: &AuthorizationFlow,
        principal: &str,
    ) -> Result<(), StoreError> {
        match &flow.browser {
            Some(browser) => {
                self.vault.put(&browser_key(browser), &principal.to_owned(), BROWSER_TTL).await
            }
            None => Ok(()),
        }
    }
}

fn browser_key(digest: &str) -> String {
    format!("browser:{digest}")
}
