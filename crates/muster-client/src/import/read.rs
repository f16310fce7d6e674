//! Reading MCP client configurations of every format.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub use muster_config::mcp_json::{ClientServer, EntryKey};
use muster_config::{
    formats::{FORMATS, FileFormat},
    mcp_json::{self, jsonc},
    yaml,
};
use serde_json::Value;
use thiserror::Error;

/// Something that can be imported.
#[derive(Debug)]
pub enum ImportItem {
    /// A server of a client.
    Server {
        /// Its entry in the client's file.
        key: EntryKey,
        /// The server, or why its entry cannot be used.
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

/// Reads a muster configuration file, whose kind follows from its contents.
fn yaml_file(path: &Path, text: &str) -> Result<Vec<ImportItem>, String> {
    yaml::parse(text).map_err(|err| err.to_string())?;
    let format = FileFormat::of_text(text).ok_or("its `kind` or its keys are unknown")?;
    let folder = format.folder().ok_or("it is the configuration of a gateway: copy it yourself")?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    format.check(text, &stem).map_err(|err| err.to_string())?;
    Ok(vec![ImportItem::File { folder, path: path.to_owned() }])
}

/// The servers of a document.
fn entries(document: &Value) -> Vec<ImportItem> {
    let entries = mcp_json::entries(document).into_iter();
    entries.map(|(key, server)| ImportItem::Server { key, server }).collect()
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
        let found = entries(&json(document.as_item())).into_iter().map(|item| match item {
            ImportItem::Server { key, server } => {
                format!("{}: {:?}", key.name, server.unwrap().endpoint)
            }
            ImportItem::File { .. } => panic!("a file"),
        });
        let expect = [
            r#"f: Stdio { command: "a", args: ["b"], env: [("K", "v")], inherit: [] }"#,
            r#"g: Http { url: "https://h/mcp", headers: [("Authorization", "Bearer ${T}")] }"#,
        ];
        assert_eq!(found.collect::<Vec<_>>(), expect);
    }
}
