//! Takes imported servers out of the configuration of an MCP client, and puts them back.
//!
//! The first replacement backs up the file. A later one adds the entries that it takes out to that backup. Undo adds
//! the entries of the backup that the file lacks. If nothing else has changed, the result is the original byte for
//! byte.
//!
//! **Invariant:** a replacement edits the current text of the file, and takes out only entries that are unchanged since
//! they were imported. A client may write its file at any time.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use muster_config::mcp_json::PROJECTS;
use serde_json::{Map, Value};
use toml_edit::Item;

use super::{
    client_config::{EditError, implicit_table, json_document, to_text, toml_document},
    clients::ConfigFormat,
    read::EntryKey,
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

    /// Returns the entries that the file has.
    pub fn present(&self, keys: &[EntryKey]) -> Result<Vec<EntryKey>, EditError> {
        let document = ClientDocument::parse(&self.text, self.format)?;
        Ok(keys.iter().filter(|key| document.get(key).is_some()).cloned().collect())
    }

    /// Moves the entries from the current file to the backup. Keeps entries that the client has changed since the file
    /// was read, and returns them.
    pub fn take_out(&self, keys: &[EntryKey]) -> Result<Vec<EntryKey>, ReplaceError> {
        let planned = ClientDocument::parse(&self.text, self.format)?;
        let current = Self::read(self.path.clone(), self.format)?.text;
        let mut document = ClientDocument::parse(&current, self.format)?;
        let (taken, changed): (Vec<EntryKey>, Vec<EntryKey>) = keys
            .iter()
            .filter(|key| document.get(key).is_some())
            .cloned()
            .partition(|key| document.get(key) == planned.get(key));
        if taken.is_empty() {
            return Ok(changed);
        }
        let backup = match self.backup()? {
            None => current,
            Some(earlier) => {
                let mut backup = ClientDocument::parse(&earlier, self.format)?;
                for key in &taken {
                    backup.put_from(&document, key)?;
                }
                backup.text()
            }
        };
        connect::write(&self.backup_path(), &backup, &self.path)?;
        taken.iter().for_each(|key| document.remove(key));
        connect::write(&self.path, &document.text(), &self.path)?;
        Ok(changed)
    }

    /// Puts the servers of the backup back. Returns `false` if there is no backup.
    pub fn undo(&self) -> Result<bool, ReplaceError> {
        let Some(original) = self.backup()? else { return Ok(false) };
        connect::write(&self.path, &self.restored(&original)?, &self.path)?;
        connect::delete(&self.backup_path())?;
        Ok(true)
    }

    fn backup(&self) -> Result<Option<String>, FileError> {
        let backup = self.backup_path();
        match fs::read_to_string(&backup) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(_) => connect::read(&backup).map(Some),
        }
    }

    /// The text with the servers of `original` that it lacks added.
    fn restored(&self, original: &str) -> Result<String, EditError> {
        let mut document = ClientDocument::parse(&self.text, self.format)?;
        let before = ClientDocument::parse(original, self.format)?;
        for key in before.keys() {
            if document.get(&key).is_none() {
                document.put_from(&before, &key)?;
            }
        }
        Ok(if document.is_equivalent(&before) { original.to_owned() } else { document.text() })
    }
}

/// Why servers were not taken out or put back.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file cannot be edited.
    #[error(transparent)]
    Edit(#[from] EditError),
}

/// The configuration of a client, with the key of its maps of servers.
enum ClientDocument {
    Json(Value, &'static str),
    Toml(toml_edit::DocumentMut, &'static str),
}

impl ClientDocument {
    fn parse(text: &str, format: ConfigFormat) -> Result<Self, EditError> {
        Ok(match format {
            ConfigFormat::Json(servers) => Self::Json(json_document(text)?, servers),
            ConfigFormat::Toml(servers) => Self::Toml(toml_document(text)?, servers),
        })
    }

    fn text(&self) -> String {
        match self {
            Self::Json(document, _) => to_text(document),
            Self::Toml(document, _) => document.to_string(),
        }
    }

    /// Every entry.
    fn keys(&self) -> Vec<EntryKey> {
        let of = |project: Option<&String>, names: Vec<String>| {
            let key = |name| EntryKey { project: project.cloned(), name };
            names.into_iter().map(key).collect::<Vec<_>>()
        };
        match self {
            Self::Json(document, servers) => {
                let names = |holder: &Value| {
                    let servers = holder.get(servers).and_then(Value::as_object);
                    servers.into_iter().flat_map(|own| own.keys().cloned()).collect()
                };
                let mut keys = of(None, names(document));
                let projects = document.get(PROJECTS).and_then(Value::as_object);
                for (project, holder) in projects.into_iter().flatten() {
                    keys.extend(of(Some(project), names(holder)));
                }
                keys
            }
            Self::Toml(document, servers) => {
                let servers = document.get(servers).and_then(Item::as_table_like);
                let names = servers.into_iter().flat_map(|own| own.iter());
                of(None, names.map(|(name, _)| name.to_owned()).collect())
            }
        }
    }

    /// Returns an entry as text, for comparison.
    fn get(&self, key: &EntryKey) -> Option<String> {
        match self {
            Self::Json(document, servers) => {
                let holder = match &key.project {
                    None => document,
                    Some(project) => document.get(PROJECTS)?.get(project)?,
                };
                Some(holder.get(servers)?.get(&key.name)?.to_string())
            }
            Self::Toml(document, servers) => {
                Some(document.get(servers)?.get(&key.name)?.to_string())
            }
        }
    }

    fn remove(&mut self, key: &EntryKey) {
        match self {
            Self::Json(document, servers) => {
                let holder = match &key.project {
                    None => Some(document),
                    Some(project) => {
                        document.get_mut(PROJECTS).and_then(|projects| projects.get_mut(project))
                    }
                };
                let servers = holder.and_then(|holder| holder.get_mut(*servers));
                if let Some(servers) = servers.and_then(Value::as_object_mut) {
                    servers.shift_remove(&key.name);
                }
            }
            Self::Toml(document, servers) => {
                let servers = document.get_mut(servers).and_then(Item::as_table_like_mut);
                servers.and_then(|servers| servers.remove(&key.name));
            }
        }
    }

    /// Copies an entry from another document of the same format, replacing an existing one.
    fn put_from(&mut self, other: &Self, key: &EntryKey) -> Result<(), EditError> {
        match (self, other) {
            (Self::Json(document, servers), Self::Json(other, _)) => {
                let mut holder = document;
                let mut from = Some(other);
                if let Some(project) = &key.project {
                    holder = member(member(holder, PROJECTS, servers)?, project, servers)?;
                    from = other.get(PROJECTS).and_then(|projects| projects.get(project));
                }
                let entry = from.and_then(|from| from.get(*servers)?.get(&key.name));
                if let Some(entry) = entry {
                    *member(member(holder, servers, servers)?, &key.name, servers)? = entry.clone();
                }
            }
            (Self::Toml(document, servers), Self::Toml(other, _)) => {
                let map = document.entry(servers).or_insert_with(implicit_table);
                let map = map.as_table_like_mut().ok_or(EditError::ConfigFormat(servers))?;
                if let Some(entry) = other.get(servers).and_then(|own| own.get(&key.name)) {
                    map.insert(&key.name, entry.clone());
                }
            }
            _ => (),
        }
        Ok(())
    }

    /// Whether two documents are equivalent.
    fn is_equivalent(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Json(one, _), Self::Json(other, _)) => one == other,
            (Self::Toml(one, _), Self::Toml(other, _)) => {
                let lines = |document: &toml_edit::DocumentMut| {
                    let mut lines: Vec<String> =
                        document.to_string().lines().map(str::to_owned).collect();
                    lines.sort();
                    lines
                };
                lines(one) == lines(other)
            }
            _ => false,
        }
    }
}

/// Returns a member of an object, created as an empty object if it is missing.
fn member<'a>(
    holder: &'a mut Value,
    name: &str,
    servers: &'static str,
) -> Result<&'a mut Value, EditError> {
    let holder = holder.as_object_mut().ok_or(EditError::ConfigFormat(servers))?;
    Ok(holder.entry(name).or_insert_with(|| Value::Object(Map::new())))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{EntryKey, ReplacedFile};
    use crate::import::clients::ConfigFormat;

    fn file(name: &str, text: &str, format: ConfigFormat) -> (tempfile::TempDir, ReplacedFile) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        let file = ReplacedFile::read(path, format).unwrap();
        (folder, file)
    }

    fn json(text: &str) -> (tempfile::TempDir, ReplacedFile) {
        file("c.json", text, ConfigFormat::Json("mcpServers"))
    }

    fn again(file: &ReplacedFile) -> ReplacedFile {
        ReplacedFile::read(file.path.clone(), file.format).unwrap()
    }

    /// Keys written as `name` or `project:name`.
    fn keys(names: &[&str]) -> Vec<EntryKey> {
        let key = |text: &&str| {
            let (project, name) =
                text.split_once(':').map_or((None, *text), |(project, name)| (Some(project), name));
            EntryKey { project: project.map(str::to_owned), name: name.to_owned() }
        };
        names.iter().map(key).collect()
    }

    fn text(file: &ReplacedFile) -> String {
        fs::read_to_string(&file.path).unwrap()
    }

    const JSON: &str = r#"{"theme": "dark",
  "mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}},
  "projects": {"/p": {"mcpServers": {"c": {"command": "c"}}}, "/q": {"mcpServers": {"c": 1}}}}
"#;

    #[test]
    fn servers_of_json_are_taken_out_and_put_back() {
        let (_folder, file) = json(JSON);
        assert_eq!(file.present(&keys(&["none", "c", "a"])).unwrap(), keys(&["a"]));
        assert_eq!(file.take_out(&keys(&["none"])).unwrap(), []);
        assert_eq!(text(&file), JSON);
        assert_eq!(file.take_out(&keys(&["a", "/p:c"])).unwrap(), []);
        let after: serde_json::Value = serde_json::from_str(&text(&file)).unwrap();
        assert_eq!(after["mcpServers"], serde_json::json!({"b": {"command": "b"}}));
        assert_eq!(after["projects"]["/p"]["mcpServers"], serde_json::json!({}));
        assert_eq!(after["projects"]["/q"]["mcpServers"]["c"], 1, "that of another project");
        assert!(again(&file).undo().unwrap());
        assert_eq!(text(&file), JSON, "byte for byte");
        assert!(!file.backup_path().exists() && !again(&file).undo().unwrap());
    }

    #[test]
    fn later_changes_of_the_client_stay() {
        let (_folder, file) = json(JSON);
        file.take_out(&keys(&["a", "b", "/p:c"])).unwrap();
        fs::write(&file.path, text(&file).replace("dark", "light").replace("\"/p\"", "\"/r\""))
            .unwrap();
        assert!(again(&file).undo().unwrap());
        let now: serde_json::Value = serde_json::from_str(&text(&file)).unwrap();
        assert_eq!(now["theme"], "light");
        assert!(now["mcpServers"]["a"].is_object() && now["mcpServers"]["b"].is_object(), "{now}");
        assert!(now["projects"]["/p"]["mcpServers"]["c"].is_object(), "{now}");
    }

    #[test]
    fn changes_between_the_plan_and_its_execution_stay() {
        let (_folder, file) = json(JSON);
        let meanwhile = JSON.replace("dark", "light").replace(r#""command": "b""#, r#""url": "u""#);
        fs::write(&file.path, &meanwhile).unwrap();
        assert_eq!(file.take_out(&keys(&["a", "b"])).unwrap(), keys(&["b"]));
        let now = text(&file);
        assert!(
            now.contains("light") && now.contains("\"url\"") && !now.contains("\"a\""),
            "{now}"
        );
        assert_eq!(fs::read_to_string(file.backup_path()).unwrap(), meanwhile);
        assert!(again(&file).undo().unwrap());
        assert_eq!(text(&file), meanwhile);
    }

    #[test]
    fn a_second_replacement_adds_to_the_backup() {
        let (_folder, file) = json(r#"{"mcpServers": {"a": {"command": "1"}, "b": {}}}"#);
        file.take_out(&keys(&["a"])).unwrap();
        let client = r#"{"mcpServers": {"a": {"command": "2"}, "b": {}, "c": {}, "muster": {}}}"#;
        fs::write(&file.path, client).unwrap();
        again(&file).take_out(&keys(&["a", "c"])).unwrap();
        fs::write(&file.path, text(&file).replace("muster", "other")).unwrap();
        assert!(again(&file).undo().unwrap());
        let now: serde_json::Value = serde_json::from_str(&text(&file)).unwrap();
        let all = serde_json::json!({"b": {}, "other": {}, "a": {"command": "2"}, "c": {}});
        assert_eq!(now["mcpServers"], all);
    }

    #[test]
    fn servers_of_toml() {
        let before = "# mine\nmodel = 'x'\n\n[mcp_servers.a]\ncommand = \"a\" # why\n\n[mcp_servers.b]\ncommand = \"b\"\n";
        let (_folder, file) = file("c.toml", before, ConfigFormat::Toml("mcp_servers"));
        file.take_out(&keys(&["a"])).unwrap();
        let after = text(&file);
        assert!(
            after.starts_with("# mine\nmodel = 'x'\n") && !after.contains("servers.a"),
            "{after}"
        );
        assert!(again(&file).undo().unwrap());
        assert_eq!(text(&file), before);
        let meanwhile = before.replace("\"b\"", "\"c\"");
        fs::write(&file.path, &meanwhile).unwrap();
        assert_eq!(file.take_out(&keys(&["a", "b"])).unwrap(), keys(&["b"]));
        assert!(text(&file).contains("command = \"c\""), "{}", text(&file));
        again(&file).take_out(&keys(&["b"])).unwrap();
        assert!(again(&file).undo().unwrap());
        assert_eq!(text(&file), meanwhile);
    }
}
