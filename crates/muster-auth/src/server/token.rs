//! Codes and refresh tokens to tokens; and tokens taken back, and told about.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde::Serialize;

use super::{
    Inner,
    authorize::Grant,
    fields::Fields,
    logins::{Issued, Token, access_key, refresh_key},
    reply::{self, Failure, Reply},
};
use crate::random;

/// How long it is remembered that a code was redeemed.
const REMEMBER: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

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
        fields: &Fields,
    ) -> Result<Reply, Failure> {
        let kind = fields.need("grant_type")?;
        if !matches!(kind, "authorization_code" | "refresh_token") {
            let message = "grant_type must be authorization_code or refresh_token";
            return Err(Failure { code: "unsupported_grant_type", ..Failure::request(message) });
        }
        let client = self.proven(headers, fields).await?;
        if let Some(resource) = fields.get("resource")
            && !self.is_resource(resource)
        {
            let failure = Failure::request("resource is not this server");
            return Err(Failure { code: "invalid_target", ..failure });
        }
        let issued = if kind == "refresh_token" {
            self.rotate(fields.need("refresh_token")?, &client.id, fields.get("scope")).await?
        } else {
            self.redeem(fields, &client.id).await?
        };
        Ok(reply::json(StatusCode::OK, &issued))
    }

    /// Tokens for a code. It works once; a second try ends what the first began.
    async fn redeem(&self, fields: &Fields, client: &str) -> Result<Issued, Failure> {
        let bad = || Failure::grant("the code is not valid");
        let code = fields.need("code")?;
        let verifier = fields.need("code_verifier")?;
        let Some(grant) = self.vault.take::<Grant>(&code_key(code)).await? else {
            if let Some(login) = self.vault.take::<String>(&redeemed_key(code)).await? {
                tracing::warn!("a code was used twice, and its login is ended");
                self.end(&login).await?;
            }
            return Err(bad());
        };
        self.vault.put(&redeemed_key(code), &grant.login, REMEMBER).await?;
        let fits = grant.client == client
            && fields.get("redirect_uri").is_none_or(|uri| uri == grant.redirect_uri)
            && (43..=128).contains(&verifier.len())
            && random::digest_of(verifier) == grant.challenge;
        if !fits {
            // Whoever has the code without the rest has taken it from someone.
            self.end(&grant.login).await?;
            return Err(bad());
        }
        let login = self.login(&grant.login).await?.ok_or_else(bad)?;
        self.issue(&login, client, grant.scope).await
    }

    /// `POST /oauth/revoke`. What is not there any more is as good as taken back.
    pub(super) async fn revoke(
        &self,
        headers: &HeaderMap,
        fields: &Fields,
    ) -> Result<Reply, Failure> {
        let client = self.proven(headers, fields).await?;
        let token = fields.need("token")?;
        for (key, whole) in [(refresh_key(token), true), (access_key(token), false)] {
            let Some(held) = self.vault.get::<Token>(&key).await? else { continue };
            if held.client != client.id {
                continue;
            }
            if whole {
                self.log_out(&held.login).await?;
            }
            self.vault.remove(&key).await?;
            self.cache.forget(&held.login);
        }
        Ok(reply::json(StatusCode::OK, &serde_json::Map::new()))
    }

    /// `POST /oauth/introspect`, for clients that can prove who they are.
    pub(super) async fn introspect(
        &self,
        headers: &HeaderMap,
        fields: &Fields,
    ) -> Result<Reply, Failure> {
        let client = self.proven(headers, fields).await?;
        if !client.is_confidential() {
            return Err(Failure::client("only clients with a secret may ask"));
        }
        let token = fields.need("token")?;
        let held: Option<Token> = match self.vault.get(&access_key(token)).await? {
            Some(held) => Some(held),
            None => self.vault.get(&refresh_key(token)).await?,
        };
        let held = held.filter(|held| held.until > self.clock.now());
        let login = match &held {
            Some(held) => self.login(&held.login).await?,
            None => None,
        };
        let (Some(held), Some(login)) = (held, login) else {
            return Ok(reply::json(StatusCode::OK, &Inactive { active: false }));
        };
        let active = Active {
            active: true,
            sub: login.subject,
            email: login.email,
            name: login.name,
            scope: held.scope,
            client_id: held.client,
            token_type: "Bearer",
            exp: held.until,
            iss: self.config.base_url.clone(),
        };
        Ok(reply::json(StatusCode::OK, &active))
    }
}
