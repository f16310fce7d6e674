//! Reading MCP client configurations of every format.

use std::{
    fs,
    path::{Path, PathBuf},
};

use muster_config::{
    cli, mcpserver,
    yaml::{self, NodeValue},
};
use muster_core::connect::Endpoint;
use serde_json::{Map, Value};
use thiserror::Error;

use super::jsonc;

/// Something that can be imported.
#[derive(Debug)]
pub enum ImportItem {
    /// A server of a client.
    Server {
        /// Its name in the client.
        name: String,
        /// How to reach it, or why its entry cannot be used.
        endpoint: Result<Endpoint, String>,
    },
    /// A file of a muster configuration.
    File {
        /// The resource directory it belongs to.
        folder: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// Why a file cannot be imported.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// It is malformed.
    #[error("{}: {reason}", .path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
}

/// Keys under which clients list their servers.
const KEYS: [&str; 4] = ["mcpServers", "servers", "mcp_servers", "mcp"];
/// The resource directories of a muster configuration.
const FOLDERS: [&str; 6] =
    ["mcpservers", "clis", "policies", "workflows", "serviceclasses", "services"];

/// Reads the items of a file or directory.
pub fn read(path: &Path) -> Result<Vec<ImportItem>, ReadError> {
    if path.is_dir() {
        return folder(path);
    }
    let text = fs::read_to_string(path)
        .map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
    let wrong = |reason: String| ReadError::Format { path: path.to_owned(), reason };
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => {
            let document: toml_edit::DocumentMut =
                text.parse().map_err(|err: toml_edit::TomlError| wrong(err.to_string()))?;
            Ok(entries(&json(document.as_item())))
        }
        Some("yaml" | "yml") => yaml_file(path, &text).map_err(wrong),
        _ => {
            let document = jsonc::parse(&text).map_err(|err| wrong(format!("not JSON: {err}")))?;
            Ok(entries(&document.value))
        }
    }
}

/// The files of a muster configuration directory.
fn folder(path: &Path) -> Result<Vec<ImportItem>, ReadError> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        let Ok(files) = fs::read_dir(path.join(folder)) else { continue };
        let mut files: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
        files.sort();
        let is_yaml =
            |file: &PathBuf| file.extension().is_some_and(|end| end == "yaml" || end == "yml");
        found.extend(
            files.into_iter().filter(is_yaml).map(|path| ImportItem::File { folder, path }),
        );
    }
    if found.is_empty() {
        let reason = format!("it has none of the directories {}", FOLDERS.join(", "));
        return Err(ReadError::Format { path: path.to_owned(), reason });
    }
    Ok(found)
}

/// A YAML file of muster: an MCP server, a CLI, a workflow, a service class or a service.
fn yaml_file(path: &Path, text: &str) -> Result<Vec<ImportItem>, String> {
    let kind = yaml::parse(text).ok().and_then(|document| match &document.value {
        NodeValue::Map(members) => {
            let kind = members.iter().find(|(key, _)| key.as_text() == Some("kind"));
            kind.and_then(|(_, value)| value.as_text().map(str::to_owned))
        }
        _ => None,
    });
    let folder = match kind.as_deref() {
        Some("MCPServer") => "mcpservers",
        Some("Workflow") => "workflows",
        Some("ServiceClass") => "serviceclasses",
        Some("Service") => "services",
        Some(other) => return Err(format!("unknown `kind: {other}`")),
        None => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            match (cli::parse(text), mcpserver::parse(text, &stem)) {
                (Ok(_), _) => "clis",
                (Err(_), Ok(_)) => "mcpservers",
                (Err(err), Err(_)) => return Err(err.to_string()),
            }
        }
    };
    Ok(vec![ImportItem::File { folder, path: path.to_owned() }])
}

/// The servers of a document: at the top level and, for Claude Code, of each project.
fn entries(document: &Value) -> Vec<ImportItem> {
    let mut found = Vec::new();
    let mut take = |holder: &Value| {
        let servers = KEYS.iter().find_map(|key| {
            let below = holder.get(key)?;
            below.as_object().map(|own| (*key, own))
        });
        let servers = match servers {
            // VS Code settings nest the servers one level deeper.
            Some(("mcp", own)) => own.get("servers").and_then(Value::as_object),
            Some((_, own)) => Some(own),
            None => None,
        };
        for (name, entry) in servers.into_iter().flatten() {
            found.push(ImportItem::Server { name: name.clone(), endpoint: endpoint(entry) });
        }
    };
    take(document);
    for project in document.get("projects").and_then(Value::as_object).into_iter().flatten() {
        take(project.1);
    }
    found
}

fn endpoint(entry: &Value) -> Result<Endpoint, String> {
    let entry = entry.as_object().ok_or("it must be an object")?;
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

/// Converts TOML to JSON.
fn json(item: &toml_edit::Item) -> Value {
    match item {
        toml_edit::Item::None => Value::Null,
        toml_edit::Item::Value(value) => json_value(value),
        toml_edit::Item::Table(table) => {
            Value::Object(table.iter().map(|(key, item)| (key.to_owned(), json(item))).collect())
        }
        toml_edit::Item::ArrayOfTables(tables) => Value::Array(
            tables.iter().map(|table| json(&toml_edit::Item::Table(table.clone()))).collect(),
        ),
    }
}

fn json_value(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::String(text.value().clone()),
        toml_edit::Value::Integer(number) => (*number.value()).into(),
        toml_edit::Value::Float(number) => (*number.value()).into(),
        toml_edit::Value::Boolean(flag) => (*flag.value()).into(),
        toml_edit::Value::Datetime(time) => Value::String(time.value().to_string()),
        toml_edit::Value::Array(items) => Value::Array(items.iter().map(json_value).collect()),
        toml_edit::Value::InlineTable(table) => Value::Object(
            table.iter().map(|(key, value)| (key.to_owned(), json_value(value))).collect(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{ImportItem, entries, json};
    use crate::import::jsonc;

    fn seen(found: Vec<ImportItem>) -> Vec<String> {
        let shown = found.into_iter().map(|found| match found {
            ImportItem::Server { name, endpoint } => format!("{name}: {endpoint:?}"),
            ImportItem::File { folder, path } => format!("{folder}: {}", path.display()),
        });
        shown.collect()
    }

    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        assert_eq!(seen(entries(&jsonc::parse(text).unwrap().value)), expect);
    }

    #[test]
    fn reads_the_format_of_every_client() {
        check(
            r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"], "env": {"N": 1}}}}"#,
            &[
                r#"a: Ok(Stdio { command: "npx", args: ["-y", "x"], env: [("N", "1")], inherit: [] })"#,
            ],
        );
        check(
            r#"{"servers": {"b": {"type": "http", "url": "https://h/mcp", "headers": {"X": "y"}}}, "inputs": []}"#,
            &[r#"b: Ok(Http { url: "https://h/mcp", headers: [("X", "y")] })"#],
        );
        check(
            r#"{"mcpServers": {"c": {"serverUrl": "https://h/sse"}, "d": {"httpUrl": "https://h/x"}}}"#,
            &[
                r#"c: Ok(Sse { url: "https://h/sse", headers: [] })"#,
                r#"d: Ok(Http { url: "https://h/x", headers: [] })"#,
            ],
        );
        check(
            r#"{"projects": {"/p": {"mcpServers": {"e": {}}}}}"#,
            &[r#"e: Err("it needs `command` or `url`")"#],
        );
    }

    #[test]
    fn reads_toml() {
        let text = "model = \"x\"\n[mcp_servers.f]\ncommand = \"a\"\nargs = [\"b\"]\nenv = { K = \"v\" }\n\
                    [mcp_servers.g]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"T\"\n";
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        let expect = [
            r#"f: Ok(Stdio { command: "a", args: ["b"], env: [("K", "v")], inherit: [] })"#,
            r#"g: Ok(Http { url: "https://h/mcp", headers: [("Authorization", "Bearer ${T}")] })"#,
        ];
        assert_eq!(seen(entries(&json(document.as_item()))), expect);
    }
}
