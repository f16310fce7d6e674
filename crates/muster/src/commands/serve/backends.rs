//! The gateway as an OAuth client of the servers behind it.

use std::{fs, sync::Arc};

use muster_auth::{
    client::{OAuthClient, OAuthClientOptions, PostLoginRedirects},
    clock::Clock,
    secret::Secret,
    server::AuthServer,
    store::{MemoryStore, Vault},
};
use muster_config::settings::{AccessMode, McpClient};
use muster_core::secret_source::SecretSource;
use muster_engine::store::ConfigStore;
use muster_net::{AddressPolicy, HttpClient, TrustStore, Url};
use muster_shared::Replica;

use super::replicas;
use crate::error::CommandError;

/// The OAuth client for logins at servers, if it is enabled.
pub(super) fn of(
    config: &McpClient,
    (logins, replica): (Option<&AuthServer>, Option<&Replica>),
    mode: AccessMode,
    mut trust: TrustStore,
    (store, cluster): (&ConfigStore, Option<Arc<dyn SecretSource>>),
) -> Result<Option<Arc<OAuthClient>>, CommandError> {
    if !config.enabled {
        return Ok(None);
    }
    if config.public_url.is_empty() {
        tracing::warn!(
            "`aggregator.oauth.mcpClient` is enabled but has no `publicUrl`: users cannot log in to servers"
        );
        return Ok(None);
    }
    let failed = |text: String| {
        CommandError::new(format!("failed to initialize application: {text}"))
            .hint("see `aggregator.oauth.mcpClient` in config.yaml")
    };
    let defaults = OAuthClientOptions::new(&config.public_url);
    let mut policy = defaults.policy;
    if !config.ca_file.is_empty() {
        let pem = fs::read(&config.ca_file)
            .map_err(|err| failed(format!("cannot read `caFile` {}: {err}", config.ca_file)))?;
        trust = trust
            .with_pem(&pem)
            .map_err(|err| failed(format!("`caFile` {}: {err}", config.ca_file)))?;
        // A private CA implies servers in a private network, so allow private addresses.
        policy = AddressPolicy::Private;
    }
    let options = OAuthClientOptions {
        client_id: config.client_id.clone(),
        client_secret: secret(config).map_err(failed)?.map(Secret::new),
        client_issuer: config.client_issuer.clone(),
        secrets: Some(store.secrets()),
        cluster,
        callback_path: or(&config.callback_path, &defaults.callback_path),
        document_path: or(&config.cimd.path, &defaults.document_path),
        scopes: or(&config.cimd.scopes, &defaults.scopes),
        policy,
        own_browsers_only: logins.is_none() && mode != AccessMode::Open,
        browser_logins: logins.filter(|logins| binds_links(config, logins, mode)).cloned(),
        redirects: PostLoginRedirects::new(&config.post_login_redirect_allowlist)
            .map_err(|error| failed(format!("`postLoginRedirectAllowlist`: {error}")))?,
        ..defaults
    };
    if options.client_secret.is_some() && options.client_issuer.is_empty() {
        tracing::warn!(
            "`aggregator.oauth.mcpClient.clientSecret` is sent to every issuer that a server names: set \
             `clientIssuer` to the issuer that it is registered at"
        );
    }
    let clock = Clock::system();
    let vault = vault(logins, replica, &clock);
    Ok(Some(OAuthClient::new(options, HttpClient::new(Arc::new(trust)), vault, clock)))
}

/// The storage of logins at servers: the storage of logins at the gateway if there is one, else the shared storage of
/// replicas, else the memory of this process.
fn vault(logins: Option<&AuthServer>, replica: Option<&Replica>, clock: &Clock) -> Vault {
    match (logins, replica) {
        (Some(logins), _) => logins.vault(),
        (None, Some(replica)) => replicas::vault(replica),
        (None, None) => Vault::new(Arc::new(MemoryStore::new(clock.clone())), None),
    }
}

/// Whether login links are bound to the browser of the user who requested them. That requires that `publicUrl` and
/// `baseUrl` have the same host, because a browser sends the cookie of a login to one host only.
fn binds_links(config: &McpClient, logins: &AuthServer, mode: AccessMode) -> bool {
    let host = Url::parse(&config.public_url).ok().map(|url| url.host().to_owned());
    let is_same_host = logins.host() == host;
    if !is_same_host {
        tracing::warn!(
            "login links work in anybody's browser: `aggregator.oauth.mcpClient.publicUrl` and \
             `aggregator.oauth.server.baseUrl` have different hosts"
        );
    }
    is_same_host && mode != AccessMode::Open
}

/// Returns the configured secret, or reads it from its file.
fn secret(config: &McpClient) -> Result<Option<String>, String> {
    let (inline, file) = (config.client_secret.reveal(), &config.client_secret_file);
    if !inline.is_empty() || file.is_empty() {
        return Ok(Some(inline.to_owned()).filter(|secret| !secret.is_empty()));
    }
    let text = fs::read_to_string(file).map_err(|err| {
        format!("error resolving secret files: failed to read client secret from {file}: {err}")
    })?;
    Ok(Some(text.trim().to_owned()))
}

fn or(config: &str, defaults: &str) -> String {
    if config.is_empty() { defaults.to_owned() } else { config.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_auth::clock::Clock;
    use muster_shared::{MemoryShared, Replica};

    use super::vault;

    #[tokio::test]
    async fn replicas_without_logins_of_their_own_share_the_logins_at_servers() {
        let clock = Clock::system();
        let state = Arc::new(MemoryShared::new(clock.clone()));
        let replicas = [(); 2].map(|()| Replica::new(Arc::<MemoryShared>::clone(&state)).unwrap());
        let [one, other] = replicas.map(|replica| vault(None, Some(&replica), &clock));
        one.put("grant", &"token", std::time::Duration::from_secs(60)).await.unwrap();
        assert_eq!(other.get::<String>("grant").await.unwrap().as_deref(), Some("token"));
    }
}
