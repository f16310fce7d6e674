//! Reading MCP client configurations of every format.

use std::{
    fs,
    path::{Path, PathBuf},
};

use muster_config::{
    formats::{FORMATS, FileFormat},
    yaml,
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
        /// Its entry in the client's file.
        key: EntryKey,
        /// What the entry says, or why it cannot be used.
        server: Result<ClientServer, String>,
    },
    /// A file of a muster configuration.
    File {
        /// The resource directory it belongs to.
        folder: &'static str,
        /// The file.
        path: PathBuf,
    },
}

/// The place of a server's entry in the configuration of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryKey {
    /// The project whose entry it is; none if it is an entry for all.
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
    /// The settings that muster has no equivalent of.
    pub dropped: Vec<String>,
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
/// Where Claude Code lists the servers of single projects.
pub(super) const PROJECTS: &str = "projects";
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
    for folder in FORMATS.iter().filter_map(FileFormat::folder) {
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
        let folders: Vec<&str> = FORMATS.iter().filter_map(FileFormat::folder).collect();
        let reason = format!("it has none of the directories {}", folders.join(", "));
        return Err(ReadError::Format { path: path.to_owned(), reason });
    }
    Ok(found)
}

/// A file of a muster configuration, by its contents.
fn yaml_file(path: &Path, text: &str) -> Result<Vec<ImportItem>, String> {
    yaml::parse(text).map_err(|err| err.to_string())?;
    let format = FileFormat::of_text(text).ok_or("its `kind` or its keys are unknown")?;
    let folder = format.folder().ok_or("it is the configuration of a gateway: copy it yourself")?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    format.check(text, &stem).map_err(|err| err.to_string())?;
    Ok(vec![ImportItem::File { folder, path: path.to_owned() }])
}

/// The servers of a document: at the top level and, for Claude Code, of each project.
fn entries(document: &Value) -> Vec<ImportItem> {
    let mut found = Vec::new();
    let mut take = |project: Option<&String>, holder: &Value| {
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
            let key = EntryKey { project: project.cloned(), name: name.clone() };
            found.push(ImportItem::Server { key, server: server(entry) });
        }
    };
    take(None, document);
    for (name, project) in document.get(PROJECTS).and_then(Value::as_object).into_iter().flatten() {
        take(Some(name), project);
    }
    found
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
    use std::path::Path;

    use super::{ImportItem, entries, json, yaml_file};
    use crate::import::jsonc;

    fn seen(found: Vec<ImportItem>) -> Vec<String> {
        let shown = found.into_iter().map(|found| match found {
            ImportItem::Server { key, server } => {
                let shown = server.map(|server| {
                    let rest = match (server.is_enabled, server.dropped.join(", ")) {
                        (true, dropped) => dropped,
                        (false, dropped) => format!("disabled {dropped}"),
                    };
                    format!("{:?} {rest}", server.endpoint).trim_end().to_owned()
                });
                let project = key.project.map(|project| format!("{project} ")).unwrap_or_default();
                format!("{project}{}: {}", key.name, shown.unwrap_or_else(|err| err))
            }
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
            &[r#"a: Stdio { command: "npx", args: ["-y", "x"], env: [("N", "1")], inherit: [] }"#],
        );
        check(
            r#"{"servers": {"b": {"type": "http", "url": "https://h/mcp", "headers": {"X": "y"}}}, "inputs": []}"#,
            &[r#"b: Http { url: "https://h/mcp", headers: [("X", "y")] }"#],
        );
        check(
            r#"{"mcpServers": {"c": {"serverUrl": "https://h/sse"}, "d": {"httpUrl": "https://h/x"}}}"#,
            &[
                r#"c: Sse { url: "https://h/sse", headers: [] }"#,
                r#"d: Http { url: "https://h/x", headers: [] }"#,
            ],
        );
        check(
            r#"{"projects": {"/p": {"mcpServers": {"e": {}}}}}"#,
            &["/p e: it needs `command` or `url`"],
        );
    }

    #[test]
    fn disabled_servers_and_unknown_settings() {
        check(
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

    #[test]
    fn files_are_recognized_by_their_contents() {
        let folder_of = |text: &str| match yaml_file(Path::new("x.yaml"), text).as_deref() {
            Ok([ImportItem::File { folder, .. }]) => (*folder).to_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(folder_of("kind: Toolset\nspec: {servers: [a]}\n"), "toolsets");
        assert_eq!(folder_of("name: x\nurl: http://h/mcp\n"), "mcpservers");
        assert!(folder_of("kind: Rocket\n").contains("are unknown"));
        assert!(folder_of("aggregator: {port: 1}\n").contains("copy it yourself"));
    }

    #[test]
    fn reads_toml() {
        let text = "model = \"x\"\n[mcp_servers.f]\ncommand = \"a\"\nargs = [\"b\"]\nenv = { K = \"v\" }\n\
                    [mcp_servers.g]\nurl = \"https://h/mcp\"\nbearer_token_env_var = \"T\"\n";
        let document: toml_edit::DocumentMut = text.parse().unwrap();
        let expect = [
            r#"f: Stdio { command: "a", args: ["b"], env: [("K", "v")], inherit: [] }"#,
            r#"g: Http { url: "https://h/mcp", headers: [("Authorization", "Bearer ${T}")] }"#,
        ];
        assert_eq!(seen(entries(&json(document.as_item()))), expect);
    }
}
