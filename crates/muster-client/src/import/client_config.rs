//! Adds muster's entry to the configuration of an MCP client and removes it, leaving everything else unchanged.

use muster_config::mcp_json::jsonc::{self, JsonDialect};
use serde_json::{Map, Value, json};
use thiserror::Error;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::clients::ConfigFormat;

/// The name of muster's entry.
pub const NAME: &str = "muster";

/// Why a client's configuration cannot be edited.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// It is malformed.
    #[error("it cannot be read: {0}")]
    Format(String),
    /// It has comments, which rewriting would remove.
    #[error("it has comments, which would be lost")]
    Comments,
    /// The value under the key is not a map of servers.
    #[error("`{0}` in it is not a map of servers")]
    ConfigFormat(&'static str),
}

/// The command in muster's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCommand {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl ServerCommand {
    /// The JSON form of the entry.
    pub fn json(&self) -> Value {
        json!({"command": self.command, "args": self.args})
    }
}

/// The configuration with the entry added or replaced.
pub fn add_entry(
    text: &str,
    format: ConfigFormat,
    entry: &ServerCommand,
) -> Result<String, EditError> {
    match format {
        ConfigFormat::Json(key) => {
            let mut document = json_document(text)?;
            let top = document.as_object_mut().ok_or(EditError::ConfigFormat(key))?;
            let servers = top.entry(key).or_insert_with(|| Value::Object(Map::new()));
            let servers = servers.as_object_mut().ok_or(EditError::ConfigFormat(key))?;
            servers.insert(NAME.to_owned(), entry.json());
            Ok(to_text(&document))
        }
        ConfigFormat::Toml(key) => {
            let mut document = toml_document(text)?;
            let servers = document.entry(key).or_insert_with(implicit_table);
            let servers = servers.as_table_mut().ok_or(EditError::ConfigFormat(key))?;
            let mut table = Table::new();
            table.insert("command", value(&entry.command));
            table.insert("args", value(entry.args.iter().collect::<Array>()));
            servers.insert(NAME, Item::Table(table));
            Ok(document.to_string())
        }
    }
}

/// The configuration with the entry removed; `None` if it has none.
pub fn remove_entry(text: &str, format: ConfigFormat) -> Result<Option<String>, EditError> {
    match format {
        ConfigFormat::Json(key) => {
            let mut document = json_document(text)?;
            let servers = document.get_mut(key).and_then(Value::as_object_mut);
            let removed = servers.and_then(|servers| servers.shift_remove(NAME));
            Ok(removed.map(|_| to_text(&document)))
        }
        ConfigFormat::Toml(key) => {
            let mut document = toml_document(text)?;
            let servers = document.get_mut(key).and_then(Item::as_table_mut);
            let removed = servers.and_then(|servers| servers.remove(NAME));
            Ok(removed.map(|_| document.to_string()))
        }
    }
}

pub(super) fn json_document(text: &str) -> Result<Value, EditError> {
    let document = jsonc::parse(text).map_err(|err| EditError::Format(err.to_string()))?;
    match document.dialect {
        JsonDialect::Json => Ok(document.value),
        JsonDialect::WithComments => Err(EditError::Comments),
    }
}

pub(super) fn toml_document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|err: toml_edit::TomlError| EditError::Format(err.to_string()))
}

/// A TOML table without its own heading.
pub(super) fn implicit_table() -> Item {
    let mut table = Table::new();
    table.set_implicit(true);
    Item::Table(table)
}

pub(super) fn to_text(document: &Value) -> String {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::{EditError, ServerCommand, add_entry, remove_entry};
    use crate::import::clients::ConfigFormat;

    fn entry() -> ServerCommand {
        ServerCommand { command: "/bin/muster".to_owned(), args: vec!["standalone".to_owned()] }
    }

    #[test]
    fn json_keeps_the_other_entries() {
        let before = "{\n  \"z\": 1.50,\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n";
        let format = ConfigFormat::Json("mcpServers");
        let after = add_entry(before, format, &entry()).unwrap();
        assert!(after.contains("/bin/muster") && after.contains("\"a\": {}"), "{after}");
        assert_eq!(add_entry(&after, format, &entry()).unwrap(), after, "twice is once");
        let undone = remove_entry(&after, format).unwrap().unwrap();
        assert_eq!(undone.replace("1.5,", "1.50,"), before);
        assert_eq!(remove_entry(before, format).unwrap(), None);
        assert!(add_entry("", format, &entry()).unwrap().contains("mcpServers"));
        assert_eq!(add_entry("{} // c", format, &entry()), Err(EditError::Comments));
        assert_eq!(
            add_entry("{\"mcpServers\": 1}", format, &entry()),
            Err(EditError::ConfigFormat("mcpServers"))
        );
    }

    #[test]
    fn toml_keeps_comments_and_layout() {
        let before = "# mine\nmodel = 'x'   # y\n\n[mcp_servers.a]\ncommand = \"b\"\n";
        let format = ConfigFormat::Toml("mcp_servers");
        let after = add_entry(before, format, &entry()).unwrap();
        assert!(after.starts_with(before), "{after}");
        assert!(after.contains("[mcp_servers.muster]\ncommand = \"/bin/muster\""), "{after}");
        assert_eq!(remove_entry(&after, format).unwrap().unwrap(), before);
    }
}
