//! The callback: the browser returns from the identity provider.

use http::{HeaderMap, StatusCode};
use muster_core::credentials::Principal;

use super::{AuthorizationFlow, CodeGrant, FLOW_TTL, flow_key};
use crate::{
    oauth::with_query,
    page::{self, escape},
    random,
    server::{
        Inner,
        authenticate::not_allowed,
        params::Params,
        provider::ProviderError,
        redirect_uri::RedirectUri,
        responses::{self, OAuthError, Reply},
        token::code_key,
    },
};

/// The error codes of the provider that are passed on to clients.
const PASSED_ERRORS: &[&str] = &["access_denied", "temporarily_unavailable", "invalid_scope"];

impl Inner {
    /// `GET /oauth/callback`.
    pub(in crate::server) async fn callback(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        if params.get("iss") == Some(&self.config.base_url) && params.get("code").is_some() {
            // The client uses this page as its redirect URI.
            let text = "You can close this page.";
            return Ok(page::message(StatusCode::OK, "You are logged in", text));
        }
        let expired =
            || OAuthError::request("the login has expired or was already finished; start it again");
        let key = flow_key(params.require("state")?);
        let flow: AuthorizationFlow = self.vault.get(&key).await?.ok_or_else(expired)?;
        if flow.browser.is_some() {
            let browser = self.cookie(headers).map(|cookie| random::digest_of(&cookie));
            if browser != flow.browser {
                return Err(OAuthError::request("the login was started in another browser"));
            }
        }
        let flow: AuthorizationFlow = self.vault.take(&key).await?.ok_or_else(expired)?;
        match self.finish(&flow, params).await {
            Ok(Some(code)) => Ok(self.redirect_to_client(&flow, &code)),
            Ok(None) => Ok(responses::redirect(&flow.redirect_uri)),
            Err(error) => {
                tracing::warn!("a login failed: {}", error.description);
                if flow.is_browser_login() {
                    return Ok(page::message(
                        StatusCode::FORBIDDEN,
                        "You are not logged in",
                        &error.description,
                    ));
                }
                Ok(self.redirect_error(&flow.redirect_uri, &flow.state, &error))
            }
        }
    }

    /// Logs the user in with the provider's response, and returns a code for the client, if there is one.
    async fn finish(
        &self,
        flow: &AuthorizationFlow,
        params: &Params,
    ) -> Result<Option<String>, OAuthError> {
        let metadata = self.provider.metadata().map_err(|err| client_error(&err))?;
        let issuer = self.provider.config.issuer.trim_end_matches('/');
        match params.get("iss").map(|iss| iss.trim_end_matches('/')) {
            Some(iss) if iss != issuer => {
                return Err(OAuthError::server("the response came from another identity provider"));
            }
            None if metadata.names_issuer => {
                return Err(OAuthError::server("the response does not name its identity provider"));
            }
            Some(_) | None => {}
        }
        if let Some(error) = params.get("error") {
            let code = PASSED_ERRORS.iter().find(|passed| **passed == error).copied();
            let code = code.unwrap_or("server_error");
            let text = "the identity provider did not log the user in";
            return Err(OAuthError { code, ..OAuthError::request(text) });
        }
        let code = params.require("code")?;
        let redeemed = self.provider.redeem(code, &flow.verifier, &self.callback_url()).await;
        let tokens = redeemed.map_err(|err| client_error(&err))?;
        let identified = self.provider.identify(&tokens, &flow.nonce).await;
        let identity = identified.map_err(|err| client_error(&err))?;
        let principal = Principal::id_of(&self.provider.config.issuer, &identity.subject);
        if !self.config.allows(&principal, identity.email.as_deref(), &identity.groups) {
            return Err(not_allowed(&principal, identity.email.as_deref()));
        }
        self.remember_browser(flow, &principal).await?;
        if flow.is_browser_login() {
            return Ok(None);
        }
        let login = self.create_login(identity, tokens).await?;
        let code = random::token()?;
        let grant = CodeGrant {
            client: flow.client.clone(),
            redirect_uri: flow.redirect_uri.clone(),
            challenge: flow.challenge.clone(),
            scope: flow.scope.clone(),
            login: login.id,
        };
        self.vault.put(&code_key(&code), &grant, FLOW_TTL).await?;
        Ok(Some(code))
    }

    /// Sends the browser back to the client.
    fn redirect_to_client(&self, flow: &AuthorizationFlow, code: &str) -> Reply {
        let params = [("code", code), ("state", &flow.state), ("iss", &self.config.base_url)];
        let location = with_query(&flow.redirect_uri, &params);
        if RedirectUri::parse(&flow.redirect_uri).is_some_and(|uri| uri.is_web()) {
            return responses::redirect(&location);
        }
        // A redirect to an application would leave an empty page in the browser: show a page with a link instead.
        let link = escape(&location);
        let body = format!(
            "<p><a href=\"{link}\">Back to {}</a></p>\
             <meta http-equiv=\"refresh\" content=\"0;url={link}\">",
            escape(if flow.client_name.is_empty() { "the application" } else { &flow.client_name })
        );
        page::html(StatusCode::OK, &page::document("You are logged in", &body))
    }
}

/// The error that a client gets for an error of the provider; the log has the details.
fn client_error(err: &ProviderError) -> OAuthError {
    tracing::warn!("{err}");
    match err {
        ProviderError::Unavailable(_) => {
            OAuthError::unavailable("the identity provider is not available")
        }
        ProviderError::Refused(_) => OAuthError::server("the identity provider refused the login"),
        ProviderError::Invalid(_) => {
            OAuthError::server("the identity provider's response is not valid")
        }
    }
}
