//! The lease of a server: which replica runs it.

use std::{sync::Arc, time::Duration};

use muster_core::{
    lock::Lock,
    shared::{Recipient, ReplicaLink, StoreError},
};
use muster_gateway::replica_work::unguessable;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{LeasedServers, MOVED, messages::Target};

/// How long a lease is valid after it was last renewed.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// The renewal interval, and the retry interval after a failed renewal.
const RENEWAL: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(500);
/// How long a server may run after its lease was last renewed. The rest of the lease leaves time to end its process.
const USE: Duration = Duration::from_secs(6);

/// A lease that this replica has, or had.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) server: String,
    /// Its value: the replica and a unique name.
    pub(super) id: String,
    used_until: Lock<Instant>,
    ended: watch::Sender<bool>,
}

/// The replica that runs a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) replica: String,
    /// The value of its lease.
    pub(super) lease: String,
}

fn key(server: &str) -> String {
    format!("server:{server}")
}

/// The holder of a server's lease.
pub(super) async fn holder(
    link: &dyn ReplicaLink,
    server: &str,
) -> Result<Option<Holder>, StoreError> {
    let Some(stored) = link.state().get(&key(server)).await? else { return Ok(None) };
    let lease = String::from_utf8(stored).map_err(|_| StoreError::Unreadable)?;
    let (replica, _) = lease.split_once('.').ok_or(StoreError::Unreadable)?;
    Ok(Some(Holder { replica: replica.to_owned(), lease }))
}

impl Lease {
    /// Takes the lease of a server that no replica runs.
    pub(super) async fn claim(
        servers: &Arc<LeasedServers>,
        server: &str,
    ) -> Result<Option<Self>, StoreError> {
        let link = &servers.deps.link;
        let none = || StoreError::Unavailable("there is no source of randomness".to_owned());
        let id = format!("{}.{}", link.id(), unguessable().ok_or_else(none)?);
        let began = Instant::now();
        // If the outcome of an attempt is unknown, at worst it leaves a lease that expires.
        if !link.state().claim(&key(server), id.clone().into_bytes(), LEASE).await? {
            return Ok(None);
        }
        let used_until = Lock::new(began + USE);
        Ok(Some(Self {
            server: server.to_owned(),
            id,
            used_until,
            ended: watch::Sender::new(false),
        }))
    }

    /// Whether the server may be used.
    pub(super) fn is_held(&self) -> bool {
        !*self.ended.borrow() && Instant::now() < *self.used_until.lock()
    }

    /// The server under this lease, as messages name it.
    pub(super) fn target(&self) -> Target {
        Target { server: self.server.clone(), lease: self.id.clone() }
    }

    /// Ends the use of the server.
    pub(super) fn end_use(&self) {
        self.ended.send_replace(true);
    }

    /// Waits until the server may no longer be used.
    pub(super) async fn end(&self) {
        let mut ended = self.ended.subscribe();
        // It lives as long as `self`.
        drop(ended.wait_for(|ended| *ended).await);
    }
}

/// Renews a lease until it has ended.
pub(super) async fn keep(servers: Arc<LeasedServers>, lease: Arc<Lease>) {
    tokio::select! {
        () = lease.end() => (),
        () = renew(&*servers.deps.link, &lease) => {
            tracing::warn!(server = lease.server, "its lease is lost: it is stopped here");
            lease.end_use();
        }
    }
}

/// Keeps renewing a lease; returns when that is no longer possible.
async fn renew(link: &dyn ReplicaLink, lease: &Lease) {
    let mut pause = RENEWAL;
    loop {
        let until = *lease.used_until.lock();
        if timeout_at(until, sleep(pause)).await.is_err() {
            return;
        }
        let began = Instant::now();
        let (key, id) = (key(&lease.server), lease.id.as_bytes());
        match timeout_at(until, link.state().swap(&key, id, id.to_vec(), LEASE)).await {
            Ok(Ok(true)) => {
                *lease.used_until.lock() = began + USE;
                pause = RENEWAL;
            }
            Ok(Err(error)) => {
                tracing::debug!(server = lease.server, "its lease is not renewed: {error}");
                pause = RETRY;
            }
            // The lease has expired, or the server may no longer be used.
            Ok(Ok(false)) | Err(_) => return,
        }
    }
}

/// Gives up a lease, after the server's process has ended.
pub(super) async fn give_up(servers: &LeasedServers, lease: &Lease) {
    lease.end_use();
    servers.owned.lock().retain(|_, owned| owned.lease.id != lease.id);
    let state = servers.deps.link.state();
    match state.release(&key(&lease.server), lease.id.as_bytes()).await {
        Ok(_) => {
            servers.send(Recipient::Others, MOVED, lease.server.clone().into_bytes()).await;
            servers.moved.notify_waiters();
        }
        // Harmless: the lease expires.
        Err(error) => tracing::debug!(server = lease.server, "its lease is not given up: {error}"),
    }
}
