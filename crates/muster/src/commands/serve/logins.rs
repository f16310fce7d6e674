//! Logins at the gateway: the authorization server, and the options of the HTTP transport that it protects.

use std::{convert::Infallible, sync::Arc};

use muster_auth::{
    client::OAuthClient,
    principal_list::PrincipalList,
    server::{self, AuthServer},
};
use muster_config::settings::OAuthServer;
use muster_engine::store::Files;
use muster_mcp::http::HttpOptions;
use muster_net::TrustStore;

use crate::error::CommandError;

/// The authorization server, if the endpoint is protected.
pub(super) fn of(
    config: &OAuthServer,
    files: &Files,
    trust: TrustStore,
) -> Result<Option<AuthServer>, CommandError> {
    if !config.enabled {
        return Ok(None);
    }
    let loaded = server::load(config, trust).map(|mut loaded| {
        loaded.server.provider.audiences = audiences(files);
        loaded.server.allowed = allowed(files);
        loaded
    });
    let started = loaded.and_then(AuthServer::start).map_err(|err| {
        let text = err.to_string();
        let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        let error = CommandError::new(format!("failed to initialize application: {message}"));
        if hint.is_empty() { error } else { error.hint(hint) }
    })?;
    Ok(Some(started))
}

/// The users who may log in.
fn allowed(files: &Files) -> PrincipalList {
    let access = &files.settings.access;
    PrincipalList {
        users: access.allowed_users.clone(),
        groups: access.allowed_groups.clone(),
        domains: access.allowed_domains.clone(),
    }
}

/// The audiences that ID tokens need, so that the servers they are forwarded to accept them.
fn audiences(files: &Files) -> Vec<String> {
    let logins = files.servers.values().filter_map(|file| file.server.spec.auth.as_ref());
    let forwarded = logins.filter(|auth| auth.forward_token);
    let named = forwarded.flat_map(|auth| &auth.required_audiences);
    // An audience becomes part of a scope, which has no spaces.
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

/// Waits for token requests in flight, so that no refreshed token is lost.
pub(super) async fn settle(logins: Option<&AuthServer>, client: Option<&OAuthClient>) {
    if let Some(logins) = logins {
        logins.drain().await;
    }
    if let Some(client) = client {
        client.drain().await;
    }
}

/// Discovers the identity provider in the background.
pub(super) async fn keep_up(logins: Option<&AuthServer>) -> Infallible {
    if let Some(logins) = logins {
        logins.discover_provider().await;
    }
    std::future::pending().await
}
