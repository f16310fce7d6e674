//! Contexts: named gateway endpoints, stored in `contexts.yaml` in the user's configuration directory.

mod file;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use muster_core::value::Value;
use thiserror::Error;

use crate::user_dirs::{self, NoHome};

/// A named gateway endpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// Its name.
    pub name: String,
    /// Its address.
    pub endpoint: String,
    /// Its settings, in the order of the file.
    pub settings: Vec<(String, Value)>,
}

/// All contexts, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Contexts {
    /// The name of the context that is used by default.
    pub current: Option<String>,
    /// The contexts.
    pub all: Vec<Context>,
}

/// Why the contexts could not be read or changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ContextError {
    /// The name is empty.
    #[error("context name cannot be empty")]
    EmptyName,
    /// The name is too long.
    #[error("context name cannot exceed 63 characters")]
    LongName,
    /// The name has characters that are not allowed.
    #[error(
        "context name must contain only lowercase letters, numbers, and hyphens, and must start and end with an alphanumeric character"
    )]
    InvalidName,
    /// The endpoint is empty.
    #[error("endpoint cannot be empty")]
    EmptyEndpoint,
    /// The endpoint is not a URL.
    #[error(
        "the endpoint `{0}` is not a URL: write it as `http://HOST:PORT/mcp` or `https://HOST/mcp`"
    )]
    InvalidEndpoint(String),
    /// A context of this name exists.
    #[error("context \"{0}\" already exists")]
    Exists(String),
    /// There is no context of this name.
    #[error("context \"{0}\" not found")]
    Unknown(String),
    /// The file cannot be read or written, or is malformed.
    #[error("{0}")]
    File(String),
    /// There is no directory for the file.
    #[error(transparent)]
    NoHome(#[from] NoHome),
}

fn path() -> Result<PathBuf, ContextError> {
    Ok(user_dirs::config()?.join("contexts.yaml"))
}

impl Contexts {
    /// Reads the file. If it does not exist, there are no contexts.
    pub fn load() -> Result<Self, ContextError> {
        let path = path()?;
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(err) => return Err(cannot(&path, &err)),
        };
        file::parse(&text).map_err(|what| ContextError::File(format!("{}: {what}", path.display())))
    }

    /// Writes the file atomically: other readers see the old contents or the new ones.
    pub fn save(&self) -> Result<(), ContextError> {
        let path = path()?;
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(|err| cannot(folder, &err))?;
        let next = folder.join(format!(".contexts.yaml.{}", std::process::id()));
        fs::write(&next, file::write(self)).map_err(|err| cannot(&next, &err))?;
        fs::rename(&next, &path).map_err(|err| cannot(&path, &err))
    }

    /// The context of a name.
    pub fn get(&self, name: &str) -> Option<&Context> {
        self.all.iter().find(|context| context.name == name)
    }

    /// The current context, if there is one and it exists.
    pub fn current(&self) -> Option<&Context> {
        self.get(self.current.as_deref()?)
    }

    /// Adds a context.
    pub fn add(&mut self, name: &str, endpoint: &str) -> Result<(), ContextError> {
        check_name(name)?;
        check_endpoint(endpoint)?;
        if self.get(name).is_some() {
            return Err(ContextError::Exists(name.to_owned()));
        }
        let (name, endpoint) = (name.to_owned(), endpoint.to_owned());
        self.all.push(Context { name, endpoint, settings: Vec::new() });
        Ok(())
    }

    /// Makes a context the current one.
    pub fn switch(&mut self, name: &str) -> Result<(), ContextError> {
        self.find(name)?;
        self.current = Some(name.to_owned());
        Ok(())
    }

    /// Deletes a context. Returns whether it was the current one, which is unset then.
    pub fn remove(&mut self, name: &str) -> Result<bool, ContextError> {
        self.find(name)?;
        self.all.retain(|context| context.name != name);
        let was_current = self.current.as_deref() == Some(name);
        if was_current {
            self.current = None;
        }
        Ok(was_current)
    }

    /// Renames a context.
    pub fn rename(&mut self, from: &str, to: &str) -> Result<(), ContextError> {
        check_name(to)?;
        if self.get(to).is_some() {
            return Err(ContextError::Exists(to.to_owned()));
        }
        to.clone_into(&mut self.find(from)?.name);
        if self.current.as_deref() == Some(from) {
            self.current = Some(to.to_owned());
        }
        Ok(())
    }

    /// Changes the endpoint of a context.
    pub fn update(&mut self, name: &str, endpoint: &str) -> Result<(), ContextError> {
        check_endpoint(endpoint)?;
        endpoint.clone_into(&mut self.find(name)?.endpoint);
        Ok(())
    }

    fn find(&mut self, name: &str) -> Result<&mut Context, ContextError> {
        let found = self.all.iter_mut().find(|context| context.name == name);
        found.ok_or_else(|| ContextError::Unknown(name.to_owned()))
    }
}

fn check_name(name: &str) -> Result<(), ContextError> {
    let allowed = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    if name.is_empty() {
        return Err(ContextError::EmptyName);
    }
    if name.chars().count() > 63 {
        return Err(ContextError::LongName);
    }
    let all_allowed = name.chars().all(|letter| allowed(letter) || letter == '-');
    if all_allowed && name.starts_with(allowed) && name.ends_with(allowed) {
        return Ok(());
    }
    Err(ContextError::InvalidName)
}

fn check_endpoint(endpoint: &str) -> Result<(), ContextError> {
    match endpoint.split_once("://") {
        _ if endpoint.is_empty() => Err(ContextError::EmptyEndpoint),
        Some(("http" | "https", rest)) if !rest.is_empty() && !rest.starts_with('/') => Ok(()),
        Some(_) | None => Err(ContextError::InvalidEndpoint(endpoint.to_owned())),
    }
}

fn cannot(path: &Path, err: &io::Error) -> ContextError {
    ContextError::File(format!("{}: {err}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{ContextError, Contexts, check_name};

    #[test]
    fn context_names() {
        for name in ["a", "a1", "a-b", "0"] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["A", "-a", "a-", "a_b", "ä", "a b"] {
            assert_eq!(check_name(name), Err(ContextError::InvalidName), "{name}");
        }
        assert_eq!(check_name(""), Err(ContextError::EmptyName));
        assert_eq!(check_name(&"a".repeat(63)), Ok(()));
        assert_eq!(check_name(&"a".repeat(64)), Err(ContextError::LongName));
    }

    #[test]
    fn current_context_follows_renames_and_deletion() {
        let mut contexts = Contexts::default();
        contexts.add("lab", "http://l/mcp").unwrap();
        contexts.switch("lab").unwrap();
        contexts.rename("lab", "edge").unwrap();
        assert_eq!(contexts.current().unwrap().endpoint, "http://l/mcp");
        assert_eq!(
            contexts.add("edge", "http://x/mcp"),
            Err(ContextError::Exists("edge".to_owned()))
        );
        assert_eq!(contexts.remove("edge"), Ok(true));
        assert_eq!((contexts.current(), contexts.all.len()), (None, 0));
        assert_eq!(contexts.switch("edge"), Err(ContextError::Unknown("edge".to_owned())));
    }
}
