//! `core_mcpserver_import`: adds the servers of another client's configuration.

use muster_config::{
    mcp_json::{self, ClientServer, EntryKey},
    mcpserver::McpServerSpec,
};
use muster_core::{backend::CallContext, json::raw};
use serde_json::{Value, json};

use super::{Args, CoreTool, ToolAudience, ToolReply, create};
use crate::handle::Handle;

/// The maximum number of servers in one call.
const MAX_SERVERS: usize = 100;

pub(super) const TOOL: CoreTool = CoreTool {
    name: "core_mcpserver_import",
    audience: ToolAudience::Operators,
    effect: None,
    summary: "Add the servers of another client's configuration: the text of a file with `mcpServers`, as Claude, Cursor and \
              VS Code have it. Servers that exist are left as they are; those that are disabled in the client are not \
              started. The command `muster import` finds such files, and \
              moves their secrets.",
    schema: || {
        json!({"type": "object", "required": ["config"], "properties": {
            "config": {"type": "string", "description": "The text of the file: JSON with the object `mcpServers` or `servers`; comments are accepted"},
        }})
    },
    run: |handle, cx, args| Box::pin(import(handle, cx, args)),
};

async fn import(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let text = args.text("config").ok_or("config is required")?;
    let found = mcp_json::read(text).map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("there is no server in it".into());
    }
    let count = found.iter().filter(|(key, _)| key.project.is_none()).count();
    if count > MAX_SERVERS {
        return Err(format!("{count} servers are more than the {MAX_SERVERS} of one call").into());
    }
    let (mut lines, mut created) = (Vec::new(), 0_usize);
    for (EntryKey { project, name }, server) in found {
        if let Some(project) = project {
            lines.push(format!("{name}: it belongs to the project {project}, and is not added"));
            continue;
        }
        let server = match server {
            Ok(server) => server,
            Err(problem) => {
                lines.push(format!("{name}: {problem}"));
                continue;
            }
        };
        let notes = notes(&name, &server);
        match create(handle, cx, Args::new(&raw(&definition(&name, server)))).await {
            Ok(reply) => {
                created += 1;
                lines.push(reply.text);
                lines.extend(notes);
            }
            Err(error) => lines.push(format!("{name}: {}", error.text)),
        }
    }
    match created {
        0 => Err(lines.join("\n").into()),
        _ => Ok(lines.join("\n").into()),
    }
}

/// The lines of the reply that tell an operator what to know about a server that is added.
fn notes(name: &str, server: &ClientServer) -> Vec<String> {
    let mut notes = Vec::new();
    if !server.is_enabled {
        notes.push(format!("{name}: it is disabled in the client, and is not started"));
    }
    let dropped = server.dropped.iter();
    notes.extend(dropped.map(|setting| format!("{name}: the setting `{setting}` is ignored")));
    let pairs = server.endpoint.pairs();
    let secrets = pairs.iter().filter(|(key, value)| mcp_json::secret_part(key, value).is_some());
    let secrets: Vec<String> = secrets.map(|(key, _)| format!("`{key}`")).collect();
    if !secrets.is_empty() {
        let secrets = secrets.join(", ");
        notes.push(format!("{name}: these secrets are stored as plain text: {secrets}"));
    }
    let spec = McpServerSpec::at(server.endpoint.clone());
    let unset = pairs.iter().filter(|(_, value)| is_filled_in(value));
    let mut unset: Vec<&str> = unset.map(|(key, _)| key.as_str()).collect();
    unset.extend(settings(&spec).map(|name| -> &str { name }));
    notes.extend(
        unset
            .into_iter()
            .map(|key| format!("{name}: `{key}` was filled in by the client: set its value")),
    );
    notes
}

/// The settings, other than variables and headers, that the client fills in.
fn settings(spec: &McpServerSpec) -> impl Iterator<Item = &'static str> {
    let filled_in = |value: &str| value.contains("${");
    let found = [
        ("command", filled_in(&spec.command)),
        ("args", spec.args.iter().any(|arg| filled_in(arg))),
        ("url", filled_in(&spec.url)),
    ];
    found.into_iter().filter(|(_, filled_in)| *filled_in).map(|(name, _)| name)
}

/// Whether a value refers to a variable or an input, which the client fills in.
fn is_filled_in(value: &str) -> bool {
    value.contains("${") || (value.starts_with('$') && value.len() > 1)
}

/// The arguments of `core_mcpserver_create`.
fn definition(name: &str, server: ClientServer) -> Value {
    let McpServerSpec { kind, command, args, env, url, headers, .. } =
        McpServerSpec::at(server.endpoint);
    let mut object = json!({
        "type": kind, "command": command, "args": args, "env": env, "url": url, "headers": headers,
    });
    if let Some(object) = object.as_object_mut() {
        object.retain(|_, value| {
            value.as_object().is_none_or(|map| !map.is_empty())
                && value.as_array().is_none_or(|list| !list.is_empty())
                && value.as_str() != Some("")
        });
        object.insert("name".to_owned(), name.into());
        object.insert("autoStart".to_owned(), server.is_enabled.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use muster_config::mcp_json;
    use serde_json::json;

    use super::{definition, notes};

    #[test]
    fn entries_become_definitions() {
        let text = r#"{"mcpServers": { // a comment
            "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "1", "B": "a ${input:b}"}, "cwd": "/w"},
            "ws": {"command": "a", "args": ["${workspaceFolder}"]},
            "web": {"httpUrl": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer x", "X": "$", "Y": "$KEY"}},
            "old": {"type": "sse", "url": "https://mcp.example/sse", "disabled": true}}}"#;
        let (mut found, mut said) = (Vec::new(), Vec::new());
        for (key, server) in mcp_json::read(text).unwrap() {
            let server = server.unwrap();
            said.extend(notes(&key.name, &server));
            found.push(definition(&key.name, server));
        }
        assert_eq!(
            json!(found),
            json!([
                {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "env": {"A": "1", "B": "a ${input:b}"}, "name": "git", "autoStart": true},
                {"type": "stdio", "command": "a", "args": ["${workspaceFolder}"], "name": "ws", "autoStart": true},
                {"type": "streamable-http", "url": "https://mcp.example/mcp", "headers": {"Authorization": "Bearer x", "X": "$", "Y": "$KEY"}, "name": "web", "autoStart": true},
                {"type": "sse", "url": "https://mcp.example/sse", "name": "old", "autoStart": false},
            ])
        );
        assert_eq!(
            said,
            [
                "git: the setting `cwd` is ignored",
                "git: `B` was filled in by the client: set its value",
                "ws: `args` was filled in by the client: set its value",
                "web: these secrets are stored as plain text: `Authorization`",
                "web: `Y` was filled in by the client: set its value",
                "old: it is disabled in the client, and is not started",
            ]
        );
    }
}
