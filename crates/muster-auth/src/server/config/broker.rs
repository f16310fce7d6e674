//! The configuration of the token exchange broker, checked.

use std::collections::BTreeMap;

use muster_config::settings::{BrokerSecretRef, OAuthServer};
use muster_core::server_auth::SecretRef;
use muster_net::AddressPolicy;

use super::{ConfigError, check_url};
use crate::{
    client::{SecretLocation, client_credentials},
    oauth::{ClientIdentity, DEFAULT_SCOPES},
    random,
};

/// The configuration of the broker: its clients, the audiences that they may request, and the issuers of each.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// The digests of the secrets of configured clients, by client id.
    pub clients: BTreeMap<String, String>,
    /// The audiences that each client may request.
    pub client_audiences: BTreeMap<String, Vec<String>>,
    /// The issuers of tokens, by audience.
    pub targets: BTreeMap<String, BrokerTargetConfig>,
    /// Which networks targets may be in.
    pub policy: AddressPolicy,
}

/// An issuer of tokens for one audience.
#[derive(Debug, Clone)]
pub struct BrokerTargetConfig {
    /// The URL of its token endpoint.
    pub token_endpoint: String,
    /// The issuer of its tokens; empty for the URL of the endpoint without `/token`.
    pub expected_issuer: String,
    /// The Dex connector that validates tokens; empty for none.
    pub connector_id: String,
    /// The scopes of its tokens.
    pub scopes: String,
    /// The gateway's own client at the issuer.
    pub client: ClientIdentity,
}

/// Checks the settings of the broker, and reads the secrets that they name. `None` if there are no targets.
pub(super) async fn load(
    settings: &OAuthServer,
    secrets: SecretLocation<'_>,
) -> Result<Option<BrokerConfig>, ConfigError> {
    let broker = &settings.token_exchange_broker;
    if broker.targets.is_empty() {
        return Ok(None);
    }
    if settings.trusted_issuers.is_empty() {
        return Err(ConfigError::BrokerWithoutIssuers);
    }
    let policy = match broker.allow_private_ip {
        true => AddressPolicy::Private,
        false => AddressPolicy::Public,
    };
    let mut targets = BTreeMap::new();
    for (audience, target) in &broker.targets {
        if target.dex_token_endpoint.is_empty() {
            return Err(ConfigError::BrokerTarget(audience.clone()));
        }
        check_url("tokenExchangeBroker.targets", &target.dex_token_endpoint, policy)?;
        let client = match credentials(&target.client_credentials_secret_ref, secrets).await? {
            Some(client) => client,
            None => ClientIdentity::public(String::new()),
        };
        let scopes = match target.scopes.trim() {
            "" => DEFAULT_SCOPES,
            scopes => scopes,
        };
        targets.insert(
            audience.clone(),
            BrokerTargetConfig {
                token_endpoint: target.dex_token_endpoint.clone(),
                expected_issuer: target.expected_issuer.clone(),
                connector_id: target.connector_id.clone(),
                scopes: scopes.to_owned(),
                client,
            },
        );
    }
    let mut clients = BTreeMap::new();
    for (id, client) in &broker.broker_clients {
        let credentials = credentials(&client.client_credentials_secret_ref, secrets).await?;
        let secret = credentials.and_then(|credentials| credentials.secret);
        let secret = secret.filter(|secret| !secret.reveal().is_empty());
        let secret = secret.ok_or_else(|| ConfigError::BrokerClient(id.clone()))?;
        clients.insert(id.clone(), random::digest_of(secret.reveal()));
    }
    Ok(Some(BrokerConfig {
        clients,
        client_audiences: broker.client_audiences.clone(),
        targets,
        policy,
    }))
}

/// Reads the client id and secret that a reference names; `None` if the reference is empty.
async fn credentials(
    reference: &BrokerSecretRef,
    secrets: SecretLocation<'_>,
) -> Result<Option<ClientIdentity>, ConfigError> {
    let BrokerSecretRef { name, namespace, client_id_key, client_secret_key } = reference.clone();
    if name.is_empty() {
        return Ok(None);
    }
    let reference = SecretRef { name, namespace, client_id_key, client_secret_key };
    let loaded = client_credentials::read(secrets, &reference).await;
    loaded.map(Some).map_err(|error| ConfigError::BrokerSecret(error.to_string()))
}
