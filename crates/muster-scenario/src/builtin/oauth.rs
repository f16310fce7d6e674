//! Built-in tools that inspect and change mock identity providers.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{BuiltinResult, optional, required, user};
use crate::{
    context::ScenarioContext,
    duration,
    mock::fault::Fault,
    oauth::{provider_state::ProviderState, records::ProviderEndpoint},
    scenario::ScenarioServer,
};

/// The provider of this name, or the one whose tokens an MCP server of this name accepts.
pub(super) fn provider(
    context: &ScenarioContext,
    name: &str,
) -> Result<Arc<ProviderState>, String> {
    let providers = context.instance.providers();
    let guarded = context.instance.setup().mcp_servers.iter().find(|server| server.name == name);
    let behind =
        guarded.and_then(ScenarioServer::guard).and_then(|guard| guard.provider.as_deref());
    let found = providers.get(name).or_else(|| providers.get(behind?));
    found
        .map(|provider| Arc::clone(provider.state()))
        .ok_or_else(|| format!("mock OAuth server '{name}' not found"))
}

/// The named provider, or all of them.
fn chosen(
    context: &ScenarioContext,
    args: &Map<String, Value>,
) -> Result<Vec<Arc<ProviderState>>, String> {
    if let Some(name) = optional(args, "server") {
        return Ok(vec![provider(context, name)?]);
    }
    let all = context.instance.providers().iter();
    let all: Vec<_> = all.map(|(_, provider)| Arc::clone(provider.state())).collect();
    if all.is_empty() { Err("the scenario has no mock OAuth server".to_owned()) } else { Ok(all) }
}

pub(super) fn info(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let about = |core: &ProviderState| {
        let port = core.origin().rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        json!({
            "success": true,
            "name": core.config().name,
            "port": port,
            "issuer_url": core.issuer(),
            "log": core.log(),
        })
    };
    if let Some(name) = optional(args, "server") {
        return Ok(about(&*provider(context, name)?));
    }
    let all = context.instance.providers().iter();
    let all: Map<String, Value> =
        all.map(|(name, provider)| (name.to_owned(), about(provider.state()))).collect();
    Ok(json!({"success": true, "oauth_servers": all}))
}

pub(super) fn inject(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let (server, token) = (required(args, "server")?, required(args, "token")?);
    let core = provider(context, server)?;
    let scope = optional(args, "scope").unwrap_or_default();
    let lifetime = args.get("expires_in").and_then(Value::as_f64);
    let lifetime = match lifetime {
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| "expires_in must be a number of seconds".to_owned())?,
        None => core.config().lifetime,
    };
    core.inject(token, &context.identity(), scope, lifetime);
    Ok(json!({
        "success": true,
        "server": server,
        "message": format!("Injected a token for '{server}'"),
    }))
}

pub(super) fn mint(context: &mut ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let core = provider(context, required(args, "server")?)?;
    if let Some(name) = optional(args, "name") {
        required(args, "sub")?;
        let audience = format!("http://localhost:{}", context.instance.port());
        let mut claims = Map::from_iter([("aud".to_owned(), Value::from(audience))]);
        for key in ["sub", "iss", "aud", "email", "email_verified", "groups", "act"] {
            claims.extend(args.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        let token = core.mint_jwt(optional(args, "typ"), &claims);
        context.tokens.insert(name.to_owned(), token);
        let message = format!("Minted the token '{name}'");
        return Ok(json!({"success": true, "name": name, "message": message}));
    }
    let identity = user::identity("minted", args).unwrap_or_else(|| context.identity());
    let minted = core.mint(&identity, optional(args, "scope").unwrap_or_default());
    Ok(json!({
        "success": true,
        "access_token": minted.access,
        "id_token": minted.id,
        "refresh_token": minted.refresh,
        "scope": minted.scope,
        "expires_in": minted.lifetime.as_secs(),
    }))
}

pub(super) fn advance(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let text = required(args, "duration")?;
    let by =
        duration::parse(text).ok_or_else(|| format!("`{text}` is not a duration such as `30s`"))?;
    let named = optional(args, "server").is_some();
    let mut advanced = Vec::new();
    for core in chosen(context, args)? {
        let name = &core.config().name;
        if core.advance(by) {
            advanced.push(name.clone());
        } else if named {
            return Err(format!("mock OAuth server '{name}' does not have use_mock_clock"));
        }
    }
    if advanced.is_empty() {
        return Err("no mock OAuth server has use_mock_clock".to_owned());
    }
    Ok(json!({
        "success": true,
        "advanced_by": text,
        "servers_advanced": advanced,
        "message": format!("Advanced OAuth clock by {text}"),
    }))
}

pub(super) fn revoke(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let cores = chosen(context, args)?;
    let count: usize = cores.iter().map(|core| core.revoke_all()).sum();
    let names: Vec<&str> = cores.iter().map(|core| &*core.config().name).collect();
    Ok(json!({
        "success": true,
        "servers": names,
        "revoked": count,
        "message": format!("Revoked {count} tokens of {}", names.join(", ")),
    }))
}

pub(super) fn set_fault(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let (server, endpoint) = (required(args, "server")?, required(args, "endpoint")?);
    let fault = args.get("fault").filter(|fault| !fault.is_null()).map(Fault::read).transpose()?;
    let known = ProviderEndpoint::named(endpoint);
    let known = known.ok_or_else(|| format!("unknown provider endpoint `{endpoint}`"))?;
    provider(context, server)?.set_fault(known, fault);
    Ok(
        json!({"success": true, "message": format!("Changed the {endpoint} endpoint of '{server}'")}),
    )
}

pub(super) fn set_error(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let server = required(args, "server")?;
    let error = optional(args, "error");
    provider(context, server)?.fail_with(error);
    let message = match error {
        Some(error) => format!("'{server}' responds to every token request with {error}"),
        None => format!("'{server}' responds to token requests normally again"),
    };
    Ok(json!({"success": true, "message": message}))
}
