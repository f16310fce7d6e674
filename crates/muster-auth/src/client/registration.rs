//! The gateway's identity at an issuer: a pre-registered client, its client metadata document, or a dynamic
//! registration.

use std::time::Duration;

use muster_core::logins::LoginError;
use muster_net::Url;

use super::OAuthClient;
use crate::{
    oauth::{
        ClientAuthMethod, ClientIdentity, IssuerMetadata, RegistrationRequest, register,
        same_issuer,
    },
    random::digest_of,
};

/// How long a dynamic registration is used before the gateway registers again.
const REGISTRATION_TTL: Duration = Duration::from_secs(90 * 24 * 60 * 60);

impl OAuthClient {
    /// The gateway's identity at an issuer.
    pub(super) async fn identity(
        &self,
        issuer: &IssuerMetadata,
        scope: &str,
    ) -> Result<ClientIdentity, LoginError> {
        let registered_at = self.options.client_issuer.as_str();
        let elsewhere = !registered_at.is_empty() && !same_issuer(registered_at, &issuer.issuer);
        // Credentials of one issuer must never be sent to another.
        let configured = if elsewhere { "" } else { self.options.client_id.as_str() };
        let by_document = configured.is_empty() || Url::parse(configured).is_ok();
        if !by_document {
            let secret = self.options.client_secret.clone();
            let has_secret = secret.is_some();
            let auth_method =
                if has_secret { ClientAuthMethod::best(issuer) } else { ClientAuthMethod::None };
            return Ok(ClientIdentity { id: configured.to_owned(), secret, auth_method });
        }
        let document =
            if configured.is_empty() { self.options.document_url() } else { configured.to_owned() };
        if issuer.client_id_metadata_document_supported && document.starts_with("https://") {
            return Ok(ClientIdentity::public(document));
        }
        match &issuer.registration_endpoint {
            Some(endpoint) => self.registered(issuer, endpoint, scope).await,
            None => Ok(ClientIdentity::public(document)),
        }
    }

    /// Registers at an issuer, or returns the cached registration.
    async fn registered(
        &self,
        issuer: &IssuerMetadata,
        endpoint: &str,
        scope: &str,
    ) -> Result<ClientIdentity, LoginError> {
        let redirect = self.options.callback_url();
        let key = registration_key(&issuer.issuer, &redirect);
        match self.vault.get(&key).await {
            Ok(Some(identity)) => return Ok(identity),
            Ok(None) => (),
            Err(error) => tracing::warn!("cannot load the registration at an issuer: {error}"),
        }
        let mut request = RegistrationRequest::new(super::NAME, &redirect);
        request.scope = scope;
        if issuer.token_endpoint_auth_methods_supported.is_some() {
            request.token_endpoint_auth_method = ClientAuthMethod::best(issuer).name();
        }
        let (identity, expires) =
            register(&self.http, self.options.policy, endpoint, &request).await?;
        let ttl = expires.map_or(REGISTRATION_TTL, |expires| {
            Duration::from_secs(expires.saturating_sub(self.clock.now()))
        });
        if let Err(error) = self.vault.put(&key, &identity, ttl).await {
            tracing::warn!("cannot store the registration at an issuer: {error}");
        }
        Ok(identity)
    }

    /// Drops a cached registration that the issuer no longer knows.
    pub(super) async fn drop_registration(&self, issuer: &str) {
        let key = registration_key(issuer, &self.options.callback_url());
        if let Err(error) = self.vault.remove(&key).await {
            tracing::warn!("cannot remove the registration at an issuer: {error}");
        }
    }
}

fn registration_key(issuer: &str, redirect: &str) -> String {
    format!("backend/client/{}", digest_of(&format!("{issuer} {redirect}")))
}
