//! `mcpServers` entries, the format in which MCP clients configure servers.

pub mod jsonc;
mod secret_settings;

use std::path::Path;

use muster_core::connect::Endpoint;
use serde_json::{Map, Value};
use thiserror::Error;

pub use self::secret_settings::secret_part;

/// The place of a server's entry in the configuration of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryKey {
    /// The project that the entry belongs to; `None` for an entry for all projects.
    pub project: Option<String>,
    /// Its name.
    pub name: String,
}

/// A server as a client's configuration describes it.
#[derive(Debug)]
pub struct ClientServer {
    /// How to reach it.
    pub endpoint: Endpoint,
    /// Whether the client starts it.
    pub is_enabled: bool,
    /// The settings that muster has no equivalent for.
    pub dropped: Vec<String>,
}

/// An entry of a client's configuration: the server, or why it cannot be used.
pub type ClientEntry = (EntryKey, Result<ClientServer, String>);

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
        problem: String,
    },
}

/// Keys under which clients list their servers.
const KEYS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "mcp"];
/// The key under which Claude Code lists the servers of single projects.
pub const PROJECTS: &str = "projects";
/// The settings of an entry that are read here.
const SETTINGS: [&str; 13] = [
    "command",
    "args",
    "env",
    "url",
    "serverUrl",
    "httpUrl",
    "type",
    "transport",
    "headers",
    "http_headers",
    "bearer_token_env_var",
    "disabled",
    "enabled",
];

/// Reads the servers that a client starts for all projects, in the order written. All of them must be valid; those of
/// single projects are left out.
pub fn parse(text: &str) -> Result<Vec<(String, Endpoint)>, McpJsonError> {
    let mut servers = Vec::new();
    for (EntryKey { project, name }, server) in read(text)? {
        match server {
            _ if project.is_some() => (),
            Ok(server) if server.is_enabled => servers.push((name, server.endpoint)),
            Ok(_) => (),
            Err(problem) => return Err(McpJsonError::Entry { server: name, problem }),
        }
    }
    Ok(servers)
}

/// Reads all entries of a file, in the order written. Comments and trailing commas are accepted.
pub fn read(text: &str) -> Result<Vec<ClientEntry>, McpJsonError> {
    let document = jsonc::parse(text).map_err(|err| McpJsonError::NotJson(err.to_string()))?;
    let has_servers = servers(&document.value).is_some()
        || document.value.get(PROJECTS).is_some_and(Value::is_object);
    match has_servers {
        true => Ok(entries(&document.value)),
        false => Err(McpJsonError::NoServers),
    }
}

/// The entries of a document: at the top level and, for Claude Code, of each project.
pub fn entries(document: &Value) -> Vec<ClientEntry> {
    let mut found = Vec::new();
    let mut take = |project: Option<&String>, holder: &Value| {
        for (name, entry) in servers(holder).into_iter().flatten() {
            let key = EntryKey { project: project.cloned(), name: name.clone() };
            found.push((key, server(entry)));
        }
    };
    take(None, document);
    for (name, project) in document.get(PROJECTS).and_then(Value::as_object).into_iter().flatten() {
        take(Some(name), project);
    }
    found
}

/// The map of servers in a document, or in one of its projects.
fn servers(holder: &Value) -> Option<&Map<String, Value>> {
    let (key, own) = KEYS.iter().find_map(|key| Some((*key, holder.get(key)?.as_object()?)))?;
    match key {
        // VS Code settings nest the servers one level deeper.
        "mcp" => own.get("servers")?.as_object(),
        _ => Some(own),
    }
}

fn server(entry: &Value) -> Result<ClientServer, String> {
    let entry = entry.as_object().ok_or("it must be an object")?;
    let flag = |key: &str| entry.get(key).and_then(Value::as_bool);
    let dropped = entry.keys().filter(|key| !SETTINGS.contains(&key.as_str())).cloned();
    Ok(ClientServer {
        endpoint: endpoint(entry)?,
        is_enabled: flag("disabled") != Some(true) && flag("enabled") != Some(false),
        dropped: dropped.collect(),
    })
}

fn endpoint(entry: &Map<String, Value>) -> Result<Endpoint, String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).map(str::to_owned);
    if let Some(command) = text("command") {
        let mut words = words(entry)?;
        // Some configurations put the whole command line into `command`.
        let (command, mut first) = split_command(&command, words.is_empty());
        first.append(&mut words);
        let env = pairs(entry, "env")?;
        return Ok(Endpoint::Stdio { command, args: first, env, inherit: Vec::new() });
    }
    let mut headers = pairs(entry, "headers")?;
    headers.extend(pairs(entry, "http_headers")?);
    if let Some(variable) = text("bearer_token_env_var") {
        headers.push(("Authorization".to_owned(), format!("Bearer ${{{variable}}}")));
    }
    // Gemini CLI uses `httpUrl` for streamable HTTP and `url` for HTTP+SSE.
    if let Some(url) = text("httpUrl") {
        return Ok(Endpoint::Http { url, headers });
    }
    let url = text("url").or_else(|| text("serverUrl")).ok_or("it needs `command` or `url`")?;
    let kind = text("type").or_else(|| text("transport")).unwrap_or_default();
    match kind == "sse" || (kind.is_empty() && url.trim_end_matches('/').ends_with("/sse")) {
        true => Ok(Endpoint::Sse { url, headers }),
        false => Ok(Endpoint::Http { url, headers }),
    }
}

fn split_command(command: &str, alone: bool) -> (String, Vec<String>) {
    let mut words = command.split_whitespace().map(str::to_owned);
    match (alone && !Path::new(command).exists(), words.next()) {
        (true, Some(first)) => (first, words.collect()),
        _ => (command.to_owned(), Vec::new()),
    }
}

fn words(entry: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(args) = entry.get("args") else { return Ok(Vec::new()) };
    let words = args.as_array().and_then(|words| words.iter().map(plain).collect());
    words.ok_or_else(|| "`args` must be a list of strings".to_owned())
}

fn pairs(entry: &Map<String, Value>, key: &str) -> Result<Vec<(String, String)>, String> {
    let Some(pairs) = entry.get(key) else { return Ok(Vec::new()) };
    let pairs = pairs.as_object().and_then(|pairs| {
        pairs.iter().map(|(name, value)| Some((name.clone(), plain(value)?))).collect()
    });
    pairs.ok_or_else(|| format!("`{key}` must be an object of strings"))
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{entries, jsonc, parse};

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let got = match parse(text) {
            Ok(servers) => format!("{servers:?}"),
            Err(err) => err.to_string(),
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn the_entries_of_a_file() {
        check(
            r#"{"mcpServers": {"t": {"command": "npx", "args": ["-y", "x"], "env": {"A": "1"}}}}"#,
            r#"[("t", Stdio { command: "npx", args: ["-y", "x"], env: [("A", "1")], inherit: [] })]"#,
        );
        check(
            r#"{"servers": {"a": {"type": "http", "url": "http://h/mcp", "headers": {"X": "y"}}, "b": {"type": "sse", "url": "http://h/sse"}}}"#,
            r#"[("a", Http { url: "http://h/mcp", headers: [("X", "y")] }), ("b", Sse { url: "http://h/sse", headers: [] })]"#,
        );
        check(
            "{\"mcpServers\": { // mine\n\"off\": {\"url\": \"http://h\", \"disabled\": true},}}",
            "[]",
        );
        check(
            r#"{"mcpServers": {"t": {"url": "http://h"}}, "projects": {"/p": {"mcpServers": {"e": {}, "t": {"command": "x"}}}}}"#,
            r#"[("t", Http { url: "http://h", headers: [] })]"#,
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

    #[track_caller]
    fn check_entries(text: &str, expect: &[&str]) {
        let found = entries(&jsonc::parse(text).unwrap().value).into_iter();
        let shown = found.map(|(key, server)| {
            let shown = server.map(|server| {
                let rest = match (server.is_enabled, server.dropped.join(", ")) {
                    (true, dropped) => dropped,
                    (false, dropped) => format!("disabled {dropped}"),
                };
                format!("{:?} {rest}", server.endpoint).trim_end().to_owned()
            });
            let project = key.project.map(|project| format!("{project} ")).unwrap_or_default();
            format!("{project}{}: {}", key.name, shown.unwrap_or_else(|err| err))
        });
        assert_eq!(shown.collect::<Vec<String>>(), expect);
    }

    #[test]
    fn reads_the_format_of_every_client() {
        check_entries(
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"N": 1}}}}"#,
            &[r#"a: Stdio { command: "npx", args: ["-y", "x"], env: [("N", "1")], inherit: [] }"#],
        );
        check_entries(
            r#"{"servers": {"b": {"type": "http", "url": "https://h/mcp", "headers": {"X": "y"}}}, "inputs": []}"#,
            &[r#"b: Http { url: "https://h/mcp", headers: [("X", "y")] }"#],
        );
        check_entries(
            r#"{"mcpServers": {"c": {"serverUrl": "https://h/sse"}, "d": {"httpUrl": "https://h/x"}}}"#,
            &[
                r#"c: Sse { url: "https://h/sse", headers: [] }"#,
                r#"d: Http { url: "https://h/x", headers: [] }"#,
            ],
        );
        check_entries(
            r#"{"projects": {"/p": {"mcpServers": {"e": {}}}}}"#,
            &["/p e: it needs `command` or `url`"],
        );
    }

    #[test]
    fn disabled_servers_and_unknown_settings() {
        check_entries(
            r#"{"mcpServers": {
                "a": {"url": "https://h", "disabled": true, "timeout": 5},
                "b": {"command": "b", "disabled": false, "cwd": "/w", "envFile": ".env"},
                "c": {"url": "https://h", "enabled": false}}}"#,
            &[
                r#"a: Http { url: "https://h", headers: [] } disabled timeout"#,
                r#"b: Stdio { command: "b", args: [], env: [], inherit: [] } cwd, envFile"#,
                r#"c: Http { url: "https://h", headers: [] } disabled"#,
            ],
        );
    }
}
