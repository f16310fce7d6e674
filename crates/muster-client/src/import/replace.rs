//! Takes imported servers out of the configuration of an MCP client, and puts them back.
//!
//! The first replacement backs up the file. Undo adds the entries of the backup that the file does not have; where
//! nothing else has changed, that is the original byte for byte.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};
use toml_edit::Item;

use super::{
    client_config::{EditError, json_document, to_text, toml_document},
    clients::ConfigFormat,
};
use crate::connect::{self, FileError};

/// The configuration file of a client whose servers are replaced.
#[derive(Debug)]
pub struct ReplacedFile {
    path: PathBuf,
    format: ConfigFormat,
    text: String,
}

impl ReplacedFile {
    /// Reads a file that exists.
    pub fn read(path: PathBuf, format: ConfigFormat) -> Result<Self, FileError> {
        let text = connect::read(&path)?;
        Ok(Self { path, format, text })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path of the backup.
    pub fn backup_path(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".before-import");
        self.path.with_file_name(name)
    }

    /// The text of the file without the servers of these names; `None` if it has none of them.
    pub fn without(&self, names: &[&str]) -> Result<Option<String>, EditError> {
        match self.format {
            ConfigFormat::Json(key) => {
                let mut document = json_document(&self.text)?;
                let mut removed = false;
                each_map(&mut document, key, |_, servers| {
                    for name in names {
                        removed |= servers.shift_remove(*name).is_some();
                    }
                });
                Ok(removed.then(|| to_text(&document)))
            }
            ConfigFormat::Toml(key) => {
                let mut document = toml_document(&self.text)?;
                let mut removed = false;
                if let Some(servers) = document.get_mut(key).and_then(Item::as_table_mut) {
                    names.iter().for_each(|name| removed |= servers.remove(name).is_some());
                }
                Ok(removed.then(|| document.to_string()))
            }
        }
    }

    /// Writes the file, and backs it up first unless there is a backup.
    pub fn write(&self, text: &str) -> Result<(), FileError> {
        let backup = self.backup_path();
        if !backup.exists() {
            connect::write(&backup, &self.text, &self.path)?;
        }
        connect::write(&self.path, text, &self.path)
    }

    /// Puts the servers of the backup back; `false` if there is no backup.
    pub fn undo(&self) -> Result<bool, UndoError> {
        let backup = self.backup_path();
        let original = match fs::read_to_string(&backup) {
            Ok(original) => original,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(_) => connect::read(&backup)?,
        };
        connect::write(&self.path, &self.restored(&original)?, &self.path)?;
        connect::delete(&backup)?;
        Ok(true)
    }

    /// The text with the servers of `original` that it does not have.
    fn restored(&self, original: &str) -> Result<String, EditError> {
        match self.format {
            ConfigFormat::Json(key) => {
                let mut document = json_document(&self.text)?;
                let mut before = json_document(original)?;
                let whole = before.clone();
                let mut lost: Vec<ProjectServers> = Vec::new();
                each_map(&mut before, key, |project, servers| {
                    lost.push((project.map(str::to_owned), std::mem::take(servers)));
                });
                for (project, servers) in lost {
                    let holder = match &project {
                        None => Some(&mut document),
                        Some(project) => {
                            document.get_mut(PROJECTS).and_then(|all| all.get_mut(project))
                        }
                    };
                    let Some(holder) = holder.and_then(Value::as_object_mut) else { continue };
                    let map = holder.entry(key).or_insert_with(|| Value::Object(Map::new()));
                    let map = map.as_object_mut().ok_or(EditError::ConfigFormat(key))?;
                    for (name, server) in servers {
                        map.entry(name).or_insert(server);
                    }
                }
                Ok(if document == whole { original.to_owned() } else { to_text(&document) })
            }
            ConfigFormat::Toml(key) => {
                let mut document = toml_document(&self.text)?;
                let before = toml_document(original)?;
                if let Some(servers) = before.get(key).and_then(Item::as_table) {
                    let map = document.entry(key).or_insert_with(toml_edit::table);
                    let map = map.as_table_mut().ok_or(EditError::ConfigFormat(key))?;
                    for (name, server) in servers {
                        if !map.contains_key(name) {
                            map.insert(name, server.clone());
                        }
                    }
                }
                let text = document.to_string();
                let lines = |text: &str| {
                    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
                    lines.sort();
                    lines
                };
                Ok(if lines(&text) == lines(original) { original.to_owned() } else { text })
            }
        }
    }
}

/// The servers of a project, or of all.
type ProjectServers = (Option<String>, Map<String, Value>);

/// Why servers were not put back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// Where Claude Code lists the servers of single projects.
const PROJECTS: &str = "projects";

/// Visits every map of servers in a document, with its project if it is that of one.
fn each_map(
    document: &mut Value,
    key: &str,
    mut visit: impl FnMut(Option<&str>, &mut Map<String, Value>),
) {
    if let Some(servers) = document.get_mut(key).and_then(Value::as_object_mut) {
        visit(None, servers);
    }
    let projects = document.get_mut(PROJECTS).and_then(Value::as_object_mut);
    for (name, project) in projects.into_iter().flatten() {
        if let Some(servers) = project.get_mut(key).and_then(Value::as_object_mut) {
            visit(Some(name), servers);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::ReplacedFile;
    use crate::import::clients::ConfigFormat;

    fn file(name: &str, text: &str, format: ConfigFormat) -> (tempfile::TempDir, ReplacedFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let file = ReplacedFile::read(path, format).unwrap();
        (folder, file)
    }

    fn again(file: &ReplacedFile) -> ReplacedFile {
        ReplacedFile::read(file.path.clone(), file.format).unwrap()
    }

    const JSON: &str = r#"{"theme": "dark",
  "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}},
  "projects": {"/p": {"mcpServers": {"c": {"command": "c"}}}}}
"#;

    #[test]
    fn servers_of_json_are_taken_out_and_put_back() {
        let (_folder, file) = file("c.json", JSON, ConfigFormat::Json("mcpServers"));
        assert_eq!(file.without(&["none"]).unwrap(), None);
        let text = file.without(&["a", "c"]).unwrap().unwrap();
        assert!(
            !text.contains("\"a\"") && text.contains("\"b\"") && !text.contains("\"c\""),
            "{text}"
        );
        file.write(&text).unwrap();
        assert!(again(&file).undo().unwrap());
        assert_eq!(fs::read_to_string(&file.path).unwrap(), JSON, "byte for byte");
        assert!(!file.backup_path().exists() && !again(&file).undo().unwrap());
    }

    #[test]
    fn later_changes_of_the_client_stay() {
        let (_folder, file) = file("c.json", JSON, ConfigFormat::Json("mcpServers"));
        let text = file.without(&["a", "b"]).unwrap().unwrap();
        file.write(&text.replace("dark", "light")).unwrap();
        assert!(again(&file).undo().unwrap());
        let now = fs::read_to_string(&file.path).unwrap();
        assert!(now.contains("light") && now.contains("\"a\"") && now.contains("\"b\""), "{now}");
    }

    #[test]
    fn servers_of_toml() {
        let before = "# mine\nmodel = 'x'\n\n[mcp_servers.a]\ncommand = \"a\" # why\n\n[mcp_servers.b]\ncommand = \"b\"\n";
        let (_folder, file) = file("c.toml", before, ConfigFormat::Toml("mcp_servers"));
        let text = file.without(&["a"]).unwrap().unwrap();
        assert!(text.starts_with("# mine\nmodel = 'x'\n") && !text.contains("servers.a"), "{text}");
        file.write(&text).unwrap();
        assert!(again(&file).undo().unwrap());
        assert_eq!(fs::read_to_string(&file.path).unwrap(), before);
    }
}
