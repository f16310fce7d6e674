//! The configuration directory, read as a whole and written one file at a time.
//!
//! **Invariants:** a file is replaced atomically; a file that was deleted is never recreated; an invalid file
//! never keeps another from being read.

mod listings;
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
use tokio::sync::Mutex;

/// The configuration directory.
#[derive(Debug)]
pub struct ConfigStore {
    root: PathBuf,
    /// What the gateway stores for itself.
    state: PathBuf,
    /// Serializes read-modify-write cycles. Held across file operations, which run on blocking threads.
    writing: Mutex<()>,
}

/// The contents of the directory.
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
    /// The CLI definitions by file; none without a folder for them.
    pub clis: Option<BTreeMap<PathBuf, Arc<CliConfig>>>,
    /// The policies by file.
    pub policies: BTreeMap<PathBuf, PolicyFile>,
    /// The toolsets by name.
    pub toolsets: BTreeMap<String, ToolsetFile>,
    /// The problems, by file and line.
    pub problems: Vec<FileProblem>,
}

/// A server and its file.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerFile {
    /// Its file.
    pub path: PathBuf,
    /// Its definition.
    pub server: Arc<McpServer>,
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
    /// Whether it has no problems: then it need not be parsed again while its text is the same.
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
    /// The policy, or none if it could never be read.
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
    pub(crate) fn definitions(&self) -> Arc<BTreeMap<String, Arc<Workflow>>> {
        let workflows = self.workflows.iter();
        let workflows = workflows.map(|(name, file)| (name.clone(), Arc::clone(&file.workflow)));
        Arc::new(workflows.collect())
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
    /// There is such a file already.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// There is no such file.
    #[error("{} does not exist", .0.display())]
    Gone(PathBuf),
    /// It changed since it was read.
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

const SERVERS: &str = "mcpservers";
const WORKFLOWS: &str = "workflows";
const CLASSES: &str = "serviceclasses";
const SERVICES: &str = "services";
const CLIS: &str = "clis";
const POLICIES: &str = "policies";
const TOOLSETS: &str = "toolsets";
const CONFIG: &str = "config.yaml";

impl ConfigStore {
    /// The directory at `root`, which need not exist yet, with its state in it.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { state: root.clone(), root, writing: Mutex::new(()) }
    }

    /// The same directory with its state elsewhere.
    #[must_use]
    pub fn with_state(self, state: impl Into<PathBuf>) -> Self {
        Self { state: state.into(), ..self }
    }

    /// The path of the directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of the state.
    pub fn state(&self) -> &Path {
        &self.state
    }

    /// The directory and the folders in it that are read.
    pub fn folders(&self) -> Vec<PathBuf> {
        let below = [SERVERS, WORKFLOWS, CLASSES, SERVICES, CLIS, POLICIES, TOOLSETS];
        let below = below.map(|name| self.root.join(name));
        std::iter::once(self.root.clone()).chain(below).collect()
    }

    /// Creates the folders for definitions, so that files can be dropped into them, and removes what interrupted writes
    /// left.
    pub fn prepare(&self) -> io::Result<()> {
        self.folders().iter().for_each(|folder| write::remove_stale(folder));
        [SERVERS, WORKFLOWS, CLASSES]
            .iter()
            .try_for_each(|name| std::fs::create_dir_all(self.root.join(name)))
    }

    /// Reads everything. A file that cannot be read now keeps its contents of `before`. Blocks.
    pub fn load(&self, before: &Files) -> Files {
        let mut files = read::load(&self.root, before);
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
        let folder = self.root.join(SERVERS);
        let path = folder.join(format!("{}.yaml", server.name));
        let text = mcpserver::text(server);
        self.exclusively(move || write::create(&folder, &path, &text)).await
    }

    /// Rewrites a server, if its file is unchanged.
    pub(crate) async fn replace(
        &self,
        file: &ServerFile,
        server: &McpServer,
    ) -> Result<(), WriteError> {
        let ServerFile { path, server: before } = file.clone();
        let server = server.clone();
        self.exclusively(move || {
            let now = write::read(&path)?;
            let known = mcpserver::parse(&now, &before.name);
            if !known.is_ok_and(|known| known.value.spec == before.spec) {
                return Err(WriteError::Changed(path));
            }
            let next = mcpserver::with_spec(&now, &server);
            let next = next.unwrap_or_else(|| mcpserver::text(&server));
            write::replace(&path, &next, |current| current == now)
        })
        .await
    }

    /// Deletes a file.
    pub(crate) async fn delete(&self, path: &Path) -> Result<(), WriteError> {
        let path = path.to_owned();
        self.exclusively(move || write::delete(&path)).await
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
        let _turn = self.writing.lock().await;
        let done = tokio::task::spawn_blocking(work).await;
        done.unwrap_or_else(|error| {
            let source = io::Error::other(error);
            Err(WriteError::Io { path: self.root.clone(), source })
        })
    }
}

#[cfg(test)]
mod tests;
