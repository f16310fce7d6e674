//! Starts, restarts and stops servers that one replica runs for all: an operator may do so at any replica.
//!
//! The last decision is stored in the shared state, and each replica polls it, so that a replica that missed the
//! message or started later follows it too.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::boxed,
    json::raw,
    lock::Lock,
    shared::{Recipient, StoreError},
};
use muster_gateway::replica_work::unguessable;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::{
    sync::{Notify, oneshot, watch},
    time::timeout,
};

use super::{LeasedServers, SWITCHED, lease, messages::Request};
use crate::{reconcile::Input, view::View};

/// How long a decision is stored after a replica last read it.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// How often each replica reads the decisions.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

/// Why a server cannot be started or stopped at all replicas.
#[derive(Debug, Error)]
#[error("the other replicas cannot be notified: {0}")]
pub(crate) struct SwitchError(#[from] StoreError);

/// The decisions that this replica knows.
#[derive(Debug, Default)]
pub(super) struct Switches {
    /// The last decision that was followed, by server.
    followed: Lock<BTreeMap<String, String>>,
    wake: Notify,
}

/// A decision about a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Switch {
    running: bool,
    /// A unique id of the decision.
    change: String,
}

fn key(server: &str) -> String {
    format!("server-switch:{server}")
}

impl Switches {
    /// Wakes the task that reads all decisions.
    pub(super) fn look(&self) {
        self.wake.notify_one();
    }

    /// Notes a decision. Returns whether it is new.
    fn follow(&self, server: &str, change: &str) -> bool {
        let before = self.followed.lock().insert(server.to_owned(), change.to_owned());
        before.as_deref() != Some(change)
    }
}

async fn last(servers: &LeasedServers, server: &str) -> Result<Option<Switch>, StoreError> {
    let stored = servers.deps.link.state().touch(&key(server), TTL).await?;
    let decode = |stored: Vec<u8>| serde_json::from_slice(&stored);
    stored.map(decode).transpose().map_err(|_| StoreError::Unreadable)
}

/// Whether an operator stopped a server.
pub(super) async fn is_stopped(servers: &LeasedServers, server: &str) -> Result<bool, StoreError> {
    Ok(last(servers, server).await?.is_some_and(|switch| !switch.running))
}

/// Starts, restarts or stops a server here. Returns when that is done.
async fn apply(servers: &LeasedServers, server: &str, running: bool) -> Option<u64> {
    let (answer, answered) = oneshot::channel();
    let input = Input::SetRunning { name: server.to_owned(), running, answer };
    servers.deps.inputs.upgrade()?.send(input).await.ok()?;
    let generation = answered.await.ok()??;
    let mut views = servers.deps.view.clone();
    let settled = views.wait_for(|view| view.has_settled(server, generation));
    settled.await.ok()?;
    Some(generation)
}

/// Follows a decision that another replica was asked for, about a server that runs here.
pub(super) async fn switched(servers: &LeasedServers, server: &str, running: bool, change: String) {
    if servers.switches.follow(server, &change) {
        apply(servers, server, running).await;
    }
}

impl LeasedServers {
    /// Forgets the decisions about a removed server: a later server of the same name is a different one.
    pub(crate) fn forget(self: &Arc<Self>, server: &str) {
        if self.switches.followed.lock().remove(server).is_none() {
            return;
        }
        let (servers, key) = (Arc::clone(self), key(server));
        self.deps.tasks.spawn(boxed(async move {
            if let Err(error) = servers.deps.link.state().remove(&key).await {
                tracing::debug!("a decision about a removed server expires later: {error}");
            }
        }));
    }

    /// Starts, restarts or stops a server at whichever replica runs it, and at this one. Returns the generation to wait for.
    pub(crate) async fn switch(
        &self,
        server: &str,
        running: bool,
    ) -> Result<Option<u64>, SwitchError> {
        let none = || StoreError::Unavailable("there is no source of randomness".to_owned());
        let change = unguessable().ok_or_else(none)?;
        let link = &self.deps.link;
        self.switches.follow(server, &change);
        let stored = raw(&Switch { running, change: change.clone() }).get().as_bytes().to_vec();
        link.state().put(&key(server), stored, TTL).await?;
        let holder = lease::holder(&**link, server).await?;
        let elsewhere = holder.filter(|holder| holder.replica != link.id());
        if let Some(holder) = &elsewhere {
            let request = Request::Switch { server: server.to_owned(), running, change };
            if let Err(reason) = self.ask(&holder.replica, request).await {
                tracing::debug!(server, "its replica follows later: {reason}");
            }
        }
        self.send(Recipient::Others, SWITCHED, server.as_bytes().to_vec()).await;
        // A server that was restarted elsewhere is reconnected when it moves.
        let view = self.deps.view.borrow().clone();
        let now = view.servers.get(server).map(|entry| entry.status.clone());
        match now {
            Some(now) if running && elsewhere.is_some() && !now.condition.is_down() => {
                Ok(Some(now.generation))
            }
            _ => Ok(apply(self, server, running).await),
        }
    }
}

/// Follows the decisions about servers, until the gateway ends.
pub(super) async fn follow(servers: Weak<LeasedServers>) {
    loop {
        let Some(now) = servers.upgrade() else { return };
        look(&now).await;
        let mut views = now.deps.view.clone();
        tokio::select! {
            _ = timeout(LOOK_INTERVAL, now.switches.wake.notified()) => (),
            () = ended(&mut views) => return,
        }
    }
}

/// Waits until the reconciler has ended.
async fn ended(views: &mut watch::Receiver<Arc<View>>) {
    while views.changed().await.is_ok() {}
}

async fn look(servers: &Arc<LeasedServers>) {
    let view = servers.deps.view.borrow().clone();
    let shared = view.servers.values().filter(|entry| entry.server.spec.runs_on_one());
    for entry in shared {
        let name = &entry.server.name;
        let switch = match last(servers, name).await {
            Ok(Some(switch)) => switch,
            Ok(None) => continue,
            Err(error) => {
                tracing::debug!(server = name, "it is not known whether it should run: {error}");
                continue;
            }
        };
        let is_first = !servers.switches.followed.lock().contains_key(name);
        let is_new = servers.switches.follow(name, &switch.change);
        let is_down = entry.status.condition.is_down();
        let runs_here = servers.owned(name).is_some();
        let applies = match switch.running {
            false => !is_down,
            true => is_new && (is_down || (runs_here && !is_first)),
        };
        if applies {
            apply(servers, name, switch.running).await;
        }
    }
}
