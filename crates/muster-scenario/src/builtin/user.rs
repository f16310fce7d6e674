//! Built-in tools for users, each with a session of their own.

use serde_json::{Map, Value, json};

use super::{BuiltinResult, optional, required};
use crate::{context::ScenarioContext, oauth::records::UserIdentity};

pub(super) async fn create(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let name = required(args, "name")?;
    if context.user(name).is_some() {
        return Err(format!("user '{name}' already exists"));
    }
    let identity = identity(name, args);
    let target = context.create_user(name, identity).await.map_err(|err| err.to_string())?;
    Ok(json!({
        "success": true,
        "user": name,
        "session_id": target.session,
        "message": format!("Created user session for '{name}'"),
    }))
}

/// The identity in the arguments, or `None` for the default identity.
pub(super) fn identity(name: &str, args: &Map<String, Value>) -> Option<UserIdentity> {
    let (subject, email) = (optional(args, "subject"), optional(args, "email"));
    let groups = args.get("groups").and_then(Value::as_array);
    if subject.is_none() && email.is_none() && groups.is_none() {
        return None;
    }
    let mut identity = UserIdentity::named(name);
    if let Some(subject) = subject {
        subject.clone_into(&mut identity.subject);
    }
    if let Some(email) = email {
        email.clone_into(&mut identity.email);
    }
    if let Some(groups) = groups {
        let texts = groups.iter().filter_map(|group| group.as_str().map(str::to_owned));
        identity.groups = texts.collect();
    }
    Some(identity)
}

pub(super) fn switch(context: &mut ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let name = required(args, "name")?;
    if !context.switch(name) {
        return Err(format!("user '{name}' not found; use test_create_user first"));
    }
    Ok(
        json!({"success": true, "current_user": name, "message": format!("Switched to user '{name}'")}),
    )
}

pub(super) async fn list_tools(
    context: &ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let name = optional(args, "name").unwrap_or_else(|| context.current());
    let client = context.user(name).ok_or_else(|| format!("user '{name}' not found"))?;
    let tools = client.tool_names(context.limit(None)).await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "user": name, "tool_count": tools.len(), "tools": tools}))
}

/// Lists only the tools in `tools/list`.
pub(super) async fn list_native(
    context: &ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let name = optional(args, "name").unwrap_or_else(|| context.current());
    let client = context.user(name).ok_or_else(|| format!("user '{name}' not found"))?;
    let tools = client.direct_names(context.limit(None)).await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "user": name, "tool_count": tools.len(), "tools": tools}))
}

pub(super) fn current(context: &ScenarioContext) -> Value {
    let users = context.user_names();
    json!({
        "success": true,
        "current_user": context.current(),
        "available_users": users,
        "total_users": users.len(),
    })
}

pub(super) async fn auth_status(
    context: &ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let client = context.client().map_err(|err| err.to_string())?;
    let status = client.read_resource("auth://status", context.limit(None)).await;
    let status = status.map_err(|err| format!("failed to read auth://status: {err}"))?;
    let status: Value =
        serde_json::from_str(&status).map_err(|err| format!("auth://status is not JSON: {err}"))?;
    let Some(wanted) = optional(args, "server") else { return Ok(status) };
    let servers = status.get("servers").and_then(Value::as_array).into_iter().flatten();
    let server = servers
        .into_iter()
        .find(|server| server.get("name").and_then(Value::as_str) == Some(wanted));
    server.cloned().ok_or_else(|| format!("server '{wanted}' not found in auth status"))
}
