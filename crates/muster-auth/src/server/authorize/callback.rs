//! A browser that comes back from the provider.

use http::{HeaderMap, StatusCode};

use super::{Flow, Grant, PATIENCE, consent::page, flow_key};
use crate::{
    oauth::with_query,
    random,
    server::{
        Inner,
        fields::Fields,
        provider::ProviderError,
        redirect_uri::RedirectUri,
        reply::{self, Failure, Reply, escape},
        token::code_key,
    },
};

/// Codes of errors that mean the same to our clients as they do to us.
const PASSED: &[&str] = &["access_denied", "temporarily_unavailable", "invalid_scope"];

impl Inner {
    /// `GET /oauth/callback`.
    pub(in crate::server) async fn called_back(
        &self,
        headers: &HeaderMap,
        fields: &Fields,
    ) -> Result<Reply, Failure> {
        if fields.get("iss") == Some(&self.config.base_url) && fields.get("code").is_some() {
            // A client whose redirect address is this page: the login is what it wanted.
            let body = "<p>You are logged in. You can close this page.</p>";
            return Ok(reply::page(StatusCode::OK, page("Done", body)));
        }
        let old =
            || Failure::request("the login has taken too long or was finished; begin it again");
        let key = flow_key(fields.need("state")?);
        let flow: Flow = self.vault.get(&key).await?.ok_or_else(old)?;
        if flow.browser.is_some() {
            let browser = self.cookie(headers).map(|cookie| random::digest_of(&cookie));
            if browser != flow.browser {
                return Err(Failure::request("the login was begun in another browser"));
            }
        }
        let flow: Flow = self.vault.take(&key).await?.ok_or_else(old)?;
        match self.finish(&flow, fields).await {
            Ok(code) => Ok(self.home(&flow, &code)),
            Err(failure) => {
                tracing::warn!("a login failed: {}", failure.description);
                Ok(self.back(&flow.redirect_uri, &flow.state, &failure))
            }
        }
    }

    /// From what the provider sent to a code for the client.
    async fn finish(&self, flow: &Flow, fields: &Fields) -> Result<String, Failure> {
        let known = self.provider.known().map_err(|err| told(&err))?;
        let issuer = self.provider.config.issuer.trim_end_matches('/');
        match fields.get("iss").map(|iss| iss.trim_end_matches('/')) {
            Some(iss) if iss != issuer => {
                return Err(Failure::server("the answer came from another identity provider"));
            }
            None if known.names_itself => {
                return Err(Failure::server("the answer does not name its identity provider"));
            }
            Some(_) | None => {}
        }
        if let Some(error) = fields.get("error") {
            let code = PASSED.iter().find(|passed| **passed == error).copied();
            let code = code.unwrap_or("server_error");
            let text = "the identity provider did not log the user in";
            return Err(Failure { code, ..Failure::request(text) });
        }
        let code = fields.need("code")?;
        let redeemed = self.provider.redeem(code, &flow.verifier, &self.callback()).await;
        let tokens = redeemed.map_err(|err| told(&err))?;
        let identified = self.provider.identify(&tokens, &flow.nonce).await;
        let identity = identified.map_err(|err| told(&err))?;
        let login = self.begin(identity, tokens).await?;
        let code = random::token()?;
        let grant = Grant {
            client: flow.client.clone(),
            redirect_uri: flow.redirect_uri.clone(),
            challenge: flow.challenge.clone(),
            scope: flow.scope.clone(),
            login: login.id,
        };
        self.vault.put(&code_key(&code), &grant, PATIENCE).await?;
        Ok(code)
    }

    /// Back to the client.
    fn home(&self, flow: &Flow, code: &str) -> Reply {
        let answer = [("code", code), ("state", &flow.state), ("iss", &self.config.base_url)];
        let location = with_query(&flow.redirect_uri, &answer);
        if RedirectUri::parse(&flow.redirect_uri).is_some_and(|uri| uri.is_web()) {
            return reply::redirect(&location);
        }
        // A browser that follows a redirect to a program leaves the user with an empty page.
        let link = escape(&location);
        let body = format!(
            "<p>You are logged in.</p><p><a href=\"{link}\">Back to {}</a></p>\
             <meta http-equiv=\"refresh\" content=\"0;url={link}\">",
            escape(if flow.client_name.is_empty() { "the program" } else { &flow.client_name })
        );
        reply::page(StatusCode::OK, page("Done", &body))
    }
}

/// What a client is told about the provider; the log says more.
fn told(err: &ProviderError) -> Failure {
    tracing::warn!("{err}");
    match err {
        ProviderError::Away(_) => Failure::later("the identity provider is not available"),
        ProviderError::Refused(_) => Failure::server("the identity provider refused the login"),
        ProviderError::Wrong(_) => {
            Failure::server("the identity provider's answer cannot be trusted")
        }
    }
}
