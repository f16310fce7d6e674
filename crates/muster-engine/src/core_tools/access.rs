//! `core_token_*` and `core_session_*`: static tokens, logins and browser sessions.

use std::sync::Arc;

use muster_api::access::{BrowserInfo, CreatedToken, LoginInfo, SessionList};
use muster_core::{
    backend::CallContext,
    call::Role,
    caller_directory::{
        BrowserSession, CallerDirectory, DirectoryError, SeenLogin, TokenDraft, parse_lifetime,
    },
};
use serde_json::json;

use super::{Args, CoreTool, Failure, ToolAudience, ToolReply, object};
use crate::{
    handle::Handle,
    token_info::{moment, token_info},
};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_token_list",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "List the static tokens of clients that cannot log in, without their secrets.",
        schema: || json!({"type": "object", "properties": {}}),
        run: |handle, _, _| Box::pin(std::future::ready(tokens(handle))),
    },
    CoreTool {
        name: "core_token_create",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Create a static token. The reply holds it; it is stored nowhere and cannot be shown again.",
        schema: || {
            json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "description": "Letters, digits, `.`, `_` and `-`"},
                "expires": {"type": "string", "description": "Its lifetime: 90m, 12h, 30d or 52w. Without one it does not expire"},
                "toolset": {"type": "string", "description": "The toolset that its callers are limited to"},
                "operator": {"type": "boolean", "description": "Let its callers change the gateway: add servers, which run commands"},
            }})
        },
        run: |handle, cx, args| Box::pin(create(handle, cx, args)),
    },
    CoreTool {
        name: "core_token_revoke",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Revoke a static token. Its callers are refused from then on.",
        schema: || {
            json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string", "description": "The name of the token"},
            }})
        },
        run: |handle, _, args| Box::pin(revoke(handle, args)),
    },
    CoreTool {
        name: "core_session_list",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "List who is logged in: the logins that requests came from since the gateway started, and the browsers \
                  at the console, at all replicas.",
        schema: || json!({"type": "object", "properties": {}}),
        run: |handle, _, _| Box::pin(sessions(handle)),
    },
    CoreTool {
        name: "core_session_end",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Log a user or a browser out.",
        schema: || {
            json!({"type": "object", "required": ["id"], "properties": {
                "id": {"type": "string", "description": "The id of the session, from core_session_list"},
            }})
        },
        run: |handle, _, args| Box::pin(end(handle, args)),
    },
];

/// Converts an error of the directory to that of a tool.
pub(super) fn refused(error: DirectoryError) -> Failure {
    match error {
        DirectoryError::NotFound(text) => Failure::not_found(text),
        DirectoryError::Failed(text) => text.into(),
    }
}

/// The directory, if the gateway admits callers at all.
pub(super) fn directory(handle: &Handle) -> Result<&Arc<dyn CallerDirectory>, Failure> {
    let none = "this gateway does not admit callers by name: it serves the one that started it";
    handle.directory.as_ref().ok_or_else(|| none.into())
}

fn tokens(handle: &Handle) -> ToolReply {
    let tokens = directory(handle)?.tokens().map_err(refused)?;
    Ok(object(&tokens.into_iter().map(token_info).collect::<Vec<_>>()))
}

async fn create(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    // The results of steps are recorded on disk, and must not contain a secret.
    if cx.caller.depth > 0 {
        return Err("a token cannot be created by a workflow, because its runs are recorded".into());
    }
    // A policy can let agents call this tool, but no token may have more rights than the caller that creates it, and the
    // rights of an agent also depend on who it is.
    if handle.role_of(cx.caller) == Role::Agent {
        return Err("tokens are created by operators: ask one, or use `muster token create` on the gateway's machine".into());
    }
    let toolset = args.text("toolset");
    if let Some(bound) = &cx.caller.toolset
        && toolset != Some(&**bound)
    {
        let text = format!(
            "you are limited to the toolset `{bound}`: the token needs `toolset: {bound}`, too"
        );
        return Err(text.into());
    }
    let name = args.text("name").ok_or("name is required")?;
    let lifetime = match args.text("expires") {
        None => None,
        Some(text) => Some(parse_lifetime(text).ok_or_else(|| {
            format!("`{text}` is not a lifetime: expected `90m`, `12h`, `30d` or `52w`")
        })?),
    };
    let draft = TokenDraft {
        name: name.to_owned(),
        lifetime,
        toolset: toolset.map(str::to_owned),
        operator: args.flag("operator"),
    };
    let token = directory(handle)?.create_token(draft).await.map_err(refused)?;
    Ok(object(&CreatedToken { name: name.to_owned(), token: token.reveal().to_owned() }))
}

async fn revoke(handle: &Handle, args: Args) -> ToolReply {
    let name = args.text("name").ok_or("name is required")?;
    directory(handle)?.revoke_token(name).await.map_err(refused)?;
    Ok(format!("Revoked token `{name}`.").into())
}

async fn sessions(handle: &Handle) -> ToolReply {
    let login = |login: SeenLogin| LoginInfo {
        id: login.id,
        user: login.user,
        name: login.name.unwrap_or_default(),
        role: Some(login.role),
        groups: login.groups,
        client: login.client.unwrap_or_default(),
        issuer: login.issuer,
        first_seen: moment(login.first_seen),
        last_seen: moment(login.last_seen),
        requests: login.requests,
    };
    let browser = |session: BrowserSession| BrowserInfo {
        id: session.id,
        began: moment(session.began),
        ends: moment(session.ends),
        local: session.is_local,
    };
    let directory = directory(handle)?;
    let logins = directory.logins().await.map_err(refused)?;
    let browsers = directory.browsers().await.map_err(refused)?;
    Ok(object(&SessionList {
        logins: logins.into_iter().map(login).collect(),
        browsers: browsers.into_iter().map(browser).collect(),
    }))
}

async fn end(handle: &Handle, args: Args) -> ToolReply {
    let id = args.text("id").ok_or("id is required")?;
    directory(handle)?.end_session(id).await.map_err(refused)?;
    Ok(format!("Ended session `{id}`.").into())
}
