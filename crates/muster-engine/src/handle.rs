//! The handle of the core tools to the engine.

use std::sync::Arc;

use muster_core::{
    call::{Caller, Role},
    caller_directory::CallerDirectory,
    policy::DestructiveTools,
};
use muster_gateway::dispatch::{CallerSnapshots as _, GatewaySnapshot};
use muster_telemetry::Telemetry;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{
    events::{Event, EventJournal, InvolvedKind},
    leased_servers::{LeasedServers, SwitchError},
    reconcile::{Edit, EditError, Input},
    server_logs::ServerLogs,
    services::Services,
    store::ConfigStore,
    unavailable_tools::Explainer,
    user_connections::UserConnections,
    view::{ServerEntry, View},
    workflows::Executions,
};

/// Sends inputs to the reconciler and reads its state. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    /// The connections that belong to single callers.
    pub(crate) user_connections: Arc<UserConnections>,
    pub(crate) inputs: mpsc::Sender<Input>,
    pub(crate) state: watch::Receiver<Arc<GatewaySnapshot>>,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) journal: EventJournal,
    pub(crate) services: Services,
    /// The URL of the gateway.
    pub(crate) endpoint: watch::Receiver<Option<String>>,
    pub(crate) destructive: DestructiveTools,
    /// The observer of calls.
    pub(crate) telemetry: Telemetry,
    /// The records of workflow executions.
    pub(crate) executions: Arc<Executions>,
    /// The lines that local servers wrote outside the protocol.
    pub(crate) logs: ServerLogs,
    /// The servers that one replica runs for all, if there are several replicas.
    pub(crate) leased: Option<Arc<LeasedServers>>,
    /// The directory of callers that may use the gateway.
    pub(crate) directory: Option<Arc<dyn CallerDirectory>>,
    /// The configuration store, which knows where definitions are.
    pub(crate) store: Arc<ConfigStore>,
}

/// The servers that a caller may know of: those whose tools the caller can see. Operators know all.
#[derive(Debug, Clone)]
pub(crate) struct VisibleServers(Arc<GatewaySnapshot>);

impl VisibleServers {
    /// Whether the caller may know of a server.
    pub(crate) fn has(&self, server: &str) -> bool {
        let Self(snapshot) = self;
        snapshot.policy.role() == Role::Operator
            || snapshot.catalog.source(server).is_some()
            || snapshot.absent.values().any(|absent| absent.server.as_str() == server)
    }

    /// Whether the caller may know of an event. If no server is hidden, events of deleted servers are visible too.
    pub(crate) fn has_event(&self, event: &Event) -> bool {
        let object = &event.involved_object;
        object.kind != InvolvedKind::McpServer.as_str()
            || self.0.policy.is_open()
            || self.has(&object.name)
    }

    /// The part of the gateway that the caller sees.
    pub(crate) fn snapshot(&self) -> &GatewaySnapshot {
        &self.0
    }
}

impl Handle {
    /// The current view.
    pub(crate) fn now(&self) -> Arc<View> {
        Arc::clone(&self.view.borrow())
    }

    /// The current snapshot for one caller.
    pub(crate) fn state_of(&self, caller: &Caller) -> Arc<GatewaySnapshot> {
        let shared = Arc::clone(&self.state.borrow());
        self.user_connections.snapshot(caller, shared).for_caller(caller)
    }

    /// Explains to a caller why tools cannot be called.
    pub(crate) fn explainer<'a>(&self, caller: &'a Caller) -> Explainer<'a> {
        let shared = Arc::clone(&self.state.borrow());
        let snapshot = self.user_connections.snapshot(caller, shared);
        Explainer::new(caller, Arc::clone(&snapshot).for_caller(caller), snapshot)
    }

    /// Whether a caller may change the gateway: by admission, or by a policy.
    pub(crate) fn role_of(&self, caller: &Caller) -> Role {
        self.state_of(caller).policy.role()
    }

    /// The servers that a caller may know of, as of now.
    pub(crate) fn visible_servers(&self, caller: &Caller) -> VisibleServers {
        VisibleServers(self.state_of(caller))
    }

    /// Writes a file and waits until it has taken effect.
    pub(crate) async fn edit(&self, edit: Edit) -> Result<(), EditError> {
        let (answer, answered) = oneshot::channel();
        let input = Input::Edit(Box::new(edit), answer);
        self.inputs.send(input).await.map_err(|_| EditError::Ending)?;
        answered.await.map_err(|_| EditError::Ending)?
    }

    /// Reads all files again and waits until they have taken effect.
    pub(crate) async fn reload(&self) -> Result<(), EditError> {
        let (answer, answered) = oneshot::channel();
        self.inputs.send(Input::Reload(answer)).await.map_err(|_| EditError::Ending)?;
        answered.await.map_err(|_| EditError::Ending)
    }

    /// Starts, restarts or stops a server and waits until it is up, down or failed. `None` if there is no such server,
    /// or it was deleted meanwhile.
    pub(crate) async fn set_running(
        &self,
        name: &str,
        running: bool,
    ) -> Result<Option<Arc<ServerEntry>>, SwitchError> {
        let is_leased = |entry: &Arc<ServerEntry>| entry.server.spec.runs_on_one();
        let leased = self.leased.as_ref();
        match leased.filter(|_| self.now().servers.get(name).is_some_and(is_leased)) {
            None => Ok(self.set_running_here(name, running).await),
            Some(leased) => match leased.switch(name, running).await? {
                Some(generation) => Ok(self.wait_until_settled(name, generation).await),
                None => Ok(None),
            },
        }
    }

    async fn set_running_here(&self, name: &str, running: bool) -> Option<Arc<ServerEntry>> {
        let (answer, answered) = oneshot::channel();
        let input = Input::SetRunning { name: name.to_owned(), running, answer };
        self.inputs.send(input).await.ok()?;
        let generation = answered.await.ok()??;
        self.wait_until_settled(name, generation).await
    }

    /// Waits until a server has reached a stable condition for `generation`, and its events are recorded.
    pub(crate) async fn wait_until_settled(
        &self,
        name: &str,
        generation: u64,
    ) -> Option<Arc<ServerEntry>> {
        let done = |view: &Arc<View>| view.has_settled(name, generation);
        let mut views = self.view.clone();
        let view = Arc::clone(&*views.wait_for(done).await.ok()?);
        // The state is published before its events are recorded, and the caller may query the events next.
        let (answer, answered) = oneshot::channel();
        if self.inputs.send(Input::Flush(answer)).await.is_ok() {
            drop(answered.await);
        }
        view.servers.get(name).cloned()
    }
}
