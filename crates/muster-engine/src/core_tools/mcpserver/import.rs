//! `core_mcpserver_import`: adds the servers of another client's configuration.

use muster_config::mcp_json;
use muster_core::{backend::CallContext, connect::Endpoint, json::raw};
use serde_json::{Map, Value, json};

use super::{Args, CoreTool, ToolAudience, ToolReply, create};
use crate::handle::Handle;

/// The number of servers in one call.
const MAX_SERVERS: usize = 100;

pub(super) const TOOL: CoreTool = CoreTool {
    name: "core_mcpserver_import",
    audience: ToolAudience::Operators,
    summary: "Add the servers of another client's configuration: the text of a file with `mcpServers`, as Claude, Cursor and \
              VS Code have it. Servers that exist are left as they are. The command `muster import` finds such files, and \
              moves their secrets.",
    schema: || {
        json!({"type": "object", "required": ["config"], "properties": {
            "config": {"type": "string", "description": "The text of the file: JSON with the object `mcpServers` or `servers`"},
        }})
    },
    run: |handle, cx, args| Box::pin(import(handle, cx, args)),
};

async fn import(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let text = args.text("config").ok_or("config is required")?;
    let found = mcp_json::parse(text).map_err(|error| error.to_string())?;
    if found.is_empty() {
        return Err("there is no server in it".into());
    }
    if found.len() > MAX_SERVERS {
        let count = found.len();
        return Err(format!("{count} servers are more than the {MAX_SERVERS} of one call").into());
    }
    let (mut lines, mut failed) = (Vec::new(), 0_usize);
    for (name, endpoint) in found {
        let definition = Args::new(&raw(&definition(&name, endpoint)));
        match create(handle, cx, definition).await {
            Ok(reply) => lines.push(reply.text),
            Err(error) => {
                failed += 1;
                lines.push(format!("{name}: {}", error.text));
            }
        }
    }
    match failed == lines.len() {
        true => Err(lines.join("\n").into()),
        false => Ok(lines.join("\n").into()),
    }
}

/// The arguments of `core_mcpserver_create`.
fn definition(name: &str, endpoint: Endpoint) -> Value {
    let pairs = |pairs: Vec<(String, String)>| -> Map<String, Value> {
        pairs.into_iter().map(|(key, value)| (key, value.into())).collect()
    };
    let mut object = match endpoint {
        Endpoint::Stdio { command, args, env, .. } => {
            json!({"type": "stdio", "command": command, "args": args, "env": pairs(env)})
        }
        Endpoint::Sse { url, headers } => {
            json!({"type": "sse", "url": url, "headers": pairs(headers)})
        }
        Endpoint::Http { url, headers } | Endpoint::Mtls { url, headers, .. } => {
            json!({"type": "streamable-http", "url": url, "headers": pairs(headers)})
        }
    };
    if let Some(object) = object.as_object_mut() {
        object.retain(|_, value| {
            value.as_object().is_none_or(|map| !map.is_empty())
                && value.as_array().is_none_or(|list| !list.is_empty())
        });
        object.insert("name".to_owned(), name.into());
        object.insert("autoStart".to_owned(), true.into());
    }
    object
}

#[cfg(test)]
mod tests {
    use muster_config::mcp_json;
    use serde_json::json;

    use super::definition;

    #[test]
    fn entries_become_definitions() {
        let text = r#"{"mcpServers": {
            "git": {"command": "uvx", "args": ["mcp-server-git"], "env": {"A": "1"}},
            "web": {"url": "https://mcp.example/mcp", "headers": {"X": "y"}},
            "old": {"type": "sse", "url": "https://mcp.example/sse"}}}"#;
        let found: Vec<_> = mcp_json::parse(text)
            .unwrap()
            .into_iter()
            .map(|(name, endpoint)| definition(&name, endpoint))
            .collect();
        assert_eq!(
            json!(found),
            json!([
                {"type": "stdio", "command": "uvx", "args": ["mcp-server-git"], "env": {"A": "1"}, "name": "git", "autoStart": true},
                {"type": "streamable-http", "url": "https://mcp.example/mcp", "headers": {"X": "y"}, "name": "web", "autoStart": true},
                {"type": "sse", "url": "https://mcp.example/sse", "name": "old", "autoStart": true},
            ])
        );
    }
}
