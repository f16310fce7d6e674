//! Introduces the servers behind the gateway to the logins at them.

use std::{fs, sync::Arc};

use muster_auth::{
    client::{OAuthClient, OAuthClientOptions},
    clock::Clock,
    secret::Secret,
    server::AuthServer,
    store::{MemoryStore, Vault},
};
use muster_config::settings::{AccessMode, McpClient};
use muster_engine::store::ConfigStore;
use muster_net::{AddressPolicy, HttpClient, TrustStore, Url};

use crate::error::CommandError;

/// What logs people in at servers, if that is set up.
pub(super) fn of(
    said: &McpClient,
    logins: Option<&AuthServer>,
    mode: AccessMode,
    mut trust: TrustStore,
    store: &ConfigStore,
) -> Result<Option<Arc<OAuthClient>>, CommandError> {
    if !said.enabled {
        return Ok(None);
    }
    if said.public_url.is_empty() {
        tracing::warn!(
            "`aggregator.oauth.mcpClient` is enabled but has no `publicUrl`: nobody can log in to servers"
        );
        return Ok(None);
    }
    let failed = |text: String| {
        CommandError::new(format!("failed to initialize application: {text}"))
            .hint("see `aggregator.oauth.mcpClient` in config.yaml")
    };
    let usual = OAuthClientOptions::new(&said.public_url);
    let mut policy = usual.policy;
    if !said.ca_file.is_empty() {
        let pem = fs::read(&said.ca_file)
            .map_err(|err| failed(format!("cannot read `caFile` {}: {err}", said.ca_file)))?;
        trust = trust
            .with_pem(&pem)
            .map_err(|err| failed(format!("`caFile` {}: {err}", said.ca_file)))?;
        // Who has certificates of their own has a network of their own.
        policy = AddressPolicy::Private;
    }
    let options = OAuthClientOptions {
        client_id: said.client_id.clone(),
        client_secret: secret(said).map_err(failed)?.map(Secret::new),
        client_issuer: said.client_issuer.clone(),
        secrets: Some(store.root().join("secrets")),
        callback_path: or(&said.callback_path, &usual.callback_path),
        document_path: or(&said.cimd.path, &usual.document_path),
        scopes: or(&said.cimd.scopes, &usual.scopes),
        policy,
        browser_logins: logins.filter(|logins| binds_links(said, logins, mode)).cloned(),
        ..usual
    };
    if options.client_secret.is_some() && options.client_issuer.is_empty() {
        tracing::warn!(
            "`aggregator.oauth.mcpClient.clientSecret` is shown to every issuer that a server names: set \
             `clientIssuer` to the one that it was registered at"
        );
    }
    let clock = Clock::system();
    let vault = logins.map(AuthServer::vault);
    let vault =
        vault.unwrap_or_else(|| Vault::new(Arc::new(MemoryStore::new(clock.clone())), None));
    Ok(Some(OAuthClient::new(options, HttpClient::new(Arc::new(trust)), vault, clock)))
}

/// Whether login links are bound to the browsers of those who ask for them. Browsers send the cookie of a login to one
/// host only.
fn binds_links(said: &McpClient, logins: &AuthServer, mode: AccessMode) -> bool {
    let host = Url::parse(&said.public_url).ok().map(|url| url.host().to_owned());
    let is_same_host = logins.host() == host;
    if !is_same_host {
        tracing::warn!(
            "login links work in anybody's browser: `aggregator.oauth.mcpClient.publicUrl` and \
             `aggregator.oauth.server.baseUrl` have different hosts"
        );
    }
    is_same_host && mode == AccessMode::Private
}

/// The secret itself, or what its file holds.
fn secret(said: &McpClient) -> Result<Option<String>, String> {
    let (inline, file) = (said.client_secret.reveal(), &said.client_secret_file);
    if !inline.is_empty() || file.is_empty() {
        return Ok(Some(inline.to_owned()).filter(|secret| !secret.is_empty()));
    }
    let text = fs::read_to_string(file).map_err(|err| {
        format!("error resolving secret files: failed to read client secret from {file}: {err}")
    })?;
    Ok(Some(text.trim().to_owned()))
}

fn or(said: &str, usual: &str) -> String {
    if said.is_empty() { usual.to_owned() } else { said.to_owned() }
}
