//! The OAuth configuration of an instance.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::files::FileContext;
use crate::oauth::config::GuardConfig;

/// The CA certificate of the mock providers.
pub(super) fn ca_file(context: &FileContext<'_>) -> PathBuf {
    context.dir.join("muster").join("mock-oauth-ca.pem")
}

/// `aggregator.oauth`, if there are providers.
pub(super) fn section(context: &FileContext<'_>) -> Option<Value> {
    if context.providers.is_empty() {
        return None;
    }
    let base = format!("http://localhost:{}", context.port);
    let ca = context.providers.ca_pem().map(|_| ca_file(context).display().to_string());
    let with_ca = |mut section: Value| {
        if let (Some(section), Some(ca)) = (section.as_object_mut(), &ca) {
            section.insert("caFile".to_owned(), ca.as_str().into());
        }
        section
    };
    let client = json!({
        "enabled": true, "publicUrl": base, "callbackPath": "/oauth/proxy/callback",
    });
    let mut section = json!({"mcpClient": with_ca(client)});
    if let (Some(idp), Some(section)) = (context.providers.muster(), section.as_object_mut()) {
        let idp = idp.state();
        let dex = json!({
            "issuerUrl": idp.issuer(),
            "clientId": idp.config().client_id,
            "clientSecret": idp.config().client_secret.clone().unwrap_or_default(),
        });
        let trusted = context.trusted_issuers.iter().filter_map(|trusted| {
            let issuer = context.providers.get(&trusted.provider)?.state().issuer().to_owned();
            let mut settings = trusted.settings.clone();
            settings.insert("jwksUrl".to_owned(), format!("{issuer}/jwks").into());
            settings.insert("issuer".to_owned(), issuer.into());
            settings.insert("allowPrivateIPJWKS".to_owned(), true.into());
            Some(Value::Object(settings))
        });
        let trusted: Vec<Value> = trusted.collect();
        let mut server = json!({
            "enabled": true,
            "baseUrl": base,
            "provider": "dex",
            "dex": with_ca(dex),
            "storage": {"type": "memory"},
            "allowLocalhostRedirectURIs": true,
            "allowPublicClientRegistration": true,
        });
        if let Some(server) = server.as_object_mut().filter(|_| !trusted.is_empty()) {
            server.insert("trustedIssuers".to_owned(), trusted.into());
            server.insert("resourceIdentifier".to_owned(), base.as_str().into());
        }
        section.insert("server".to_owned(), server);
    }
    Some(section)
}

/// `spec.auth` of a server, if it is not empty.
pub(super) fn auth(guard: &GuardConfig, context: &FileContext<'_>) -> Option<Value> {
    let mut auth = Map::new();
    if guard.forward_token {
        auth.insert("forwardToken".to_owned(), true.into());
    }
    if !guard.required_audiences.is_empty() {
        auth.insert("requiredAudiences".to_owned(), json!(guard.required_audiences));
    }
    if let Some(exchange) = &guard.exchange {
        let provider = exchange.provider.as_deref().and_then(|name| context.providers.get(name));
        let issuer = provider.map(|provider| provider.state().issuer());
        let endpoint = issuer.map(|issuer| format!("{issuer}/token"));
        let pairs = [
            ("dexTokenEndpoint", endpoint.or_else(|| exchange.endpoint.clone())),
            ("connectorId", exchange.connector.clone()),
            ("scopes", exchange.scopes.clone()),
            ("expectedIssuer", exchange.expected_issuer.clone()),
        ];
        let mut section = Map::from_iter([("enabled".to_owned(), Value::Bool(true))]);
        for (key, value) in pairs {
            section.extend(value.map(|value| (key.to_owned(), Value::String(value))));
        }
        auth.insert("tokenExchange".to_owned(), section.into());
    }
    (!auth.is_empty()).then(|| auth.into())
}

/// The variables that files may refer to.
pub(super) fn variables(context: &FileContext<'_>) -> Map<String, Value> {
    let oauth = context.providers.iter().map(|(name, provider)| {
        let (core, issuer) = (provider.state(), provider.state().issuer());
        let about = json!({
            "issuer_url": issuer,
            "token_endpoint": format!("{issuer}/token"),
            "port": provider.port().to_string(),
            "client_id": core.config().client_id,
            "client_secret": core.config().client_secret.clone().unwrap_or_default(),
        });
        (name.to_owned(), about)
    });
    let servers = context.urls.iter().map(|(name, url)| (name.clone(), json!({"url": url})));
    let instance = json!({
        "url": format!("http://localhost:{}", context.port),
        "port": context.port.to_string(),
        "config_path": context.dir.join("muster").display().to_string(),
        "ca_file": ca_file(context).display().to_string(),
    });
    Map::from_iter([
        ("oauth".to_owned(), Value::Object(oauth.collect())),
        ("servers".to_owned(), Value::Object(servers.collect())),
        ("instance".to_owned(), instance),
    ])
}
