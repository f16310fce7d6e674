//! Users: sessions of their own at the same instance.

use serde_json::{Map, Value, json};

use super::{Done, optional, required};
use crate::subject::Subject;

pub(super) async fn create(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let name = required(args, "name")?;
    if subject.user(name).is_some() {
        return Err(format!("user '{name}' already exists"));
    }
    let target = subject.create_user(name).await.map_err(|err| err.to_string())?;
    Ok(json!({
        "success": true,
        "user": name,
        "session_id": target.session,
        "message": format!("Created user session for '{name}'"),
    }))
}

pub(super) fn switch(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let name = required(args, "name")?;
    if !subject.switch(name) {
        return Err(format!("user '{name}' not found; use test_create_user first"));
    }
    Ok(
        json!({"success": true, "current_user": name, "message": format!("Switched to user '{name}'")}),
    )
}

pub(super) async fn list_tools(subject: &Subject, args: &Map<String, Value>) -> Done {
    let name = optional(args, "name").unwrap_or_else(|| subject.current());
    let client = subject.user(name).ok_or_else(|| format!("user '{name}' not found"))?;
    let tools = client.tool_names(subject.limit(None)).await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "user": name, "tool_count": tools.len(), "tools": tools}))
}

pub(super) fn current(subject: &Subject) -> Value {
    let users = subject.user_names();
    json!({
        "success": true,
        "current_user": subject.current(),
        "available_users": users,
        "total_users": users.len(),
    })
}

pub(super) async fn auth_status(subject: &Subject, args: &Map<String, Value>) -> Done {
    let client = subject.client().map_err(|err| err.to_string())?;
    let status = client.read_resource("auth://status", subject.limit(None)).await;
    let status = status.map_err(|err| format!("failed to read auth://status: {err}"))?;
    let status: Value =
        serde_json::from_str(&status).map_err(|err| format!("auth://status is no JSON: {err}"))?;
    let Some(wanted) = optional(args, "server") else { return Ok(status) };
    let servers = status.get("servers").and_then(Value::as_array).into_iter().flatten();
    let server = servers
        .into_iter()
        .find(|server| server.get("name").and_then(Value::as_str) == Some(wanted));
    server.cloned().ok_or_else(|| format!("server '{wanted}' not found in auth status"))
}
