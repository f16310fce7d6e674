//! The store of definitions over custom resources. The path of a definition is its name in kubectl:
//! `mcpservers/github`.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_config::kinds::{API_GROUP, API_VERSION, DefinitionKind};
use muster_core::{backend::BoxFuture, lock::Lock};
use muster_engine::store::{
    DefinitionStatus, DefinitionStore, StatusSink, StoredText, TextEdit, WriteError,
};
use thiserror::Error;
use tokio::sync::Notify;

use crate::{
    api::{ApiClient, ApiError, WriteMode},
    cache::ObjectCache,
    object::{self, KubeObject},
    secrets::KubeSecrets,
};

/// The resources of one namespace.
#[derive(Debug)]
pub(crate) struct KubeStore {
    api: Arc<ApiClient>,
    cache: Arc<ObjectCache>,
    secrets: Arc<KubeSecrets>,
    namespace: String,
    /// The desired statuses of resources, by path.
    pub(crate) desired: Lock<BTreeMap<PathBuf, DefinitionStatus>>,
    /// Signals that a status was reported.
    pub(crate) reported: Notify,
}

impl KubeStore {
    pub(crate) fn new(
        api: Arc<ApiClient>,
        cache: Arc<ObjectCache>,
        secrets: Arc<KubeSecrets>,
        namespace: &str,
    ) -> Self {
        Self {
            api,
            cache,
            secrets,
            namespace: namespace.to_owned(),
            desired: Lock::default(),
            reported: Notify::new(),
        }
    }

    /// The API path of the objects of a kind.
    pub(crate) fn collection(&self, kind: DefinitionKind) -> String {
        collection(&self.namespace, kind)
    }

    async fn edit(
        &self,
        path: &Path,
        kind: DefinitionKind,
        name: &str,
        edit: TextEdit,
    ) -> Result<(), WriteError> {
        let at = format!("{}/{name}", self.collection(kind));
        let now = self.api.get(&at).await.map_err(|error| failed(path, error))?;
        let now = KubeObject::new(kind, now).ok_or_else(|| WriteError::Gone(path.to_owned()))?;
        let Some(text) = edit(&now.text) else {
            // Update the cache now: the caller reads the definition again, and must not find the old version.
            self.cache.put_written(kind, now);
            return Err(WriteError::Changed(path.to_owned()));
        };
        let next = now.with_text(kind, &text).map_err(|reason| refused(path, reason))?;
        let written = self.api.replace_definition(&at, &next, WriteMode::Store).await;
        let written = written.map_err(|error| failed(path, error))?;
        self.take(kind, written);
        Ok(())
    }

    fn take(&self, kind: DefinitionKind, written: serde_json::Value) {
        if let Some(written) = KubeObject::new(kind, written) {
            self.cache.put_written(kind, written);
        }
    }
}

/// The API path of the objects of a kind.
pub(crate) fn collection(namespace: &str, kind: DefinitionKind) -> String {
    format!("/apis/{API_GROUP}/{API_VERSION}/namespaces/{namespace}/{}", kind.plural())
}

/// A name that is not valid for a namespace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` cannot be a namespace: use lower case letters, digits and `-`, 63 at most")]
pub struct InvalidNamespace(String);

/// Checks a namespace, which becomes part of the path of requests.
pub(crate) fn check_namespace(namespace: &str) -> Result<(), InvalidNamespace> {
    match is_label(namespace) && namespace.len() <= 63 {
        true => Ok(()),
        false => Err(InvalidNamespace(namespace.to_owned())),
    }
}

/// The path of a resource.
pub(crate) fn path(kind: DefinitionKind, name: &str) -> PathBuf {
    Path::new(kind.plural()).join(name)
}

/// The resource at a path.
pub(crate) fn resource(path: &Path) -> Option<(DefinitionKind, &str)> {
    let (plural, name) = path.to_str()?.split_once('/')?;
    let kind = DefinitionKind::ALL.into_iter().find(|kind| kind.plural() == plural)?;
    Some((kind, name))
}

/// Whether a name is valid for the API server: labels separated by dots. It becomes part of the path of requests.
pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_label(label: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.iter().all(|byte| is_alphanumeric(byte) || *byte == b'-')
        && bytes.first().is_some_and(is_alphanumeric)
        && bytes.last().is_some_and(is_alphanumeric)
}

fn failed(path: &Path, error: ApiError) -> WriteError {
    match error {
        ApiError::NotFound => WriteError::Gone(path.to_owned()),
        ApiError::Exists => WriteError::Exists(path.to_owned()),
        ApiError::Conflict => WriteError::Changed(path.to_owned()),
        error => refused(path, error.to_string()),
    }
}

fn refused(path: &Path, reason: String) -> WriteError {
    WriteError::Io { path: path.to_owned(), source: io::Error::other(reason) }
}

impl DefinitionStore for KubeStore {
    fn list(&self, kind: DefinitionKind) -> io::Result<Option<Vec<PathBuf>>> {
        let names = self.cache.names(kind)?;
        Ok(names.map(|names| names.iter().map(|name| path(kind, name)).collect()))
    }

    fn read(&self, path: &Path) -> io::Result<StoredText> {
        let found = resource(path).and_then(|(kind, name)| self.cache.get(kind, name));
        let object = found.ok_or(io::ErrorKind::NotFound)?;
        Ok(StoredText {
            text: object.text.clone(),
            generation: Some(object.generation()),
            secret_changes: self.secrets.changes(object.secrets()),
        })
    }

    fn place(&self, kind: DefinitionKind) -> PathBuf {
        PathBuf::from(kind.plural())
    }

    fn create<'a>(
        &'a self,
        kind: DefinitionKind,
        name: &'a str,
        text: String,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let path = path(kind, name);
            if !is_name(name) {
                let reason = format!(
                    "`{name}` cannot be the name of a resource: use lower case letters, digits, `-` and `.`"
                );
                return Err(refused(&path, reason));
            }
            let object = object::created(kind, &self.namespace, name, &text)
                .map_err(|reason| refused(&path, reason))?;
            let collection = self.collection(kind);
            let created = self.api.create_definition(&collection, &object, WriteMode::Store).await;
            self.take(kind, created.map_err(|error| failed(&path, error))?);
            Ok(())
        })
    }

    fn change<'a>(
        &'a self,
        path: &'a Path,
        edit: TextEdit,
    ) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let gone = || WriteError::Gone(path.to_owned());
            let (kind, name) = resource(path).ok_or_else(gone)?;
            self.edit(path, kind, name, edit).await
        })
    }

    fn delete<'a>(&'a self, path: &'a Path) -> BoxFuture<'a, Result<(), WriteError>> {
        Box::pin(async move {
            let gone = || WriteError::Gone(path.to_owned());
            let (kind, name) = resource(path).ok_or_else(gone)?;
            let known = self.cache.get(kind, name).ok_or_else(gone)?;
            let at = format!("{}/{name}", self.collection(kind));
            let deleted = self.api.delete(&at, known.uid()).await;
            deleted.map_err(|error| failed(path, error))?;
            self.cache.remove_deleted(kind, &known);
            Ok(())
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.cache.definitions.notified())
    }

    fn status(&self) -> Option<&dyn StatusSink> {
        Some(self)
    }
}

impl StatusSink for KubeStore {
    fn report(&self, path: &Path, status: DefinitionStatus) {
        let mut desired = self.desired.lock();
        let known = desired.entry(path.to_owned()).or_default();
        // A report may be partial: the condition of a service's definition and its state come from different sources.
        if status.generation.is_some() {
            known.generation = status.generation;
        }
        if !status.fields.is_empty() {
            known.fields = status.fields;
        }
        for condition in status.conditions {
            match known.conditions.iter_mut().find(|known| known.kind == condition.kind) {
                Some(known) => *known = condition,
                None => known.conditions.push(condition),
            }
        }
        drop(desired);
        self.reported.notify_one();
    }
}
