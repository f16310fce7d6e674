//! The configuration store: settings in a file and definitions behind a port, read as a whole and written one at a
//! time.
//!
//! **Invariants:** a file is replaced atomically; a deleted definition is never recreated; an invalid definition never
//! prevents others from being read.

mod folder;
mod listings;
mod port;
mod read;
mod services;
mod workflows;
mod write;

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use muster_config::Severity;
use muster_config::{
    LoadError, Warning,
    kinds::DefinitionKind,
    mcpserver::{self, McpServer, McpServerStatus},
    service::ServiceFile,
    settings::{self, Settings},
    yaml,
};
use muster_core::{
    cli::CliConfig,
    json,
    policy::{Policy, toolset::Toolset},
    value::Value,
};
use muster_workflow::{Workflow, service::ServiceClass};
use thiserror::Error;

pub use self::port::{
    DefinitionStatus, DefinitionStore, StatusCondition, StatusSink, StoredText, TextEdit,
};
use self::{folder::FolderStore, write::Writing};

/// The configuration directory, with definitions in its folders or elsewhere.
#[derive(Debug)]
pub struct ConfigStore {
    root: PathBuf,
    /// The folder of the gateway's own state.
    state: PathBuf,
    definitions: Arc<dyn DefinitionStore>,
    writing: Writing,
}

/// The contents of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// `config.yaml`.
    pub settings: Arc<Settings>,
    /// The servers by name.
    pub servers: BTreeMap<String, ServerFile>,
    /// The workflows by name.
    pub workflows: BTreeMap<String, WorkflowFile>,
    /// The service classes by name.
    pub classes: BTreeMap<String, ClassFile>,
    /// The services that outlive the gateway, by name.
    pub services: BTreeMap<String, (PathBuf, Arc<ServiceFile>)>,
    /// The CLI definitions by file; `None` without a folder for them.
    pub clis: Option<BTreeMap<PathBuf, Arc<CliConfig>>>,
    /// The policies by file.
    pub policies: BTreeMap<PathBuf, PolicyFile>,
    /// The toolsets by name.
    pub toolsets: BTreeMap<String, ToolsetFile>,
    /// The problems, by file and line.
    pub problems: Vec<FileProblem>,
    /// The generations of definitions by path, if their store counts them.
    pub generations: Arc<BTreeMap<PathBuf, i64>>,
}

/// A server and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerFile {
    /// Its file.
    pub path: PathBuf,
    /// Its definition.
    pub server: Arc<McpServer>,
    /// The number of changes of the secrets that it refers to.
    pub secret_changes: u64,
}

/// A workflow and its file.
#[derive(Debug, Clone)]
pub struct WorkflowFile {
    /// Its file.
    pub path: PathBuf,
    /// Its definition.
    pub workflow: Arc<Workflow>,
    /// The text of the file.
    pub text: Arc<str>,
    /// Whether it has no problems, so that it need not be parsed again while its text is unchanged.
    pub is_clean: bool,
}

/// A service class and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassFile {
    /// Its file.
    pub path: PathBuf,
    /// Its definition.
    pub class: Arc<ServiceClass>,
}

/// A toolset and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolsetFile {
    /// Its file.
    pub path: PathBuf,
    /// Its definition.
    pub toolset: Arc<Toolset>,
}

/// A policy and the text of its file.
#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    /// The policy; `None` if it could never be read.
    pub policy: Option<Arc<Policy>>,
    text: String,
}

impl PartialEq for PolicyFile {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Files {
    /// The workflows without their files.
    pub fn definitions(&self) -> Arc<BTreeMap<String, Arc<Workflow>>> {
        let workflows = self.workflows.iter();
        let workflows = workflows.map(|(name, file)| (name.clone(), Arc::clone(&file.workflow)));
        Arc::new(workflows.collect())
    }

    /// A policy that could never be read.
    pub fn unreadable_policy(&self) -> Option<&Path> {
        let mut policies = self.policies.iter();
        policies.find(|(_, file)| file.policy.is_none()).map(|(path, _)| path.as_path())
    }

    /// Why `config.yaml` cannot be used, in one line.
    pub fn config_error(&self) -> Option<String> {
        let mut errors = self.problems.iter().filter(|problem| {
            problem.severity == Severity::Error && problem.path.ends_with(CONFIG)
        });
        errors.next().map(|problem| format!("error loading config from {problem}"))
    }
}

/// The problems of a file that was checked by its format.
pub fn file_problems(path: &Path, checked: Result<Vec<Warning>, LoadError>) -> Vec<FileProblem> {
    match checked {
        Ok(warnings) => warnings.iter().map(|warning| read::warned(path, warning)).collect(),
        Err(error) => read::refused(path, error),
    }
}

/// A problem of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The file.
    pub path: PathBuf,
    /// The line, if known.
    pub line: Option<usize>,
    /// What is wrong, beginning with the field.
    pub message: String,
    /// How to fix it.
    pub fix: Option<String>,
    /// Whether the file can be used.
    pub severity: Severity,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)?;
        match &self.fix {
            Some(fix) => write!(f, " ({fix})"),
            None => Ok(()),
        }
    }
}

/// Why a file was not written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// The file exists already.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// The file does not exist.
    #[error("{} does not exist", .0.display())]
    Gone(PathBuf),
    /// The file has changed since it was read.
    #[error("{} was edited at the same time", .0.display())]
    Changed(PathBuf),
    /// An I/O error.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

const CONFIG: &str = "config.yaml";

impl ConfigStore {
    /// The store of the directory at `root`, which need not exist yet and contains both definitions and state.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        let writing = Writing::default();
        let definitions = Arc::new(FolderStore::new(&root, writing.clone()));
        Self { state: root.clone(), definitions, root, writing }
    }

    /// Stores the state in another directory.
    #[must_use]
    pub fn with_state(self, state: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), ..self }
    }

    /// Reads definitions from another store; only `config.yaml` is still read from the directory.
    #[must_use]
    pub fn with_definitions(self, definitions: Arc<dyn DefinitionStore>) -> Self {
        Self { definitions, ..self }
    }

    /// The path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of secrets that files refer to.
    pub fn secrets(&self) -> PathBuf {
        self.root.join("secrets")
    }

    /// The folder of the state.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The store of the definitions.
    pub fn definitions(&self) -> &dyn DefinitionStore {
        &*self.definitions
    }

    /// The directory and the folders in it that are read.
    pub fn folders(&self) -> Vec<PathBuf> {
        std::iter::once(self.root.clone()).chain(self.definitions.folders()).collect()
    }

    /// Creates the folders for definitions, so that files can be dropped into them, and removes the leftovers of
    /// interrupted writes.
    pub fn prepare(&self) -> io::Result<()> {
        write::remove_stale(&self.root);
        self.definitions.prepare()
    }

    /// Reads `config.yaml` only. Blocks.
    pub fn load_settings(&self) -> Files {
        read::settings_only(&self.root)
    }

    /// Reads everything. A file that cannot be read now keeps its contents of `before`. Blocks.
    pub fn load(&self, before: &Files) -> Files {
        let mut files = read::load(&self.root, &*self.definitions, before);
        self.add_service_records(&mut files);
        files
    }

    /// Reads everything on a blocking thread.
    pub(crate) async fn reload(self: &Arc<Self>, before: &Files) -> Files {
        let (store, before) = (Arc::clone(self), before.clone());
        let kept = before.clone();
        tokio::task::spawn_blocking(move || store.load(&before)).await.unwrap_or(kept)
    }

    /// Writes a new server.
    pub(crate) async fn create(&self, server: &McpServer) -> Result<(), WriteError> {
        let text = mcpserver::text(server);
        self.definitions.create(DefinitionKind::McpServer, &server.name, text).await
    }

    /// Rewrites a server, if its file is unchanged.
    pub(crate) async fn replace(
        &self,
        file: &ServerFile,
        server: &McpServer,
    ) -> Result<(), WriteError> {
        let (before, server) = (Arc::clone(&file.server), server.clone());
        let edit = move |now: &str| {
            let known = mcpserver::parse(now, &before.name);
            let is_meant = known.is_ok_and(|known| known.value.spec == before.spec);
            is_meant.then(|| {
                mcpserver::with_spec(now, &server).unwrap_or_else(|| mcpserver::text(&server))
            })
        };
        self.definitions.change(&file.path, Box::new(edit)).await
    }

    /// Deletes a definition.
    pub(crate) async fn delete(&self, path: &Path) -> Result<(), WriteError> {
        self.definitions.delete(path).await
    }

    /// The text of `config.yaml`, if there is one. Blocks.
    pub fn settings_text(&self) -> io::Result<Option<String>> {
        match std::fs::read_to_string(self.root.join(CONFIG)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Replaces the text of `config.yaml`, if it is still `before`. Blocks.
    pub fn replace_settings_text(
        &self,
        before: Option<&str>,
        after: &str,
    ) -> Result<(), WriteError> {
        let path = self.root.join(CONFIG);
        match before {
            Some(before) => write::replace(&path, after, |now| now == before),
            None => write::create(&self.root, &path, after),
        }
    }

    /// Replaces the text of a definition, if it is still `before`. The `status` that the gateway writes may differ.
    /// Blocks.
    pub fn replace_text(path: &Path, before: &str, after: &str) -> Result<(), WriteError> {
        let without_status = |text: &str| match yaml::parse(text).map(|root| root.to_value()) {
            Ok(Value::Map(mut pairs)) => {
                pairs.retain(|(key, _)| key.as_text() != Some("status"));
                Some(pairs)
            }
            Ok(_) | Err(_) => None,
        };
        let meant = without_status(before);
        let is_meant =
            |now: &str| now == before || (meant.is_some() && without_status(now) == meant);
        write::replace(path, after, is_meant)
    }

    /// Whether there is a `config.yaml`.
    pub(crate) fn has_settings(&self) -> bool {
        self.root.join(CONFIG).exists()
    }

    /// Writes a new `config.yaml`.
    pub(crate) async fn create_settings(&self, settings: &Settings) -> Result<(), WriteError> {
        let (root, path, text) = (self.root.clone(), self.root.join(CONFIG), settings.text());
        let created = self.exclusively(move || write::create(&root, &path, &text)).await;
        match created {
            Err(WriteError::Exists(path)) => Err(WriteError::Changed(path)),
            created => created,
        }
    }

    /// Rewrites `config.yaml`, if it is unchanged.
    pub(crate) async fn replace_settings(
        &self,
        before: &Arc<Settings>,
        settings: &Settings,
    ) -> Result<(), WriteError> {
        let (before, path, text) = (Arc::clone(before), self.root.join(CONFIG), settings.text());
        let is_meant = move |now: &str| settings::parse(now).is_ok_and(|now| now.value == *before);
        self.exclusively(move || write::replace(&path, &text, is_meant)).await
    }

    /// Writes the status of all servers to the state folder.
    pub(crate) async fn write_server_status(
        &self,
        status: &BTreeMap<String, McpServerStatus>,
    ) -> Result<(), WriteError> {
        let (path, text) = (self.state.join("servers.json"), json::raw(status).get().to_owned());
        self.exclusively(move || write::put_state(&path, &text)).await
    }

    /// Writes a status into a server's file, if it differs.
    pub(crate) async fn write_status(
        &self,
        path: &Path,
        status: &McpServerStatus,
    ) -> Result<(), WriteError> {
        let (path, status) = (path.to_owned(), status.clone());
        self.exclusively(move || write::status(&path, &status)).await
    }

    async fn exclusively(
        &self,
        work: impl FnOnce() -> Result<(), WriteError> + Send + 'static,
    ) -> Result<(), WriteError> {
        self.writing.exclusively(&self.root, work).await
    }
}

#[cfg(test)]
mod tests;
