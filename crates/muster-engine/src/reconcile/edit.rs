//! Edits of files by tools.

use std::time::Duration;

use muster_config::{
    LoadError,
    mcpserver::{Approval, InvalidMcpServer, McpServer},
    settings::Settings,
};
use thiserror::Error;
use tokio::time::{Instant, timeout};

use super::{ClassEdit, ClassError, Reconciler, ServiceEdit, WorkflowEdit};
use crate::{events::Reason, server_draft::ServerDraft, store::WriteError};

/// An edit.
#[derive(Debug)]
pub(crate) enum Edit {
    /// Add a server.
    Create(Box<ServerDraft>),
    /// Change a server.
    Update(Box<ServerDraft>),
    /// Approve a server that an agent added or changed.
    Approve(String),
    /// Delete a server.
    Delete(String),
    /// Change keys of the section `aggregator` in `config.yaml`: a JSON object. Only the keys to change are given,
    /// because others may change before the file is written.
    Settings(Option<String>),
    /// Edit a workflow.
    Workflow(Box<WorkflowEdit>),
    /// Edit a service class.
    Class(Box<ClassEdit>),
    /// Edit the file of a service.
    Service(ServiceEdit),
}

/// Why a file was not written.
#[derive(Debug, Error)]
pub(crate) enum EditError {
    #[error(transparent)]
    Invalid(#[from] InvalidMcpServer),
    #[error("MCP server '{0}' already exists")]
    Exists(String),
    #[error("MCP server {0} not found")]
    Unknown(String),
    #[error(transparent)]
    Class(#[from] ClassError),
    #[error(transparent)]
    Settings(#[from] LoadError),
    #[error("{0}; correct it first")]
    Broken(String),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the configuration was not written within {} s; the change may still be made", WRITE_TIMEOUT.as_secs())]
    TimedOut,
    #[error("the gateway is shutting down")]
    Ending,
}

/// The timeout of all writes of one edit. A store may be remote, and nothing else is reconciled meanwhile.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of retries after concurrent edits.
const ATTEMPTS: u32 = 3;

impl Reconciler {
    /// Writes a file and applies it.
    pub(super) async fn edit(&mut self, edit: Edit) -> Result<(), EditError> {
        let name = match &edit {
            Edit::Create(draft) | Edit::Update(draft) => Some(draft.name.clone()),
            Edit::Delete(name) | Edit::Approve(name) => Some(name.clone()),
            Edit::Settings(_) | Edit::Class(_) | Edit::Service(_) | Edit::Workflow(_) => None,
        };
        // Read concurrent edits by hand first, so that they are not lost.
        let (mut attempts, mut left) = (0, WRITE_TIMEOUT);
        let written = loop {
            self.read_files().await;
            attempts += 1;
            let begun = Instant::now();
            let written = timeout(left, self.write(&edit)).await;
            left = left.saturating_sub(begun.elapsed());
            match written {
                Ok(Err(EditError::Write(WriteError::Changed(_)))) if attempts < ATTEMPTS => (),
                Ok(written) => break written,
                Err(_) => break Err(EditError::TimedOut),
            }
        };
        if let (Some(name), Err(error @ (EditError::Write(_) | EditError::TimedOut))) =
            (name, &written)
        {
            let namespace = self.files.settings.namespace();
            let reason = Reason::McpServerFailed;
            self.deps.journal.tell(reason, &name, namespace, &error.to_string());
        }
        self.read_files().await;
        written
    }

    async fn write(&self, edit: &Edit) -> Result<(), EditError> {
        let store = &self.deps.store;
        match edit {
            Edit::Create(draft) => {
                let server = draft.clone().create(self.files.settings.namespace())?;
                if self.files.servers.contains_key(&server.name) {
                    return Err(EditError::Exists(server.name));
                }
                match store.create(&server).await {
                    Err(WriteError::Exists(_)) => Err(EditError::Exists(server.name)),
                    written => Ok(written?),
                }
            }
            Edit::Update(draft) => {
                let unknown = || EditError::Unknown(draft.name.clone());
                let file = self.files.servers.get(&draft.name).ok_or_else(unknown)?;
                let server = draft.clone().update(&file.server)?;
                match store.replace(file, &server).await {
                    Err(WriteError::Gone(_)) => Err(unknown()),
                    written => Ok(written?),
                }
            }
            Edit::Approve(name) => {
                let unknown = || EditError::Unknown(name.clone());
                let file = self.files.servers.get(name).ok_or_else(unknown)?;
                let mut server = McpServer::clone(&file.server);
                server.spec.approval = Approval::Approved;
                match store.replace(file, &server).await {
                    Err(WriteError::Gone(_)) => Err(unknown()),
                    written => Ok(written?),
                }
            }
            Edit::Delete(name) => {
                let unknown = || EditError::Unknown(name.clone());
                let file = self.files.servers.get(name).ok_or_else(unknown)?;
                match store.delete(&file.path).await {
                    Err(WriteError::Gone(_)) => Err(unknown()),
                    written => Ok(written?),
                }
            }
            Edit::Settings(keys) => self.write_settings(keys.as_deref()).await,
            Edit::Workflow(edit) => self.write_workflow(edit).await,
            Edit::Class(edit) => self.write_class(edit).await,
            Edit::Service(edit) => self.write_service(edit).await,
        }
    }

    async fn write_settings(&self, keys: Option<&str>) -> Result<(), EditError> {
        let (store, before) = (&self.deps.store, &self.files.settings);
        if let Some(problem) = self.files.config_error() {
            return Err(EditError::Broken(problem));
        }
        let mut settings = Settings::clone(before);
        if let Some(keys) = keys {
            settings.aggregator = settings.aggregator.updated(keys)?.value;
        }
        match store.has_settings() {
            true if settings == **before => Ok(()),
            true => Ok(store.replace_settings(before, &settings).await?),
            false => Ok(store.create_settings(&settings).await?),
        }
    }
}
