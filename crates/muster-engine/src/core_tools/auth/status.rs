//! `auth://status`: which servers want a login of the caller, and which have one.

use std::sync::Arc;

use muster_core::{
    call::Caller,
    catalog::CatalogItem,
    json::{Raw, raw},
    logins::AuthMethod,
    name::BackendName,
};
use muster_gateway::condition::ServerCondition;
use serde::Serialize;

use crate::{
    handle::Handle,
    principals::{OwnerStanding, protected_server},
    view::ServerEntry,
};

/// Its address.
pub(crate) const URI: &str = "auth://status";

/// How it is listed.
pub(crate) fn listed(backend: &BackendName) -> CatalogItem {
    #[derive(Serialize)]
    struct Definition {
        uri: &'static str,
        name: &'static str,
        description: &'static str,
    }
    let definition = Definition {
        uri: URI,
        name: "Authentication status of MCP servers",
        description: "Which servers the caller is connected to, and which require a login with \
                      core_auth_login",
    };
    let definition: Arc<_> = raw(&definition).into();
    CatalogItem { name: URI.into(), backend: backend.clone(), local_name: URI.into(), definition }
}

#[derive(Serialize)]
struct Status<'a> {
    servers: Vec<Server>,
    /// Who the caller is, where logins are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<&'a str>,
}

#[derive(Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "clients know these keys")]
struct Server {
    name: String,
    status: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    issuer: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    scope: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_tool: Option<&'static str>,
    #[serde(skip_serializing_if = "is_false")]
    token_forwarding_enabled: bool,
    #[serde(skip_serializing_if = "is_false")]
    token_exchange_enabled: bool,
    #[serde(skip_serializing_if = "is_false")]
    sso_attempt_failed: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_false(truth: &bool) -> bool {
    !*truth
}

/// What it says to a caller, as the result of reading it.
pub(crate) fn read(handle: &Handle, caller: &Caller) -> Raw {
    #[derive(Serialize)]
    struct Contents<'a> {
        contents: [Content<'a>; 1],
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Content<'a> {
        uri: &'static str,
        mime_type: &'static str,
        text: &'a str,
    }
    let view = handle.now();
    let servers = view.servers.values().filter(|known| !known.status.condition.is_down());
    let user = caller.principal.as_ref();
    let user = user.map(|principal| principal.email.as_deref().unwrap_or(&principal.subject));
    let servers = servers.map(|known| server(handle, caller, known)).collect();
    let status = Status { servers, user };
    let text = raw(&status);
    raw(&Contents {
        contents: [Content { uri: URI, mime_type: "application/json", text: text.get() }],
    })
}

fn server(handle: &Handle, caller: &Caller, known: &ServerEntry) -> Server {
    let name = known.server.name.clone();
    let server = protected_server(known);
    let means = AuthMethod::of(&server.auth);
    let standing = handle.principals.standing(&caller.owner(), &name);
    let status = match (known.status.condition, &standing) {
        (ServerCondition::Unreachable, _) => "unreachable",
        (_, OwnerStanding::Connected { .. }) => "connected",
        _ if known.status.needs_login => "auth_required",
        (condition, _) if condition.is_up() => "connected",
        (ServerCondition::Failed, _) => "failed",
        _ => "disconnected",
    };
    let wanted = status == "auth_required";
    let logins = handle.principals.logins().filter(|_| wanted);
    let issuer = logins.map(|logins| logins.issuer(&server)).unwrap_or_default();
    Server {
        name,
        status,
        issuer: issuer.issuer,
        scope: issuer.scope,
        auth_tool: wanted.then_some("core_auth_login"),
        token_forwarding_enabled: means == AuthMethod::Forwarded,
        token_exchange_enabled: means == AuthMethod::Exchanged,
        sso_attempt_failed: means.is_silent() && standing == OwnerStanding::SsoFailed,
    }
}
