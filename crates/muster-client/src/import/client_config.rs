//! muster's own entry in the configuration of a client: put in, taken out, everything else left alone.

use serde_json::{Map, Value, json};
use thiserror::Error;
use toml_edit::{Array, DocumentMut, Item, Table, value};

use super::{
    clients::Shape,
    jsonc::{self, Dialect},
};

/// What muster is called there.
pub const NAME: &str = "muster";

/// Why a file cannot be edited.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum EditError {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Format(String),
    /// Writing it anew would lose comments.
    #[error("it has comments, which would be lost")]
    Comments,
    /// Something else stands where servers should be.
    #[error("`{0}` in it is no list of servers")]
    Shape(&'static str),
}

/// The command of muster's entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
}

impl Entry {
    /// The entry as JSON.
    pub fn json(&self) -> Value {
        json!({"command": self.command, "args": self.args})
    }
}

/// The file with the entry in it.
pub fn with(text: &str, shape: Shape, entry: &Entry) -> Result<String, EditError> {
    match shape {
        Shape::Json(key) => {
            let mut document = json_document(text)?;
            let top = document.as_object_mut().ok_or(EditError::Shape(key))?;
            let servers = top.entry(key).or_insert_with(|| Value::Object(Map::new()));
            let servers = servers.as_object_mut().ok_or(EditError::Shape(key))?;
            servers.insert(NAME.to_owned(), entry.json());
            Ok(written(&document))
        }
        Shape::Toml(key) => {
            let mut document = toml_document(text)?;
            let servers = document.entry(key).or_insert_with(|| {
                let mut servers = Table::new();
                servers.set_implicit(true);
                Item::Table(servers)
            });
            let servers = servers.as_table_mut().ok_or(EditError::Shape(key))?;
            let mut table = Table::new();
            table.insert("command", value(&entry.command));
            table.insert("args", value(entry.args.iter().collect::<Array>()));
            servers.insert(NAME, Item::Table(table));
            Ok(document.to_string())
        }
    }
}

/// The file without the entry; none if it has no such entry.
pub fn without(text: &str, shape: Shape) -> Result<Option<String>, EditError> {
    match shape {
        Shape::Json(key) => {
            let mut document = json_document(text)?;
            let servers = document.get_mut(key).and_then(Value::as_object_mut);
            let removed = servers.and_then(|servers| servers.shift_remove(NAME));
            Ok(removed.map(|_| written(&document)))
        }
        Shape::Toml(key) => {
            let mut document = toml_document(text)?;
            let servers = document.get_mut(key).and_then(Item::as_table_mut);
            let removed = servers.and_then(|servers| servers.remove(NAME));
            Ok(removed.map(|_| document.to_string()))
        }
    }
}

fn json_document(text: &str) -> Result<Value, EditError> {
    let document = jsonc::parse(text).map_err(|err| EditError::Format(err.to_string()))?;
    match document.dialect {
        Dialect::Json => Ok(document.value),
        Dialect::WithComments => Err(EditError::Comments),
    }
}

fn toml_document(text: &str) -> Result<DocumentMut, EditError> {
    text.parse().map_err(|err: toml_edit::TomlError| EditError::Format(err.to_string()))
}

fn written(document: &Value) -> String {
    let text = serde_json::to_string_pretty(document).unwrap_or_default();
    format!("{text}\n")
}

#[cfg(test)]
mod tests {
    use super::{EditError, Entry, with, without};
    use crate::import::clients::Shape;

    fn entry() -> Entry {
        Entry { command: "/bin/muster".to_owned(), args: vec!["standalone".to_owned()] }
    }

    #[test]
    fn json_keeps_what_else_is_in_it() {
        let before = "{\n  \"z\": 1.50,\n  \"mcpServers\": {\n    \"a\": {}\n  }\n}\n";
        let shape = Shape::Json("mcpServers");
        let after = with(before, shape, &entry()).unwrap();
        assert!(after.contains("/bin/muster") && after.contains("\"a\": {}"), "{after}");
        assert_eq!(with(&after, shape, &entry()).unwrap(), after, "twice is once");
        let undone = without(&after, shape).unwrap().unwrap();
        assert_eq!(undone.replace("1.5,", "1.50,"), before);
        assert_eq!(without(before, shape).unwrap(), None);
        assert!(with("", shape, &entry()).unwrap().contains("mcpServers"));
        assert_eq!(with("{} // c", shape, &entry()), Err(EditError::Comments));
        assert_eq!(
            with("{\"mcpServers\": 1}", shape, &entry()),
            Err(EditError::Shape("mcpServers"))
        );
    }

    #[test]
    fn toml_keeps_comments_and_layout() {
        let before = "# mine\nmodel = 'x'   # y\n\n[mcp_servers.a]\ncommand = \"b\"\n";
        let shape = Shape::Toml("mcp_servers");
        let after = with(before, shape, &entry()).unwrap();
        assert!(after.starts_with(before), "{after}");
        assert!(after.contains("[mcp_servers.muster]\ncommand = \"/bin/muster\""), "{after}");
        assert_eq!(without(&after, shape).unwrap().unwrap(), before);
    }
}
