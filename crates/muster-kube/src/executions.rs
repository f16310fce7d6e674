//! Records of executions as resources, which every gateway of the namespace reads.
//!
//! A record is written when its execution starts and when it ends, in the background and at a limited rate. A watch
//! keeps the summaries of all records up to date in memory.
//!
//! **Invariants:** the record of an execution that has ended is never replaced; the queue of unwritten records is
//! bounded; the number and the size of all records are bounded.

mod resource;
mod retention;
mod summaries;
mod writer;

use std::{io, sync::Arc};

use muster_config::kinds::{API_GROUP, API_VERSION};
use muster_core::{backend::BoxFuture, lock::Lock};
use muster_engine::execution_store::ExecutionStore;
use muster_workflow::record::{RunRecord, RunState, RunSummary};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use self::{
    summaries::{ExecutionMirror, Summaries},
    writer::Queue,
};
use crate::{
    api::{ApiClient, ApiError},
    reflector,
    store::is_name,
};

/// The plural of the kind.
const PLURAL: &str = "workflowexecutions";

/// The executions of all gateways of a namespace.
#[derive(Debug)]
pub(crate) struct ClusterExecutions {
    api: Arc<ApiClient>,
    namespace: String,
    summaries: Arc<Summaries>,
    queue: Lock<Queue>,
    /// Signals that a record waits to be written.
    waiting: Notify,
}

impl ClusterExecutions {
    pub(crate) fn new(api: Arc<ApiClient>, namespace: &str) -> Self {
        Self {
            api,
            namespace: namespace.to_owned(),
            summaries: Arc::default(),
            queue: Lock::default(),
            waiting: Notify::new(),
        }
    }

    /// The API path of the records.
    fn collection(&self) -> String {
        format!("/apis/{API_GROUP}/{API_VERSION}/namespaces/{}/{PLURAL}", self.namespace)
    }

    fn path(&self, id: &str) -> String {
        format!("{}/{id}", self.collection())
    }

    /// Keeps the summaries up to date. Never returns.
    pub(crate) async fn follow(self: Arc<Self>) {
        let mirror = ExecutionMirror::new(Arc::clone(&self.summaries));
        reflector::follow(Arc::clone(&self.api), mirror, self.collection()).await;
    }

    /// Writes records until `stop` is cancelled, then those that still wait.
    pub(crate) async fn write(self: Arc<Self>, stop: CancellationToken) {
        writer::run(&self, stop).await;
    }

    /// While this gateway leads: removes old records, and closes those whose gateway is gone.
    pub(crate) async fn keep_up(self: Arc<Self>, leading: watch::Receiver<bool>) {
        retention::run(&self, leading).await;
    }
}

impl ExecutionStore for ClusterExecutions {
    fn store(&self, record: RunRecord) {
        let id = record.execution_id.clone();
        if !is_name(&id) {
            return;
        }
        let is_running = record.status == RunState::Inprogress;
        let manifest = resource::manifest(&self.namespace, record);
        let dropped = self.queue.lock().push(id, manifest, is_running);
        for id in dropped {
            tracing::warn!(
                "the record of run {id} is at this gateway only: too many wait to be written"
            );
        }
        self.waiting.notify_one();
    }

    fn release(&self, id: &str) {
        self.queue.lock().release(id);
    }

    fn list(&self) -> Vec<RunSummary> {
        self.summaries.all()
    }

    fn get<'a>(&'a self, id: &'a str) -> BoxFuture<'a, io::Result<Option<RunRecord>>> {
        Box::pin(async move {
            if !is_name(id) {
                return Ok(None);
            }
            match self.api.get(&self.path(id)).await {
                Ok(object) => Ok(resource::record(&object)),
                Err(ApiError::NotFound) => Ok(None),
                Err(error) => Err(io::Error::other(error)),
            }
        })
    }
}
