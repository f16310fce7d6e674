//! Logins at the gateway: the authorization server, and the options of the HTTP transport that it protects.

use std::{convert::Infallible, sync::Arc};

use muster_auth::{
    client::{OAuthClient, SecretLocation},
    server::{self, AuthServer, ConfigError, OwnCallback},
};
use muster_config::settings::{AccessMode, OAuthServer};
use muster_core::secret_source::SecretSource;
use muster_engine::{
    store::{ConfigStore, Files},
    view::View,
};
use muster_mcp::http::HttpOptions;
use muster_net::TrustStore;
use tokio::sync::watch;

use crate::{
    access_rules::{self, UserLists},
    error::CommandError,
};

/// The authorization server, if the endpoint is protected.
pub(super) async fn of(
    config: &OAuthServer,
    files: &Files,
    mode: AccessMode,
    trust: TrustStore,
    (store, cluster): (&ConfigStore, Option<&dyn SecretSource>),
) -> Result<Option<AuthServer>, CommandError> {
    if !config.enabled {
        return Ok(None);
    }
    let folder = store.secrets();
    let secrets = SecretLocation { cluster, folder: Some(&folder) };
    let loaded = server::load(config, trust, secrets).await.map(|mut loaded| {
        loaded.server.provider.audiences = audiences(files);
        loaded.server.allowed = access_rules::allowed(&files.settings.access).into();
        // The acceptance tests use the gateway's own callback to log in.
        loaded.server.own_callback = match mode {
            AccessMode::Open => OwnCallback::Allowed,
            AccessMode::Private | AccessMode::Token => OwnCallback::Refused,
        };
        loaded
    });
    let started = loaded.and_then(AuthServer::start).map_err(|error| invalid(&error))?;
    Ok(Some(started))
}

/// The error for an unusable configuration.
pub(super) fn invalid(error: &ConfigError) -> CommandError {
    let text = error.to_string();
    let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
    let error = CommandError::new(format!("failed to initialize application: {message}"));
    if hint.is_empty() { error } else { error.hint(hint) }
}

/// The audiences to request for ID tokens, so that the servers that they are forwarded to accept them.
fn audiences(files: &Files) -> Vec<String> {
    let logins = files.servers.values().filter_map(|file| file.server.spec.auth.as_ref());
    let forwarded = logins.filter(|auth| auth.forward_token);
    let named = forwarded.flat_map(|auth| &auth.required_audiences);
    // Skip names with spaces, because an audience becomes part of a scope.
    let is_word =
        |name: &&String| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    named.filter(is_word).cloned().collect()
}

/// The options of HTTP. A protected gateway has a single path and host.
pub(super) fn options(logins: Option<&AuthServer>) -> HttpOptions {
    let Some(logins) = logins else { return HttpOptions::default() };
    HttpOptions {
        paths: vec!["/mcp".to_owned()],
        hosts: logins.host().into_iter().collect(),
        origins: logins.origins().to_vec(),
        pages: vec![Arc::new(logins.clone())],
        ..HttpOptions::default()
    }
}

/// Waits for token requests in flight, so that no refreshed token is lost at shutdown.
pub(super) async fn settle(logins: Option<&AuthServer>, client: Option<&OAuthClient>) {
    if let Some(logins) = logins {
        logins.drain().await;
    }
    if let Some(client) = client {
        client.drain().await;
    }
}

/// Discovers the identity provider, and updates the lists of users when the settings change. Never returns.
pub(super) async fn keep_up(
    logins: Option<&AuthServer>,
    lists: UserLists,
    view: watch::Receiver<Arc<View>>,
) -> Infallible {
    let discovery = async {
        if let Some(logins) = logins {
            logins.discover_provider().await;
        }
    };
    tokio::join!(discovery, lists.follow(view)).1
}
