//! The supervisor of the MCP servers: one task per server, called a unit, which connects, lists and reconnects it.
//!
//! The desired state of a unit is a value that is replaced, never a queue: setting it does not block, and a
//! busy unit sees only the newest value.

mod connecting;
mod in_flight;
pub(crate) mod unit;
pub(crate) mod unit_events;

use std::{collections::BTreeMap, sync::Arc};

use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture, boxed},
    connect::{Connector, ServerListing},
};
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use crate::{
    handle::Handle as EngineHandle, leased_servers::LeasedServers, reconcile::Input,
    server_logs::ServerLogs, status::ServerStatus, timing::EngineTiming,
};

/// The desired state of a unit.
#[derive(Debug, Clone)]
pub(crate) struct DesiredState {
    pub(crate) server: Arc<McpServer>,
    pub(crate) running: bool,
    /// Incremented for every start, restart or stop. A change of `server` alone does not reconnect.
    pub(crate) generation: u64,
}

/// Receives the updates of units.
pub(crate) trait UnitObserver: Send + Sync {
    /// Receives an update of a unit's server.
    fn observe<'a>(&'a self, name: &'a str, id: UnitId, update: UnitUpdate) -> BoxFuture<'a, ()>;
}

/// Passes updates on to the reconciler, until it shuts down.
struct ToReconciler(mpsc::WeakSender<Input>);

impl UnitObserver for ToReconciler {
    fn observe<'a>(&'a self, name: &'a str, id: UnitId, update: UnitUpdate) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if let Some(inputs) = self.0.upgrade() {
                let name = name.to_owned();
                drop(inputs.send(Input::Unit { name, id, update: Box::new(update) }).await);
            }
        })
    }
}

/// An update that a unit reports.
#[derive(Debug)]
pub(crate) enum UnitUpdate {
    /// The status changed; the server's offer is unchanged.
    StatusChanged(ServerStatus),
    /// The server is connected.
    Connected(ServerStatus, ServerListing, Arc<dyn Backend>),
    /// The server's lists changed.
    Relisted(ServerListing),
    /// The server is not connected and offers nothing.
    Disconnected(ServerStatus),
    /// A resource changed, under the server's own URI.
    ResourceUpdated(String),
}

/// Distinguishes a unit from earlier units of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitId(pub(crate) u64);

/// Starts units and sets their desired state.
#[derive(Debug)]
pub(crate) struct Supervisor {
    connect: Arc<dyn Connector>,
    timing: EngineTiming,
    inputs: mpsc::WeakSender<Input>,
    tasks: TaskTracker,
    logs: ServerLogs,
    leased: Option<Arc<LeasedServers>>,
    units: BTreeMap<String, UnitHandle>,
    last_id: u64,
}

#[derive(Debug)]
struct UnitHandle {
    id: UnitId,
    desired: watch::Sender<DesiredState>,
}

impl Supervisor {
    pub(crate) fn new(
        connect: Arc<dyn Connector>,
        timing: EngineTiming,
        handle: &EngineHandle,
        tasks: TaskTracker,
    ) -> Self {
        let (inputs, logs) = (handle.inputs.downgrade(), handle.logs.clone());
        let (leased, units) = (handle.leased.clone(), BTreeMap::new());
        Self { connect, timing, inputs, tasks, logs, leased, units, last_id: 0 }
    }

    /// Adds a server; it is idle until [`Self::set_running`].
    pub(crate) fn add(&mut self, server: &Arc<McpServer>) -> UnitId {
        self.last_id += 1;
        let id = UnitId(self.last_id);
        let deps = unit::Deps {
            connect: Arc::clone(&self.connect),
            timing: self.timing,
            observer: Arc::new(ToReconciler(self.inputs.clone())),
            retry: unit::Retry::ExceptLogin,
            logs: self.logs.clone(),
            leased: self.leased.clone(),
        };
        let (unit, desired) = unit::Unit::new(id, Arc::clone(server), deps);
        self.tasks.spawn(boxed(unit.run()));
        self.units.insert(server.name.clone(), UnitHandle { id, desired });
        id
    }

    /// Whether an update comes from the current unit of that name.
    pub(crate) fn knows(&self, name: &str, id: UnitId) -> bool {
        self.units.get(name).is_some_and(|handle| handle.id == id)
    }

    /// Starts, restarts or stops a unit. Returns the new generation.
    pub(crate) fn set_running(&mut self, name: &str, running: bool) -> Option<u64> {
        let handle = self.units.get(name)?;
        Some(set_running(&handle.desired, running))
    }

    /// Replaces the definition of a server, without a reconnect.
    pub(crate) fn configure(&mut self, server: &Arc<McpServer>) {
        if let Some(handle) = self.units.get(&server.name) {
            handle.desired.send_modify(|desired| desired.server = Arc::clone(server));
        }
    }

    /// Whether the unit's desired state is to run.
    pub(crate) fn should_run(&self, name: &str) -> bool {
        self.units.get(name).is_some_and(|handle| handle.desired.borrow().running)
    }

    /// Removes a unit, which closes its connection and ends.
    pub(crate) fn remove(&mut self, name: &str) {
        self.units.remove(name);
        self.logs.remove(name);
        if let Some(leased) = &self.leased {
            leased.forget(name);
        }
    }

    /// Removes all units.
    pub(crate) fn clear(&mut self) {
        self.units.clear();
    }
}

/// Starts, restarts or stops a unit. Returns the new generation.
pub(crate) fn set_running(desired: &watch::Sender<DesiredState>, running: bool) -> u64 {
    desired.send_modify(|desired| {
        desired.running = running;
        desired.generation += 1;
    });
    desired.borrow().generation
}
