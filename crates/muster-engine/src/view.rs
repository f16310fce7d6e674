//! The view of the gateway that core tools read: one immutable value.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use muster_config::{mcpserver::McpServer, settings::Settings};
use muster_workflow::Workflow;

use crate::{
    circuit_breaker::CircuitBreaker,
    status::ServerStatus,
    store::{ClassFile, FileProblem},
};

/// The configuration and the servers at one moment.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// The settings of `config.yaml`.
    pub settings: Arc<Settings>,
    /// The servers by name.
    pub servers: BTreeMap<String, Arc<ServerEntry>>,
    /// The workflows by name.
    pub workflows: Arc<BTreeMap<String, Arc<Workflow>>>,
    /// The service classes by name.
    pub classes: Arc<BTreeMap<String, ClassFile>>,
    /// The problems of files.
    pub problems: Arc<[FileProblem]>,
    /// A policy that cannot be read, if there is one: until it is fixed, no tool may be called.
    pub unreadable_policy: Option<PathBuf>,
    /// The generations of definitions by path, if their store counts them.
    pub generations: Arc<BTreeMap<PathBuf, i64>>,
}

/// A server and its status.
#[derive(Debug, Clone)]
pub struct ServerEntry {
    /// Its definition.
    pub server: Arc<McpServer>,
    /// Its file.
    pub path: PathBuf,
    /// The number of changes of the secrets that it refers to.
    pub secret_changes: u64,
    /// Its status.
    pub status: ServerStatus,
    /// When its state began, see [`ServerStatus::continues`].
    pub since: Timestamp,
    /// The size of its offer.
    pub counts: Counts,
    /// Its circuit breaker.
    pub breaker: Arc<CircuitBreaker>,
}

/// The size of an offer.
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
    /// The number of servers that are up.
    pub fn connected(&self) -> usize {
        self.servers.values().filter(|known| known.status.condition.is_up()).count()
    }

    /// Whether a server has reached a stable condition for a generation of its desired state, or is gone.
    pub(crate) fn has_settled(&self, server: &str, generation: u64) -> bool {
        self.servers.get(server).is_none_or(|known| {
            known.status.generation >= generation && !known.status.condition.is_transitional()
        })
    }

    /// The number of servers that start with the gateway and whose first attempt to connect has not ended.
    pub fn starting(&self) -> usize {
        let untried =
            |known: &&Arc<ServerEntry>| known.server.spec.auto_start && known.status.is_untried();
        self.servers.values().filter(untried).count()
    }
}
