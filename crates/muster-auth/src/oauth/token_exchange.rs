//! Token exchange (RFC 8693) at the token endpoint of an issuer such as Dex.

use muster_net::{AddressPolicy, HttpClient};
use serde::Deserialize;

use super::{ClientIdentity, TokenEndpoint, TokenRequestError, TokenResponse};
use crate::{random::from_base64url, text::printable};

/// The grant type.
pub(crate) const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// The type of ID tokens.
pub(crate) const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
/// The type of access tokens.
pub(crate) const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
/// The scopes of exchanged tokens, where none are configured.
pub(crate) const DEFAULT_SCOPES: &str = "openid profile email groups";

/// A request to exchange a token.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangeRequest<'a> {
    /// The URL of the token endpoint.
    pub(crate) endpoint: &'a str,
    /// The Dex connector that validates the token; empty for none.
    pub(crate) connector_id: &'a str,
    /// The scopes of the new token.
    pub(crate) scopes: &'a str,
    /// The issuer of the new token; empty for the URL of the endpoint without `/token`.
    pub(crate) expected_issuer: &'a str,
    /// The setting that names the issuer, for error messages.
    pub(crate) issuer_setting: &'a str,
    /// The token to exchange.
    pub(crate) subject_token: &'a str,
    /// Its type.
    pub(crate) subject_token_type: &'a str,
    /// The type of the new token.
    pub(crate) requested_token_type: &'a str,
}

/// Why an exchange failed.
#[derive(Debug)]
pub(crate) enum ExchangeError {
    /// The configuration or the response is not acceptable.
    Refused(String),
    /// The issuer returns no token.
    Failed(TokenRequestError),
}

impl ExchangeRequest<'_> {
    /// Exchanges the token.
    pub(crate) async fn send(
        &self,
        http: &HttpClient,
        client: &ClientIdentity,
        policy: AddressPolicy,
    ) -> Result<TokenResponse, ExchangeError> {
        let Self { endpoint, subject_token, .. } = *self;
        if !endpoint.starts_with("https://") {
            let got = printable(endpoint);
            return Err(ExchangeError::Refused(format!(
                "dex token endpoint must use HTTPS (got: {got})"
            )));
        }
        let mut fields = vec![
            ("grant_type", TOKEN_EXCHANGE),
            ("subject_token", subject_token),
            ("subject_token_type", self.subject_token_type),
            ("requested_token_type", self.requested_token_type),
            ("connector_id", self.connector_id),
            ("scope", self.scopes),
        ];
        fields.retain(|(_, value)| !value.is_empty());
        let endpoint = TokenEndpoint { url: endpoint, client, policy };
        let response = endpoint.request(http, &fields, &[subject_token]).await;
        let response = response.map_err(ExchangeError::Failed)?;
        self.check_issuer(&response)?;
        Ok(response)
    }

    /// Checks that the expected issuer issued the token, wherever its token endpoint is.
    fn check_issuer(&self, response: &TokenResponse) -> Result<(), ExchangeError> {
        let claims = unverified_claims(response.access_token.reveal());
        let Some(issuer) = claims.and_then(|claims| claims.iss) else { return Ok(()) };
        let expected = match self.expected_issuer {
            "" => self.endpoint.strip_suffix("/token").unwrap_or(self.endpoint),
            expected => expected,
        };
        if issuer.trim_end_matches('/') == expected.trim_end_matches('/') {
            return Ok(());
        }
        Err(ExchangeError::Refused(format!(
            "token issuer mismatch: expected \"{}\", got \"{}\". Check {}",
            printable(expected),
            printable(&issuer),
            self.issuer_setting
        )))
    }
}

/// Claims of a token whose signature is not checked. Use them only to refuse a token early.
#[derive(Debug, Deserialize)]
pub(crate) struct UnverifiedClaims {
    #[serde(default)]
    pub(crate) iss: Option<String>,
    #[serde(default)]
    pub(crate) sub: Option<String>,
    #[serde(default)]
    pub(crate) exp: Option<u64>,
}

/// Reads the claims of a token; `None` if it is not a JWT.
pub(crate) fn unverified_claims(token: &str) -> Option<UnverifiedClaims> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    serde_json::from_slice(&from_base64url(payload.trim_end_matches('='))?).ok()
}
