//! Dynamic client registration (RFC 7591).

use http::{HeaderMap, StatusCode, header};
use serde::{Deserialize, Serialize};

use super::{REGISTRATION_TTL, RegisteredClient, client_key};
use crate::{
    random,
    server::{
        Inner,
        config::OwnCallback,
        redirect_uri::RedirectUri,
        responses::{self, OAuthError, Reply},
    },
};

const MAX_REDIRECT_URIS: usize = 20;

#[derive(Deserialize)]
struct RegistrationRequest {
    #[serde(default)]
    redirect_uris: Vec<String>,
    client_name: Option<String>,
    client_type: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

#[derive(Serialize)]
struct RegistrationResponse<'a> {
    client_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client_secret_expires_at: Option<u64>,
    client_id_issued_at: u64,
    client_name: &'a str,
    client_type: &'static str,
    redirect_uris: &'a [String],
    token_endpoint_auth_method: &'a str,
    grant_types: [&'static str; 2],
    response_types: [&'static str; 1],
}

/// The reason why a registration is allowed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Authorization {
    /// Anybody may register a client.
    Public,
    /// The request has the operator's registration token.
    Token,
    /// All redirect URIs are trusted.
    TrustedRedirect,
}

impl Inner {
    /// Whether registration is possible at all.
    pub(in crate::server) fn allows_registration(&self) -> bool {
        self.config.public_registration
            || self.config.registration_token.is_some()
            || !self.config.trusted_schemes.is_empty()
            || !self.config.trusted_uris.is_empty()
    }

    /// `POST /oauth/register`.
    pub(in crate::server) async fn register(
        &self,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Reply, OAuthError> {
        let bad = |text: String| OAuthError {
            code: "invalid_client_metadata",
            ..OAuthError::request(text)
        };
        let request: RegistrationRequest = serde_json::from_slice(body).map_err(|_| {
            bad("the body must be a JSON object that describes the client".to_owned())
        })?;
        self.check_redirect_uris(&request.redirect_uris)?;
        let authorization = self.authorize_registration(headers, &request.redirect_uris)?;
        let method = request.token_endpoint_auth_method.as_deref();
        let public = match (method, request.client_type.as_deref()) {
            (Some("none"), _) | (None, Some("public")) => true,
            (Some("client_secret_basic" | "client_secret_post") | None, _) => false,
            (Some(other), _) => {
                return Err(bad(format!(
                    "token_endpoint_auth_method {} is not supported",
                    printable_name(other)
                )));
            }
        };
        if public && authorization == Authorization::Token && !self.config.public_registration {
            let message = "public clients may not be registered here; use a client secret";
            return Err(bad(message.to_owned()));
        }
        let secret = if public { None } else { Some(random::token()?) };
        let client = RegisteredClient {
            id: random::token()?,
            name: printable_name(request.client_name.as_deref().unwrap_or_default()),
            redirect_uris: request.redirect_uris,
            secret: secret.as_deref().map(random::digest_of),
            is_trusted: authorization == Authorization::Token,
        };
        self.vault.put(&client_key(&client.id), &client, REGISTRATION_TTL).await?;
        Ok(responses::json(
            StatusCode::CREATED,
            &RegistrationResponse {
                client_id: &client.id,
                client_secret: secret.as_deref(),
                client_secret_expires_at: secret.is_some().then_some(0),
                client_id_issued_at: self.clock.now(),
                client_name: &client.name,
                client_type: if public { "public" } else { "confidential" },
                redirect_uris: &client.redirect_uris,
                token_endpoint_auth_method: if public {
                    "none"
                } else {
                    method.unwrap_or("client_secret_basic")
                },
                grant_types: ["authorization_code", "refresh_token"],
                response_types: ["code"],
            },
        ))
    }

    fn authorize_registration(
        &self,
        headers: &HeaderMap,
        uris: &[String],
    ) -> Result<Authorization, OAuthError> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let bearer = bearer.and_then(|value| value.split_once(' '));
        let sent = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        if let (Some(token), Some((_, sent))) = (&self.config.registration_token, sent)
            && random::same(token.reveal(), sent.trim())
        {
            return Ok(Authorization::Token);
        }
        if self.config.public_registration {
            return Ok(Authorization::Public);
        }
        let trusted = |uri: &String| {
            let scheme = RedirectUri::parse(uri).map(|uri| uri.scheme).unwrap_or_default();
            let schemes = &self.config.trusted_schemes;
            schemes.iter().any(|known| known.eq_ignore_ascii_case(&scheme))
                || self.config.trusted_uris.contains(uri)
        };
        if uris.iter().all(trusted) {
            return Ok(Authorization::TrustedRedirect);
        }
        let message = "a registration needs the registration token";
        Err(OAuthError::new(StatusCode::UNAUTHORIZED, "invalid_token", message))
    }

    fn check_redirect_uris(&self, uris: &[String]) -> Result<(), OAuthError> {
        let bad =
            |text: String| OAuthError { code: "invalid_redirect_uri", ..OAuthError::request(text) };
        if uris.is_empty() || uris.len() > MAX_REDIRECT_URIS {
            return Err(bad(format!("redirect_uris must have 1 to {MAX_REDIRECT_URIS} entries")));
        }
        for uri in uris {
            if let Some(problem) = self.check_redirect_uri(uri) {
                return Err(bad(format!("redirect URI {}: {problem}", printable_name(uri))));
            }
        }
        Ok(())
    }

    /// Returns why a client must not use a redirect URI; `None` if it may.
    pub(super) fn check_redirect_uri(&self, uri: &str) -> Option<&'static str> {
        let Some(parsed) = RedirectUri::parse(uri) else { return Some("it cannot be read") };
        // A client with the gateway's callback would get logins without consent. `matches` ignores the port of loopback
        // URIs.
        if parsed.matches(&self.callback_url()) && self.config.own_callback == OwnCallback::Refused
        {
            return Some("it belongs to the gateway itself");
        }
        parsed.problem(self.config.allow_loopback_redirects, &self.config.trusted_schemes)
    }
}

/// Untrusted text without control characters, cut to a length that suits an error or a page.
pub(super) fn printable_name(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}
