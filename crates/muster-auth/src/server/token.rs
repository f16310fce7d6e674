//! The token, revocation and introspection endpoints.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::{
    Inner,
    authorize::CodeGrant,
    logins::{IssuedTokens, TokenRecord, access_key, refresh_key},
    params::Params,
    responses::{self, OAuthError, Reply},
};
use crate::{oauth::TOKEN_EXCHANGE, random};

/// How long a redeemed code is remembered to detect reuse.
const REDEEMED_TTL: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

pub(super) fn code_key(code: &str) -> String {
    format!("code:{}", random::digest_of(code))
}

fn redeemed_key(code: &str) -> String {
    format!("redeemed:{}", random::digest_of(code))
}

#[derive(Serialize)]
struct Inactive {
    active: bool,
}

#[derive(Serialize)]
struct Active {
    active: bool,
    sub: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    client_id: String,
    token_type: &'static str,
    exp: u64,
    iss: String,
}

impl Inner {
    /// `POST /oauth/token`.
    pub(super) async fn token(
        self: &Arc<Self>,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        let grant_type = params.require("grant_type")?;
        if grant_type == TOKEN_EXCHANGE {
            return self.exchange(headers, params).await;
        }
        if !matches!(grant_type, "authorization_code" | "refresh_token") {
            let message = "grant_type must be authorization_code or refresh_token";
            return Err(OAuthError {
                code: "unsupported_grant_type",
                ..OAuthError::request(message)
            });
        }
        let client = self.authenticate_client(headers, params).await?;
        if let Some(resource) = params.get("resource")
            && !self.is_resource(resource)
        {
            let error = OAuthError::request("resource is not this server");
            return Err(OAuthError { code: "invalid_target", ..error });
        }
        let issued = if grant_type == "refresh_token" {
            self.refresh(params.require("refresh_token")?, &client.id, params.get("scope")).await?
        } else {
            self.redeem(params, &client.id).await?
        };
        Ok(responses::json(StatusCode::OK, &issued))
    }

    /// Redeems a code, which can be used only once: a second use ends the login of the first.
    async fn redeem(&self, params: &Params, client: &str) -> Result<IssuedTokens, OAuthError> {
        let invalid = || OAuthError::grant("the code is not valid");
        let code = params.require("code")?;
        let verifier = params.require("code_verifier")?;
        let Some(grant) = self.vault.take::<CodeGrant>(&code_key(code)).await? else {
            if let Some(login) = self.vault.take::<String>(&redeemed_key(code)).await? {
                tracing::warn!("a code was used twice, its login is ended");
                self.end_login(&login).await?;
            }
            return Err(invalid());
        };
        self.vault.put(&redeemed_key(code), &grant.login, REDEEMED_TTL).await?;
        let matches = grant.client == client
            && params.get("redirect_uri").is_none_or(|uri| uri == grant.redirect_uri)
            && (43..=128).contains(&verifier.len())
            && random::digest_of(verifier) == grant.challenge;
        if !matches {
            // A sender that has the code but not the verifier or client has probably stolen the code.
            self.end_login(&grant.login).await?;
            return Err(invalid());
        }
        let login = self.login(&grant.login).await?.ok_or_else(invalid)?;
        self.issue(&login, client, grant.scope).await
    }

    /// `POST /oauth/revoke`. An unknown token counts as revoked.
    pub(super) async fn revoke(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        let client = self.authenticate_client(headers, params).await?;
        let token = params.require("token")?;
        for (key, is_refresh) in [(refresh_key(token), true), (access_key(token), false)] {
            let Some(record) = self.vault.get::<TokenRecord>(&key).await? else { continue };
            if record.client != client.id {
                continue;
            }
            if is_refresh {
                self.log_out(&record.login).await?;
            }
            self.vault.remove(&key).await?;
            self.tokens.evict_login(&record.login);
        }
        Ok(responses::json(StatusCode::OK, &serde_json::Map::new()))
    }

    /// `POST /oauth/introspect`, for confidential clients.
    pub(super) async fn introspect(
        &self,
        headers: &HeaderMap,
        params: &Params,
    ) -> Result<Reply, OAuthError> {
        let client = self.authenticate_client(headers, params).await?;
        if !client.is_confidential() {
            return Err(OAuthError::client("only confidential clients may introspect tokens"));
        }
        let token = params.require("token")?;
        let record: Option<TokenRecord> = match self.vault.get(&access_key(token)).await? {
            Some(record) => Some(record),
            None => self.vault.get(&refresh_key(token)).await?,
        };
        let record = record.filter(|record| record.expires > self.clock.now());
        let login = match &record {
            Some(record) => self.login(&record.login).await?,
            None => None,
        };
        let (Some(record), Some(login)) = (record, login) else {
            return Ok(responses::json(StatusCode::OK, &Inactive { active: false }));
        };
        let active = Active {
            active: true,
            sub: login.subject,
            email: login.email,
            name: login.name,
            scope: record.scope,
            client_id: record.client,
            token_type: "Bearer",
            exp: record.expires,
            iss: self.config.base_url.clone(),
        };
        Ok(responses::json(StatusCode::OK, &active))
    }
}
