//! The port to stores of definitions: the configuration directory, or a Kubernetes API server.

use std::{
    io,
    path::{Path, PathBuf},
};

use muster_config::kinds::DefinitionKind;
use muster_core::backend::BoxFuture;
use serde_json::{Map, Value as Json};

use super::WriteError;

/// An edit of a text; returns `None` if the text is not the one that the edit was made for.
pub type TextEdit = Box<dyn Fn(&str) -> Option<String> + Send>;

/// A store of definitions. Each has a unique path, and a text in the format of its kind.
///
/// **Guarantees:** an edit is applied to the text it was made for, or not at all; a deleted definition is never
/// recreated; reads return completed writes.
pub trait DefinitionStore: Send + Sync {
    /// The paths of all definitions of a kind, in order of precedence; `None` if the store does not hold this kind.
    /// After an error, the definitions that were read before stay in effect. May block.
    fn list(&self, kind: DefinitionKind) -> io::Result<Option<Vec<PathBuf>>>;

    /// Reads a definition. May block.
    fn read(&self, path: &Path) -> io::Result<StoredText>;

    /// The folder or resource that holds the definitions of a kind, for messages.
    fn place(&self, kind: DefinitionKind) -> PathBuf;

    /// Stores a new definition.
    fn create<'a>(
        &'a self,
        kind: DefinitionKind,
        name: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// Applies an edit to a definition.
    fn change<'a>(
        &'a self,
        path: &'a Path,
        edit: TextEdit,
    ) -> BoxFuture<'a, Result<(), WriteError>>;

    /// Deletes a definition.
    fn delete<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(), WriteError>>;

    /// Prepares the store for use, if it is writable.
    fn prepare(&self) -> io::Result<()> {
        Ok(())
    }

    /// The folders whose files are definitions, for the file watcher.
    fn folders(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Waits until definitions may have changed, if the store itself notices changes.
    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// The sink for statuses of definitions; `None` if the store does not hold statuses.
    fn status(&self) -> Option<&dyn StatusSink> {
        None
    }
}

muster_core::opaque_debug!(DefinitionStore);

/// A definition as it is stored.
#[derive(Debug, Clone)]
pub struct StoredText {
    /// Its text.
    pub text: String,
    /// The generation of its spec, if the store counts them. Line numbers of the text are then meaningless to its
    /// author.
    pub generation: Option<i64>,
    /// The number of changes of the secrets that it refers to, if the store notices them.
    pub secret_changes: u64,
}

/// A sink for statuses of definitions.
pub trait StatusSink: Send + Sync {
    /// Takes the status of a definition. It is written later, if it differs from the stored one.
    fn report(&self, path: &Path, status: DefinitionStatus);
}

/// The status of a definition, or a part of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DefinitionStatus {
    /// The generation of the definition that it belongs to.
    pub generation: Option<i64>,
    /// The fields of its kind; empty if they are not part of this report.
    pub fields: Map<String, Json>,
    /// Its conditions. Conditions of earlier reports that are not part of this one stay; those that have not been
    /// reported since the gateway started may be removed.
    pub conditions: Vec<StatusCondition>,
}

/// One condition of a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCondition {
    /// Its type: `Accepted` or `Ready`.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, as an identifier.
    pub reason: &'static str,
    /// Why, in a sentence.
    pub message: String,
}
