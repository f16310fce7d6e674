//! Users: sessions of their own at the same instance.

use serde_json::{Map, Value, json};

use super::{Done, optional, required};
use crate::{oauth::book::Person, subject::Subject};

pub(super) async fn create(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let name = required(args, "name")?;
    if subject.user(name).is_some() {
        return Err(format!("user '{name}' already exists"));
    }
    let person = person(name, args);
    let target = subject.create_user(name, person).await.map_err(|err| err.to_string())?;
    Ok(json!({
        "success": true,
        "user": name,
        "session_id": target.session,
        "message": format!("Created user session for '{name}'"),
    }))
}

/// Somebody of their own, if anything is said about them; else the same as everybody.
pub(super) fn person(name: &str, args: &Map<String, Value>) -> Option<Person> {
    let (subject, email) = (optional(args, "subject"), optional(args, "email"));
    let groups = args.get("groups").and_then(Value::as_array);
    if subject.is_none() && email.is_none() && groups.is_none() {
        return None;
    }
    let mut person = Person::named(name);
    if let Some(subject) = subject {
        subject.clone_into(&mut person.subject);
    }
    if let Some(email) = email {
        email.clone_into(&mut person.email);
    }
    if let Some(groups) = groups {
        let texts = groups.iter().filter_map(|group| group.as_str().map(str::to_owned));
        person.groups = texts.collect();
    }
    Some(person)
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

/// What `tools/list` shows, and nothing that is found in other ways.
pub(super) async fn list_native(subject: &Subject, args: &Map<String, Value>) -> Done {
    let name = optional(args, "name").unwrap_or_else(|| subject.current());
    let client = subject.user(name).ok_or_else(|| format!("user '{name}' not found"))?;
    let tools = client.native_names(subject.limit(None)).await.map_err(|err| err.to_string())?;
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
