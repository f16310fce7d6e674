//! Mock identity providers: looked at, moved in time, and made to forget.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value, json};

use super::{Done, optional, required, user};
use crate::{
    duration,
    mock::fault::Fault,
    oauth::{book::Endpoint, core::Core},
    scenario::Server,
    subject::Subject,
};

/// The provider that a name stands for: its own, or that of an MCP server that asks for its tokens.
pub(super) fn provider(subject: &Subject, name: &str) -> Result<Arc<Core>, String> {
    let providers = subject.instance.providers();
    let guarded = subject.instance.before().mcp_servers.iter().find(|server| server.name == name);
    let behind = guarded.and_then(Server::guard).and_then(|guard| guard.provider.as_deref());
    let found = providers.get(name).or_else(|| providers.get(behind?));
    found
        .map(|provider| Arc::clone(provider.core()))
        .ok_or_else(|| format!("mock OAuth server '{name}' not found"))
}

/// The provider that is named, or all of them.
fn chosen(subject: &Subject, args: &Map<String, Value>) -> Result<Vec<Arc<Core>>, String> {
    if let Some(name) = optional(args, "server") {
        return Ok(vec![provider(subject, name)?]);
    }
    let all = subject.instance.providers().iter();
    let all: Vec<_> = all.map(|(_, provider)| Arc::clone(provider.core())).collect();
    if all.is_empty() { Err("there is no mock OAuth server".to_owned()) } else { Ok(all) }
}

pub(super) fn info(subject: &Subject, args: &Map<String, Value>) -> Done {
    let about = |core: &Core| {
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
        return Ok(about(&*provider(subject, name)?));
    }
    let all = subject.instance.providers().iter();
    let all: Map<String, Value> =
        all.map(|(name, provider)| (name.to_owned(), about(provider.core()))).collect();
    Ok(json!({"success": true, "oauth_servers": all}))
}

pub(super) fn inject(subject: &Subject, args: &Map<String, Value>) -> Done {
    let (server, token) = (required(args, "server")?, required(args, "token")?);
    let core = provider(subject, server)?;
    let scope = optional(args, "scope").unwrap_or_default();
    let lifetime = args.get("expires_in").and_then(Value::as_f64);
    let lifetime = match lifetime {
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| "expires_in must be a number of seconds".to_owned())?,
        None => core.config().lifetime,
    };
    core.inject(token, &subject.person(), scope, lifetime);
    Ok(json!({
        "success": true,
        "server": server,
        "message": format!("Injected a token for '{server}'"),
    }))
}

pub(super) fn mint(subject: &Subject, args: &Map<String, Value>) -> Done {
    let core = provider(subject, required(args, "server")?)?;
    let person = user::person("minted", args).unwrap_or_else(|| subject.person());
    let minted = core.mint(&person, optional(args, "scope").unwrap_or_default());
    Ok(json!({
        "success": true,
        "access_token": minted.access,
        "id_token": minted.id,
        "refresh_token": minted.refresh,
        "scope": minted.scope,
        "expires_in": minted.lifetime.as_secs(),
    }))
}

pub(super) fn advance(subject: &Subject, args: &Map<String, Value>) -> Done {
    let text = required(args, "duration")?;
    let by = duration::parse(text).ok_or_else(|| format!("`{text}` is no duration"))?;
    let named = optional(args, "server").is_some();
    let mut advanced = Vec::new();
    for core in chosen(subject, args)? {
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

pub(super) fn revoke(subject: &Subject, args: &Map<String, Value>) -> Done {
    let cores = chosen(subject, args)?;
    let count: usize = cores.iter().map(|core| core.revoke_all()).sum();
    let names: Vec<&str> = cores.iter().map(|core| &*core.config().name).collect();
    Ok(json!({
        "success": true,
        "servers": names,
        "revoked": count,
        "message": format!("Revoked {count} tokens of {}", names.join(", ")),
    }))
}

pub(super) fn set_fault(subject: &Subject, args: &Map<String, Value>) -> Done {
    let (server, endpoint) = (required(args, "server")?, required(args, "endpoint")?);
    let fault = args.get("fault").filter(|fault| !fault.is_null()).map(Fault::read).transpose()?;
    let known = Endpoint::named(endpoint);
    let known = known.ok_or_else(|| format!("a provider has no endpoint `{endpoint}`"))?;
    provider(subject, server)?.set_fault(known, fault);
    Ok(
        json!({"success": true, "message": format!("Changed the {endpoint} endpoint of '{server}'")}),
    )
}

pub(super) fn set_error(subject: &Subject, args: &Map<String, Value>) -> Done {
    let server = required(args, "server")?;
    let error = optional(args, "error");
    provider(subject, server)?.fail_with(error);
    let message = match error {
        Some(error) => format!("'{server}' answers every token request with {error}"),
        None => format!("'{server}' answers token requests again"),
    };
    Ok(json!({"success": true, "message": message}))
}
