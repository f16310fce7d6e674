//! `mcpServers` entries, the format in which MCP clients configure servers.

use muster_core::connect::Endpoint;
use serde_json::{Map, Value};
use thiserror::Error;

/// Why such a file is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum McpJsonError {
    /// It is not JSON.
    #[error("not valid JSON: {0}")]
    NotJson(String),
    /// It has no entries.
    #[error("there is no object `mcpServers` (or `servers`) in it")]
    NoServers,
    /// An entry has no valid endpoint.
    #[error("mcpServers → {server}: {problem}")]
    Entry {
        /// The entry.
        server: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads the entries, in the order written.
pub fn parse(text: &str) -> Result<Vec<(String, Endpoint)>, McpJsonError> {
    let document: Value =
        serde_json::from_str(text).map_err(|err| McpJsonError::NotJson(err.to_string()))?;
    let entries = ["mcpServers", "servers"]
        .iter()
        .find_map(|key| document.get(key).and_then(Value::as_object))
        .ok_or(McpJsonError::NoServers)?;
    entries
        .iter()
        .map(|(name, entry)| match endpoint(entry) {
            Ok(endpoint) => Ok((name.clone(), endpoint)),
            Err(problem) => Err(McpJsonError::Entry { server: name.clone(), problem }),
        })
        .collect()
}

fn endpoint(entry: &Value) -> Result<Endpoint, &'static str> {
    let entry = entry.as_object().ok_or("it must be an object")?;
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    match (text("command"), text("url").or_else(|| text("serverUrl"))) {
        (Some(command), None) => {
            let (args, env) = (args(entry)?, pairs(entry, "env")?);
            Ok(Endpoint::Stdio { command, args, env, inherit: Vec::new() })
        }
        (None, Some(url)) => {
            let headers = pairs(entry, "headers")?;
            match text("type").as_deref() {
                Some("sse") => Ok(Endpoint::Sse { url, headers }),
                _ => Ok(Endpoint::Http { url, headers }),
            }
        }
        (Some(_), Some(_)) => Err("it has both `command` and `url`"),
        (None, None) => Err("it needs `command` or `url`"),
    }
}

fn args(entry: &Map<String, Value>) -> Result<Vec<String>, &'static str> {
    let Some(args) = entry.get("args") else { return Ok(Vec::new()) };
    let words = args.as_array().ok_or("`args` must be a list of strings")?;
    let words = words.iter().map(|word| word.as_str().map(str::to_owned));
    words.collect::<Option<_>>().ok_or("`args` must be a list of strings")
}

fn pairs(
    entry: &Map<String, Value>,
    key: &'static str,
) -> Result<Vec<(String, String)>, &'static str> {
    let problem = if key == "env" {
        "`env` must be an object of strings"
    } else {
        "`headers` must be an object of strings"
    };
    let Some(pairs) = entry.get(key) else { return Ok(Vec::new()) };
    let pairs = pairs.as_object().ok_or(problem)?;
    let pairs = pairs.iter().map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    pairs.collect::<Option<_>>().ok_or(problem)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let got = match parse(text) {
            Ok(servers) => format!("{servers:?}"),
            Err(err) => err.to_string(),
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn entries_of_every_client_are_read() {
        check(
            r#"{"mcpServers": {"t": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}}}"#,
            r#"[("t", Stdio { command: "npx", args: ["-y", "x"], env: [("A", "1")], inherit: [] })]"#,
        );
        check(
            r#"{"servers": {"a": {"type": "http", "url": "http://h/mcp", "headers": {"X": "y"}}, "b": {"type": "sse", "url": "http://h/sse"}}}"#,
            r#"[("a", Http { url: "http://h/mcp", headers: [("X", "y")] }), ("b", Sse { url: "http://h/sse", headers: [] })]"#,
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        check("{}", "there is no object `mcpServers` (or `servers`) in it");
        check(r#"{"mcpServers": {"t": {}}}"#, "mcpServers → t: it needs `command` or `url`");
        check(
            r#"{"mcpServers": {"t": {"command": "x", "args": "y"}}}"#,
            "mcpServers → t: `args` must be a list of strings",
        );
    }
}
