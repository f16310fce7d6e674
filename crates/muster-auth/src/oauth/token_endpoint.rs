//! Requests to an issuer's token endpoint.

use http::StatusCode;
use muster_net::{AddressPolicy, HttpClient, HttpRequest, HttpResponse};
use serde::Deserialize;
use thiserror::Error;

use super::ClientIdentity;
use crate::{secret::Secret, text::printable};

/// A token endpoint, and the client that uses it.
#[derive(Debug, Clone, Copy)]
pub struct TokenEndpoint<'a> {
    /// Its URL.
    pub url: &'a str,
    /// The client.
    pub client: &'a ClientIdentity,
    /// Which networks it may be in.
    pub policy: AddressPolicy,
}

/// A successful token response.
#[derive(Debug)]
pub struct TokenResponse {
    /// The access token.
    pub access_token: Secret,
    /// The refresh token.
    pub refresh_token: Option<Secret>,
    /// The ID token.
    pub id_token: Option<Secret>,
    /// The granted scopes, if they differ from the requested ones.
    pub scope: Option<String>,
    /// The lifetime of the access token in seconds, if the issuer names one.
    pub expires_in: Option<u64>,
}

/// Why a token request failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TokenRequestError {
    /// The code or refresh token is no longer valid.
    #[error("{0}")]
    Grant(String),
    /// The issuer does not know the client.
    #[error("{0}")]
    Client(String),
    /// Another error that a retry does not change.
    #[error("{0}")]
    Other(String),
    /// The issuer cannot be reached or is overloaded: retry later.
    #[error("{0}")]
    Unavailable(String),
}

#[derive(Deserialize)]
struct Success {
    access_token: String,
    token_type: Option<String>,
    expires_in: Option<serde_json::Value>,
    refresh_token: Option<String>,
    id_token: Option<String>,
    scope: Option<String>,
}

#[derive(Deserialize, Default)]
struct Failure {
    #[serde(default)]
    error: String,
    #[serde(default)]
    error_description: String,
}

impl TokenEndpoint<'_> {
    /// Requests tokens with the fields of a grant. `secrets` are redacted from the issuer's error texts.
    pub async fn request(
        &self,
        http: &HttpClient,
        fields: &[(&str, &str)],
        secrets: &[&str],
    ) -> Result<TokenResponse, TokenRequestError> {
        let mut fields = fields.to_vec();
        let credentials = self.client.authenticate(&mut fields);
        let mut request = HttpRequest::form(self.url, self.policy, &fields);
        let mut encoded = String::new();
        if let Some((name, value)) = credentials {
            request = request.header(name, &value);
            value.trim_start_matches("Basic ").clone_into(&mut encoded);
        }
        let response = http.send(request).await;
        let response = response.map_err(|err| TokenRequestError::Unavailable(err.to_string()))?;
        let own = self.client.secret.as_ref().map(|secret| secret.reveal().as_str());
        let secrets: Vec<&str> = secrets.iter().copied().chain(own).chain([&*encoded]).collect();
        parse(&response, &secrets)
    }
}

fn parse(response: &HttpResponse, secrets: &[&str]) -> Result<TokenResponse, TokenRequestError> {
    let status = response.status;
    if status != StatusCode::OK {
        let reason = format!("token request failed: {}", refusal(response, secrets));
        let code = serde_json::from_slice::<Failure>(&response.body).unwrap_or_default().error;
        return Err(match code.as_str() {
            "temporarily_unavailable" | "server_error" | "slow_down" => {
                TokenRequestError::Unavailable(reason)
            }
            _ if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS => {
                TokenRequestError::Unavailable(reason)
            }
            "invalid_grant" | "invalid_target" | "invalid_scope" => {
                TokenRequestError::Grant(reason)
            }
            "invalid_client" | "unauthorized_client" => TokenRequestError::Client(reason),
            _ => TokenRequestError::Other(reason),
        });
    }
    let invalid =
        |what: &str| TokenRequestError::Other(format!("the issuer's token response {what}"));
    let success: Success =
        serde_json::from_slice(&response.body).map_err(|_| invalid("contains no token"))?;
    if success.access_token.is_empty() {
        return Err(invalid("contains no token"));
    }
    let kind = success.token_type.as_deref().unwrap_or("bearer");
    // `N_A` is the type of an exchanged ID token (RFC 8693).
    if !kind.eq_ignore_ascii_case("bearer") && !kind.eq_ignore_ascii_case("n_a") {
        return Err(invalid("has an unknown token type"));
    }
    if !success.access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("contains a token that cannot be sent in a header"));
    }
    let secret = |token: Option<String>| token.filter(|token| !token.is_empty()).map(Secret::new);
    Ok(TokenResponse {
        access_token: Secret::new(success.access_token),
        refresh_token: secret(success.refresh_token),
        id_token: secret(success.id_token),
        scope: success.scope,
        expires_in: success.expires_in.as_ref().and_then(seconds),
    })
}

/// Reads a number of seconds. Some issuers write it as a string.
fn seconds(value: &serde_json::Value) -> Option<u64> {
    match value {
        serde_json::Value::Number(number) => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a fraction of a second does not matter, and it is not negative"
            )]
            let whole = number.as_f64().filter(|seconds| *seconds >= 0.0).map(|float| float as u64);
            number.as_u64().or(whole)
        }
        serde_json::Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// Formats the error that an issuer reports, with the secrets that were sent to it redacted.
pub(crate) fn refusal(response: &HttpResponse, secrets: &[&str]) -> String {
    let Failure { error, error_description } =
        serde_json::from_slice(&response.body).unwrap_or_default();
    let redacted = |text: &str| {
        let secrets = secrets.iter().filter(|secret| !secret.is_empty());
        let redact = |text: String, secret: &&str| text.replace(*secret, "[REDACTED]");
        printable(&secrets.fold(text.to_owned(), redact))
    };
    match (redacted(&error), redacted(&error_description)) {
        (error, _) if error.is_empty() => format!("status {}", response.status.as_u16()),
        (error, description) if description.is_empty() => error,
        (error, description) => format!("{error} - {description}"),
    }
}
