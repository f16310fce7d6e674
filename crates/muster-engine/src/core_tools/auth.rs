//! `core_auth_*`: the logins of a caller at servers.
//!
//! The beginnings of these texts are a contract with clients, which also expect the URL to open alone on a
//! line.

pub(super) mod status;

use std::sync::Arc;

use muster_api::auth::LoginDetails;
use muster_core::{
    backend::CallContext,
    json::raw,
    logins::{AuthMethod, LoginError, LoginService, LoginSubject},
};
use serde_json::json;

use super::{Args, CoreTool, Failure, Reply, ToolAudience, ToolReply};
use crate::{
    handle::Handle,
    user_connections::{LoginCompleted, OwnerStanding, protected_server},
    view::{Counts, ServerEntry},
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_auth_login",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Log in to an MCP server that requires it. If a browser is needed, the answer holds \
                  the address to open; call this again afterwards. The resource auth://status shows \
                  which servers require a login.",
        schema: || named("Name of the MCP server to log in to"),
        run: |handle, cx, args| Box::pin(login(handle, cx, args)),
    },
    CoreTool {
        name: "core_auth_logout",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Log out from an MCP server: its connection ends and its tokens are forgotten, for \
                  this caller alone.",
        schema: || named("Name of the MCP server to log out from"),
        run: |handle, cx, args| Box::pin(logout(handle, cx, args)),
    },
];

const NO_SERVER: &str = "Error: 'server' argument is required and must be a string";

fn named(description: &str) -> serde_json::Value {
    json!({"type": "object", "required": ["server"], "properties": {
        "server": {"type": "string", "description": description},
    }})
}

async fn login(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let server = args.text("server").ok_or(NO_SERVER)?;
    let person = LoginSubject::of(cx.caller);
    handle.user_connections.check_login_rate(&person.owner).map_err(|seconds| {
        format!(
            "Rate limit exceeded. There may be 10 attempts to log in within 60 seconds; 0 remain. Try \
             again in {seconds} seconds."
        )
    })?;
    let entry = match handle.visible_servers(cx.caller).has(server) {
        true => settled(handle, server).await,
        false => None,
    };
    let Some(entry) = entry else {
        return Err(Failure::not_found(format!(
            "Server '{server}' not found. Use list_tools to see available servers."
        )));
    };
    if entry.status.condition.is_down() {
        return Err(format!(
            "Server '{server}' not found: it is stopped. Start it with core_service_start first."
        )
        .into());
    }
    if !entry.status.needs_login {
        return match entry.status.condition.is_up() {
            true => Ok(format!("Server '{server}' is already authenticated and connected.").into()),
            false => Ok(format!("Server '{server}' does not require authentication.").into()),
        };
    }
    let logins = handle.user_connections.logins();
    let method = AuthMethod::of(&entry.server.spec.auth.clone().unwrap_or_default());
    let wants_more = async || match logins.filter(|_| !method.is_silent()) {
        Some(logins) => logins.needs_step_up(&person, &protected_server(&entry)).await,
        None => false,
    };
    let more = wants_more().await;
    let standing = handle.user_connections.standing(&person.owner, server);
    if matches!(standing, OwnerStanding::Connected { .. }) && !more {
        return Ok(format!("Server '{server}' is already authenticated for this session.").into());
    }
    let Some(logins) = logins else {
        return Err(format!(
            "OAuth is not configured. Server '{server}' requires authentication but OAuth proxy is \
             not enabled. Set aggregator.oauth.mcpClient.enabled and publicUrl in config.yaml."
        )
        .into());
    };
    if more {
        return challenge(handle, logins, &person, &entry).await;
    }
    match handle.user_connections.connect_silently(&person, &entry).await {
        Ok(counts) => Ok(connected(server, counts).into()),
        Err(error) if method.is_silent() => Err(not_silently(server, method, &error).into()),
        Err(LoginError::Required) => challenge(handle, logins, &person, &entry).await,
        Err(LoginError::UnknownIssuer(cause)) => Err(no_issuer(server, &cause).into()),
        Err(_) if wants_more().await => challenge(handle, logins, &person, &entry).await,
        Err(error) => Err(format!(
            "Failed to connect to '{server}': {error}\n\nIf it does not work after a while, log out \
             with core_auth_logout and log in again."
        )
        .into()),
    }
}

/// Waits until a server has settled: while it is starting, it may still turn out to require a login.
async fn settled(handle: &Handle, server: &str) -> Option<Arc<ServerEntry>> {
    let generation = handle.now().servers.get(server)?.status.generation;
    handle.wait_until_settled(server, generation).await
}

fn connected(server: &str, counts: Counts) -> String {
    let Counts { tools, resources, prompts } = counts;
    format!(
        "Successfully connected to '{server}'!\n\nAvailable capabilities:\n- Tools: {tools}\n- \
         Resources: {resources}\n- Prompts: {prompts}\n\nYou can now use the tools of this server."
    )
}

fn not_silently(server: &str, method: AuthMethod, error: &LoginError) -> String {
    let (what, hint) = match method {
        AuthMethod::Exchanged => (
            "RFC 8693 token exchange failed",
            "Log in to muster again; if that does not help, check auth.tokenExchange of the server.",
        ),
        AuthMethod::Forwarded | AuthMethod::Login => (
            "SSO token forwarding failed",
            "Log in to muster again; if that does not help, check that the server accepts tokens of \
             muster's identity provider.",
        ),
    };
    format!("{what} for '{server}'.\n\nError: {error}\n\n{hint}")
}

fn no_issuer(server: &str, cause: &str) -> String {
    format!(
        "Cannot authenticate to '{server}': unable to discover OAuth authorization server. {cause}"
    )
}

async fn challenge(
    handle: &Handle,
    logins: &Arc<dyn LoginService>,
    person: &LoginSubject,
    entry: &ServerEntry,
) -> ToolReply {
    let server = &entry.server.name;
    let arrived = Arc::new(LoginCompleted(Arc::downgrade(&handle.user_connections)));
    match logins.begin(person, &protected_server(entry), arrived).await {
        Ok(auth_url) => {
            let text = format!(
                "Authentication Required\n\nServer: {server}\nStatus: Authentication required for \
                 {server}. Please sign in.\n\nOpen this address in a browser to sign in:\n\n{auth_url}\n\n\
                 After signing in, call core_auth_login again to see what the server offers."
            );
            Ok(Reply { text, details: Some(raw(&LoginDetails { auth_url })) })
        }
        Err(LoginError::UnknownIssuer(cause)) => Err(no_issuer(server, &cause).into()),
        Err(error) => Err(format!("Failed to create authentication challenge: {error}").into()),
    }
}

async fn logout(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let server = args.text("server").ok_or(NO_SERVER)?;
    if !handle.user_connections.log_out(cx.caller, server).await {
        return Err(Failure::not_found(format!("Server '{server}' not found.")));
    }
    Ok(format!(
        "Successfully logged out from '{server}'.\n\nUse core_auth_login with server='{server}' to log \
         in again."
    )
    .into())
}
