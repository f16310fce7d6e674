//! The token exchange broker (RFC 8693): a client presents a token of a trusted issuer and receives a token of the
//! issuer that is configured for the audience.
//!
//! **Invariant:** the gateway signs no tokens. Every token that it returns was issued by a configured issuer.

use http::{HeaderMap, StatusCode};
use muster_core::credentials::Principal;
use serde::Serialize;

use super::{
    BrokerConfig, Inner,
    authenticate::not_allowed,
    clients::RegisteredClient,
    params::Params,
    provider::Identity,
    responses::{self, OAuthError, Reply},
};
use crate::{
    jwks::JwksError,
    jwt::Jwt,
    oauth::{ACCESS_TOKEN, ExchangeError, ExchangeRequest, ID_TOKEN, TokenRequestError},
    text::printable,
};

/// The type of any JWT.
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

#[derive(Serialize)]
struct ExchangedTokenResponse<'a> {
    access_token: &'a str,
    issued_token_type: &'a str,
    token_type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_in: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<&'a str>,
}

impl Inner {
    /// `POST /oauth/token` with the grant type of token exchange.
    pub(super) async fn exchange(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        // Without a target, the gateway would have to sign a token itself.
        let (Some(broker), Some(audience)) = (&self.config.broker, params.get("audience")) else {
            return Err(OAuthError::grant("the gateway signs no tokens of its own"));
        };
        let client = self.authenticate_client(headers, params).await?;
        if !client.is_confidential() {
            return Err(OAuthError::client("only confidential clients may exchange tokens"));
        }
        let target = allowed_target(broker, &client, audience)?;
        if params.get("actor_token").is_some() {
            let text =
                "actor_token is not supported: send a subject token that names the actor in `act`";
            return Err(OAuthError::request(text));
        }
        let subject_token_type =
            token_type(params, "subject_token_type", &[JWT, ID_TOKEN, ACCESS_TOKEN])?;
        let requested_token_type =
            token_type(params, "requested_token_type", &[ID_TOKEN, ACCESS_TOKEN])?;
        let subject_token = params.require("subject_token")?;
        let user = self.subject(subject_token).await?;
        let request = ExchangeRequest {
            endpoint: &target.token_endpoint,
            connector_id: &target.connector_id,
            scopes: &target.scopes,
            expected_issuer: &target.expected_issuer,
            issuer_setting: "expectedIssuer of the target in tokenExchangeBroker.targets",
            subject_token,
            // Dex does not know the generic JWT type: declare such a token as an ID token.
            subject_token_type: if subject_token_type == JWT {
                ID_TOKEN
            } else {
                subject_token_type
            },
            requested_token_type,
        };
        let response = request.send(&self.http, &target.client, broker.policy).await;
        let response = response.map_err(|error| failed(audience, error))?;
        tracing::info!(
            "client {} exchanged a token of {} for one for {}",
            printable(&client.id),
            printable(&user),
            printable(audience)
        );
        Ok(responses::json(
            StatusCode::OK,
            &ExchangedTokenResponse {
                access_token: response.access_token.reveal(),
                issued_token_type: requested_token_type,
                token_type: "Bearer",
                expires_in: response.expires_in,
                scope: response.scope.as_deref(),
            },
        ))
    }

    /// Verifies a token of a trusted issuer and returns its user, if they may use the gateway.
    async fn subject(&self, token: &str) -> Result<String, OAuthError> {
        let invalid = || OAuthError::grant("the subject token is not valid");
        let jwt = Jwt::parse(token).ok_or_else(invalid)?;
        let issuer = jwt.unverified_issuer().trim_end_matches('/').to_owned();
        let claims = match self.trusted_claims(&issuer, token).await.ok_or_else(invalid)? {
            Ok(claims) => claims,
            Err(JwksError::Token(reason)) => {
                tracing::info!(
                    "a subject token of `{}` is not valid: {reason}",
                    printable(&issuer)
                );
                return Err(invalid());
            }
            Err(err @ (JwksError::Fetch(_) | JwksError::Malformed | JwksError::BackingOff)) => {
                tracing::warn!("{err}");
                return Err(OAuthError::unavailable("the issuer of the token is not available"));
            }
        };
        let Identity { subject, email, groups, .. } = claims.into();
        let id = Principal::id_of(&issuer, &subject);
        match self.config.allows(&id, email.as_deref(), &groups) {
            true => Ok(id.to_string()),
            false => Err(not_allowed(&id, email.as_deref())),
        }
    }
}

/// Finds the target of an audience, if the client may request it.
fn allowed_target<'a>(
    broker: &'a BrokerConfig,
    client: &RegisteredClient,
    audience: &str,
) -> Result<&'a super::BrokerTargetConfig, OAuthError> {
    let audiences = broker.client_audiences.get(&client.id);
    let is_allowed = audiences.is_some_and(|allowed| allowed.iter().any(|one| one == audience));
    // The same error for both cases, so that a client cannot discover the targets of others.
    broker.targets.get(audience).filter(|_| is_allowed).ok_or_else(|| {
        let text = "the audience is unknown, or not one of this client's";
        OAuthError::new(StatusCode::BAD_REQUEST, "invalid_target", text)
    })
}

/// Reads a parameter that must name one of the `known` token types. Defaults to an ID token.
fn token_type<'a>(params: &'a Params, name: &str, known: &[&str]) -> Result<&'a str, OAuthError> {
    match params.get(name) {
        None => Ok(ID_TOKEN),
        Some(kind) if known.contains(&kind) => Ok(kind),
        Some(_) => Err(OAuthError::request(format!("{name} must be one of {}", known.join(", ")))),
    }
}

fn failed(audience: &str, error: ExchangeError) -> OAuthError {
    let audience = printable(audience);
    match error {
        ExchangeError::Failed(TokenRequestError::Unavailable(reason)) => {
            tracing::warn!("the issuer of tokens for {audience} is not available: {reason}");
            OAuthError::unavailable("the issuer of the audience is not available")
        }
        // The configuration is at fault, not the subject token: another token would not help.
        ExchangeError::Failed(TokenRequestError::Client(reason))
        | ExchangeError::Refused(reason) => {
            tracing::error!("the broker is not configured for {audience}: {reason}");
            let text = "the gateway is not configured for the issuer of the audience";
            OAuthError::new(StatusCode::BAD_GATEWAY, "server_error", text)
        }
        ExchangeError::Failed(
            TokenRequestError::Grant(reason) | TokenRequestError::Other(reason),
        ) => {
            tracing::warn!("no token for {audience}: {reason}");
            OAuthError::grant("the issuer of the audience does not accept the subject token")
        }
    }
}
