//! Introduces the transport to the logins: neither knows the other.

use std::{convert::Infallible, sync::Arc};

use muster_auth::server::{self, AuthServer};
use muster_core::manifest::settings::OAuthServer;
use muster_mcp::http::HttpOptions;

use crate::error::CommandError;

/// What protects the endpoint, if anything does.
pub(super) fn of(said: &OAuthServer) -> Result<Option<AuthServer>, CommandError> {
    if !said.enabled {
        return Ok(None);
    }
    let started = server::load(said).and_then(AuthServer::start).map_err(|err| {
        let text = err.to_string();
        let (message, hint) = text.split_once("\nhint: ").unwrap_or((&text, ""));
        let error = CommandError::new(format!("failed to initialize application: {message}"));
        if hint.is_empty() { error } else { error.hint(hint) }
    })?;
    Ok(Some(started))
}

/// How HTTP is served with it. A protected gateway has one address and no other.
pub(super) fn options(logins: Option<&AuthServer>) -> HttpOptions {
    let Some(logins) = logins else { return HttpOptions::default() };
    HttpOptions {
        paths: vec!["/mcp".to_owned()],
        hosts: vec![logins.host().to_owned()],
        guard: Some(Arc::new(logins.clone())),
        pages: vec![Arc::new(logins.clone())],
        ..HttpOptions::default()
    }
}

/// Looks for the identity provider, beside everything else.
pub(super) async fn keep_up(logins: Option<&AuthServer>) -> Infallible {
    if let Some(logins) = logins {
        logins.find_provider().await;
    }
    std::future::pending().await
}
