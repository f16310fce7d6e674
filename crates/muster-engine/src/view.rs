//! The servers behind the gateway and how they are doing, as one immutable value.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use muster_config::{mcpserver::McpServer, settings::Settings};
use muster_workflow::Workflow;

use crate::{
    status::ServerStatus,
    store::{ClassFile, FileProblem},
};

/// What the gateway is made of at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// How it is configured.
    pub settings: Arc<Settings>,
    /// The servers by name.
    pub servers: BTreeMap<String, Arc<ServerEntry>>,
    /// The workflows by name.
    pub workflows: Arc<BTreeMap<String, Arc<Workflow>>>,
    /// The service classes by name.
    pub classes: Arc<BTreeMap<String, ClassFile>>,
    /// What is wrong with its files.
    pub problems: Arc<[FileProblem]>,
}

/// A server that the gateway knows.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// What its file says.
    pub server: Arc<McpServer>,
    /// Its file.
    pub path: PathBuf,
    /// How it is doing.
    pub status: ServerStatus,
    /// What it offers.
    pub counts: Counts,
}

/// How much a server offers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tools.
    pub tools: usize,
    /// Resources.
    pub resources: usize,
    /// Prompts.
    pub prompts: usize,
}

impl View {
    /// How many servers are up.
    pub fn connected(&self) -> usize {
        self.servers.values().filter(|known| known.status.condition.is_up()).count()
    }
}
