//! Where configuration lives: one directory, read whole and written one file at a time.
//!
//! **Invariants:** a file is replaced in one step or not at all; a file that is gone is never
//! brought back; one bad file never keeps another from being read.

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

use muster_config::{
    mcpserver::{self, McpServer, Status},
    service::ServiceFile,
    settings::{self, Settings},
};
use muster_core::{cli::CliConfig, policy::Policy};
use muster_workflow::{Workflow, service::ServiceClass};
use thiserror::Error;
use tokio::sync::Mutex;

/// The configuration directory.
#[derive(Debug)]
pub struct Store {
    root: PathBuf,
    /// What is read, changed and written back must not be written by someone else in between. Held
    /// across the file operations, which run on a thread of their own.
    writing: Mutex<()>,
}

/// Everything the directory says.
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
    /// The CLI definitions by file; none where there is no folder for them.
    pub clis: Option<BTreeMap<PathBuf, Arc<CliConfig>>>,
    /// The policies by file.
    pub policies: BTreeMap<PathBuf, PolicyFile>,
    /// What is wrong, by file and line.
    pub problems: Vec<FileProblem>,
}

/// A server and where it is described.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerFile {
    /// Its file.
    pub path: PathBuf,
    /// What the file says.
    pub server: Arc<McpServer>,
}

/// A workflow and where it is described.
#[derive(Debug, Clone)]
pub struct WorkflowFile {
    /// Its file.
    pub path: PathBuf,
    /// What the file says.
    pub workflow: Arc<Workflow>,
    /// The file itself.
    pub text: Arc<str>,
    /// Whether there is nothing to say about it: then it need not be read again while it is the same.
    pub is_clean: bool,
}

/// A service class and where it is described.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassFile {
    /// Its file.
    pub path: PathBuf,
    /// What the file says.
    pub class: Arc<ServiceClass>,
}

/// A policy and the text it was made of.
#[derive(Debug, Clone, Default)]
pub struct PolicyFile {
    /// What the file says, unless it cannot be read and never could.
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

/// Something wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The file.
    pub path: PathBuf,
    /// The line, where one can be named.
    pub line: Option<usize>,
    /// What is wrong, beginning with the field.
    pub message: String,
    /// What to do about it.
    pub fix: Option<String>,
    /// Whether the file is of no use as it is.
    pub severity: Severity,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Something is said in vain.
    Warning,
    /// The file says nothing; what it said before still holds.
    Error,
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
    /// There is one already.
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    /// There is none.
    #[error("{} does not exist", .0.display())]
    Gone(PathBuf),
    /// It is not what it was when this was decided.
    #[error("{} was edited at the same time", .0.display())]
    Changed(PathBuf),
    /// The system said no.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

const SERVERS: &str = "mcpservers";
const WORKFLOWS: &str = "workflows";
const CLASSES: &str = "serviceclasses";
const SERVICES: &str = "services";
const CLIS: &str = "clis";
const POLICIES: &str = "policies";
const CONFIG: &str = "config.yaml";

impl Store {
    /// The directory at `root`, which need not exist yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), writing: Mutex::new(()) }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folders in it that are read, with the directory itself.
    pub fn folders(&self) -> Vec<PathBuf> {
        let below = [SERVERS, WORKFLOWS, CLASSES, SERVICES, CLIS, POLICIES];
        let below = below.map(|name| self.root.join(name));
        std::iter::once(self.root.clone()).chain(below).collect()
    }

    /// Makes the folders for definitions, so that files can be dropped into them.
    pub fn prepare(&self) -> io::Result<()> {
        [SERVERS, WORKFLOWS, CLASSES]
            .iter()
            .try_for_each(|name| std::fs::create_dir_all(self.root.join(name)))
    }

    /// Reads everything. What cannot be read now is as it was in `before`. Blocks on files.
    pub fn load(&self, before: &Files) -> Files {
        read::load(&self.root, before)
    }

    /// The same, beside the runtime.
    pub(crate) async fn reload(self: &Arc<Self>, before: &Files) -> Files {
        let (store, before) = (Arc::clone(self), before.clone());
        let kept = before.clone();
        tokio::task::spawn_blocking(move || store.load(&before)).await.unwrap_or(kept)
    }

    /// Writes a server that has no file yet.
    pub(crate) async fn create(&self, server: &McpServer) -> Result<(), WriteError> {
        let folder = self.root.join(SERVERS);
        let path = folder.join(format!("{}.yaml", server.name));
        let text = mcpserver::text(server);
        self.exclusively(move || write::create(&folder, &path, &text)).await
    }

    /// Writes a server anew, if its file still says what `file` says.
    pub(crate) async fn replace(
        &self,
        file: &ServerFile,
        server: &McpServer,
    ) -> Result<(), WriteError> {
        let (ServerFile { path, server: before }, text) = (file.clone(), mcpserver::text(server));
        let is_meant = move |now: &str| {
            mcpserver::parse(now, &before.name).is_ok_and(|now| now.value.spec == before.spec)
        };
        self.exclusively(move || write::replace(&path, &text, is_meant)).await
    }

    /// Removes a file.
    pub(crate) async fn delete(&self, path: &Path) -> Result<(), WriteError> {
        let path = path.to_owned();
        self.exclusively(move || write::delete(&path)).await
    }

    /// Whether there is a `config.yaml`.
    pub(crate) fn has_settings(&self) -> bool {
        self.root.join(CONFIG).exists()
    }

    /// Writes a `config.yaml` where there is none.
    pub(crate) async fn create_settings(&self, settings: &Settings) -> Result<(), WriteError> {
        let (root, path, text) = (self.root.clone(), self.root.join(CONFIG), settings.text());
        let created = self.exclusively(move || write::create(&root, &path, &text)).await;
        match created {
            Err(WriteError::Exists(path)) => Err(WriteError::Changed(path)),
            created => created,
        }
    }

    /// Writes `config.yaml` anew, if it still says what `before` says.
    pub(crate) async fn replace_settings(
        &self,
        before: &Arc<Settings>,
        settings: &Settings,
    ) -> Result<(), WriteError> {
        let (before, path, text) = (Arc::clone(before), self.root.join(CONFIG), settings.text());
        let is_meant = move |now: &str| settings::parse(now).is_ok_and(|now| now.value == *before);
        self.exclusively(move || write::replace(&path, &text, is_meant)).await
    }

    /// Puts a status into a server's file, if that changes it.
    pub(crate) async fn write_status(
        &self,
        path: &Path,
        status: &Status,
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
