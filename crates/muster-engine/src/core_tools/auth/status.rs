//! `auth://status`: the caller's logins at servers.

use std::sync::Arc;

use muster_api::auth::{AuthStatus, LoginState, ServerAuthStatus};
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
    user_connections::{OwnerStanding, protected_server},
    view::ServerEntry,
};

/// Its URI.
pub(crate) const URI: &str = "auth://status";

/// Its entry in the catalog.
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

/// Its contents for a caller, as the result of `resources/read`.
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
    let (view, visible) = (handle.now(), handle.visible_servers(caller));
    let servers = view
        .servers
        .values()
        .filter(|entry| !entry.status.condition.is_down() && visible.has(&entry.server.name));
    let user = caller.principal.as_ref();
    let user = user.map(|principal| principal.email.as_deref().unwrap_or(&principal.subject));
    let servers = servers.map(|entry| server(handle, caller, entry)).collect();
    let status = AuthStatus { servers, user: user.map(str::to_owned) };
    let text = raw(&status);
    raw(&Contents {
        contents: [Content { uri: URI, mime_type: "application/json", text: text.get() }],
    })
}

/// The state of a server for a caller.
pub(crate) fn login_state(handle: &Handle, caller: &Caller, entry: &ServerEntry) -> LoginState {
    server(handle, caller, entry).status
}

fn server(handle: &Handle, caller: &Caller, entry: &ServerEntry) -> ServerAuthStatus {
    let name = entry.server.name.clone();
    let server = protected_server(entry);
    let method = AuthMethod::of(&server.auth);
    let sso = method.is_silent();
    let standing = handle.user_connections.standing(&caller.owner(), &name);
    let status = match (entry.status.condition, &standing) {
        (ServerCondition::Unreachable, _) => LoginState::Unreachable,
        (_, OwnerStanding::Connected { .. }) => LoginState::Connected,
        (_, OwnerStanding::SsoFailed { .. }) if sso => LoginState::ReauthRequired,
        (_, OwnerStanding::Connecting) if sso => LoginState::SsoPending,
        (_, OwnerStanding::Lost) => LoginState::Disconnected,
        _ if entry.status.needs_login => LoginState::AuthRequired,
        (condition, _) if condition.is_up() => LoginState::Connected,
        (ServerCondition::Failed, _) => LoginState::Failed,
        _ => LoginState::Disconnected,
    };
    let logins = handle.user_connections.logins().filter(|_| status.wants_login());
    let issuer = logins.map(|logins| logins.issuer(&server)).unwrap_or_default();
    // Until single sign-on has been tried, a login at this server would be pointless.
    let has_tool = status.wants_login() && !(sso && status == LoginState::AuthRequired);
    let error = match standing {
        OwnerStanding::SsoFailed { error } if sso => Some(error),
        _ => None,
    };
    ServerAuthStatus {
        name,
        status,
        issuer: issuer.issuer,
        scope: issuer.scope,
        auth_tool: has_tool.then(|| "core_auth_login".to_owned()),
        token_forwarding_enabled: method == AuthMethod::Forwarded,
        token_exchange_enabled: method == AuthMethod::Exchanged,
        sso_attempt_failed: error.is_some(),
        error,
    }
}
