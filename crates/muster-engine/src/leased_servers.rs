//! MCP servers that one replica runs for all: `runOn: one`.
//!
//! The replica that holds the lease of a server runs its process. The others list its tools through that replica and
//! forward their permitted calls to it: a call is begun at most once, and ends with an error if the lease moves
//! meanwhile. A replica that cannot renew a lease stops the process before another can take the lease.

mod caller;
mod forwarded;
mod lease;
mod messages;
mod owned;
mod remote;
mod switch;

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_api::mcp_server::ServerLogLine;
use muster_core::{
    backend::boxed,
    connect::{Connection, ConnectionObserver},
    json::raw,
    lock::Lock,
    shared::{CONNECTED, Recipient, ReplicaLink, StoreError},
};
use muster_gateway::replica_work::{NoResult, ReplicaWork, ReplicaWorker, WorkNames, unguessable};
use tokio::{
    sync::{Notify, mpsc, watch},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use self::{
    caller::RemoteCaller,
    forwarded::ForwardedCalls,
    lease::Lease,
    messages::{Reply, Request},
    owned::{KILL, OwnedConnection, SharedEvents},
    switch::Switches,
};
pub(crate) use self::{remote::RemoteConnection, switch::SwitchError};
use crate::{reconcile::Input, server_logs::ServerLogs, view::View};

const NAMES: WorkNames = WorkNames {
    ask: "server-call",
    done: "server-called",
    abandoned: "server-call-abandoned",
    claim: "server-calling",
    result: "server-called",
};
/// The topic of servers that have moved.
const MOVED: &str = "server-moved";
/// The topics of messages about a call to the replica that asked, and of its answers.
const NOTICE: &str = "server-call-notice";
const ANSWER: &str = "server-call-answer";
/// The topic of events of servers.
const EVENT: &str = "server-event";
/// The topic of servers that were started or stopped.
const SWITCHED: &str = "server-switched";

/// The retry interval while the shared state does not answer, or while no replica may run a server.
const RETRY: Duration = Duration::from_secs(1);

/// How long calls for other replicas may delay the shutdown of this one.
const DRAIN: Duration = Duration::from_secs(5);

/// The dependencies of [`LeasedServers`].
pub(crate) struct Deps {
    pub(crate) link: Arc<dyn ReplicaLink>,
    pub(crate) tasks: TaskTracker,
    pub(crate) inputs: mpsc::WeakSender<Input>,
    pub(crate) view: watch::Receiver<Arc<View>>,
    pub(crate) logs: ServerLogs,
}

/// The servers that one replica runs for all, as this replica sees them.
pub(crate) struct LeasedServers {
    deps: Deps,
    work: ReplicaWork,
    /// The leases of this replica, by server.
    owned: Lock<BTreeMap<String, Owned>>,
    /// Connections to the replicas that run the other servers.
    remote: Lock<BTreeMap<String, Weak<RemoteConnection>>>,
    /// Calls that other replicas run for this one.
    forwarded: ForwardedCalls,
    /// The callers of calls that this replica runs for others, by ticket.
    callers: Lock<BTreeMap<String, Weak<RemoteCaller>>>,
    switches: Switches,
    /// Whether this replica is shutting down, and makes no more calls for others.
    is_ending: AtomicBool,
    /// Wakes the tasks that wait for a lease.
    moved: Notify,
    /// Wakes the task that waits for the end of calls for others.
    call_ended: Notify,
}

/// A lease of this replica, and the connection of its server once there is one.
#[derive(Debug, Clone)]
struct Owned {
    lease: Arc<Lease>,
    connection: watch::Receiver<Option<Weak<OwnedConnection>>>,
}

impl fmt::Debug for LeasedServers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasedServers").field("owned", &self.owned).finish_non_exhaustive()
    }
}

/// Where a server runs.
pub(crate) enum ServerLocation {
    /// Here, under this lease.
    Here(Claimed),
    /// At another replica.
    Elsewhere(Arc<RemoteConnection>),
}

/// A lease under which a server is being started. It is given up when it is dropped.
pub(crate) struct Claimed {
    servers: Arc<LeasedServers>,
    lease: Arc<Lease>,
    /// `None` once it is connected.
    connected: Option<watch::Sender<Option<Weak<OwnedConnection>>>>,
}

impl Claimed {
    /// Hands over the connection, now that the server is connected.
    pub(crate) fn connected(
        mut self,
        connection: Arc<dyn Connection>,
        events: Arc<dyn ConnectionObserver>,
    ) -> Arc<dyn Connection> {
        let connected = self.connected.take().unwrap_or_else(|| watch::Sender::new(None));
        let (servers, lease) = (Arc::clone(&self.servers), Arc::clone(&self.lease));
        OwnedConnection::new(servers, lease, connection, events, connected)
    }

    /// Waits until the lease is lost.
    pub(crate) async fn lost(&self) {
        self.lease.end().await;
    }

    /// Wraps an observer so that the other replicas receive the server's events too.
    pub(crate) fn observer(
        &self,
        events: Arc<dyn ConnectionObserver>,
    ) -> Arc<dyn ConnectionObserver> {
        let (servers, lease) = (Arc::downgrade(&self.servers), Arc::clone(&self.lease));
        Arc::new(SharedEvents { servers, lease, events })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        if self.connected.is_none() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        self.lease.end_use();
        let (servers, lease) = (Arc::clone(&self.servers), Arc::clone(&self.lease));
        let tasks = self.servers.deps.tasks.clone();
        tasks.spawn(boxed(async move {
            // A process that was being started is killed, which takes a moment.
            sleep(KILL).await;
            lease::give_up(&servers, &lease).await;
        }));
    }
}

impl LeasedServers {
    /// Creates the leased servers of this replica, and starts to serve other replicas.
    pub(crate) fn new(deps: Deps) -> Arc<Self> {
        let servers = Arc::new_cyclic(|servers: &Weak<Self>| {
            let worker: Weak<dyn ReplicaWorker> = Weak::<Self>::clone(servers);
            let (link, tasks) = (Arc::clone(&deps.link), deps.tasks.clone());
            let work = ReplicaWork::connect(link, NAMES, tasks, worker);
            Self {
                deps,
                work,
                owned: Lock::default(),
                remote: Lock::default(),
                forwarded: ForwardedCalls::default(),
                callers: Lock::default(),
                switches: Switches::default(),
                is_ending: AtomicBool::new(false),
                moved: Notify::new(),
                call_ended: Notify::new(),
            }
        });
        servers.listen(MOVED, |servers, _| servers.moved.notify_waiters());
        servers.listen(NOTICE, forwarded::noticed);
        servers.listen(ANSWER, caller::answered);
        servers.listen(EVENT, remote::happened);
        servers.listen(SWITCHED, |servers, _| servers.switches.look());
        servers.listen(CONNECTED, |servers, _| remote::may_have_missed(servers));
        servers.deps.tasks.spawn(boxed(switch::follow(Arc::downgrade(&servers))));
        servers
    }

    fn listen(self: &Arc<Self>, topic: &'static str, handle: fn(&Arc<Self>, &[u8])) {
        let servers = Arc::downgrade(self);
        let listener = move |message: Vec<u8>| {
            if let Some(servers) = servers.upgrade() {
                handle(&servers, &message);
            }
        };
        self.deps.link.listen(topic, Arc::new(listener));
    }

    /// Waits until it is decided where a server runs: here, if no other replica runs it.
    pub(crate) async fn place(
        self: &Arc<Self>,
        name: &str,
        events: &Arc<dyn ConnectionObserver>,
    ) -> ServerLocation {
        let mut failed = false;
        loop {
            let moved = self.moved.notified();
            match self.try_place(name, events).await {
                Ok(Some(place)) => return place,
                Ok(None) => drop(timeout(RETRY, moved).await),
                Err(error) => {
                    if !std::mem::replace(&mut failed, true) {
                        tracing::warn!(server = name, "it is not known where it runs: {error}");
                    }
                    sleep(RETRY).await;
                }
            }
        }
    }

    async fn try_place(
        self: &Arc<Self>,
        name: &str,
        events: &Arc<dyn ConnectionObserver>,
    ) -> Result<Option<ServerLocation>, StoreError> {
        if switch::is_stopped(self, name).await? {
            return Ok(None);
        }
        if let Some(lease) = Lease::claim(self, name).await? {
            let lease = Arc::new(lease);
            let (connected, connection) = watch::channel(None);
            let owned = Owned { lease: Arc::clone(&lease), connection };
            self.owned.lock().insert(name.to_owned(), owned);
            self.deps.tasks.spawn(boxed(lease::keep(Arc::clone(self), Arc::clone(&lease))));
            let servers = Arc::clone(self);
            return Ok(Some(ServerLocation::Here(Claimed {
                servers,
                lease,
                connected: Some(connected),
            })));
        }
        let Some(holder) = lease::holder(&*self.deps.link, name).await? else { return Ok(None) };
        if holder.replica == self.deps.link.id() {
            // This replica is giving up the lease.
            return Ok(None);
        }
        let remote = RemoteConnection::new(self, name, holder, Arc::clone(events));
        self.remote.lock().insert(name.to_owned(), Arc::downgrade(&remote));
        Ok(Some(ServerLocation::Elsewhere(remote)))
    }

    /// The lease of this replica on a server that it may still use.
    fn owned(&self, name: &str) -> Option<Owned> {
        self.owned.lock().get(name).filter(|owned| owned.lease.is_held()).cloned()
    }

    /// Stops accepting calls for other replicas, and waits for those in flight, for at most [`DRAIN`].
    pub(crate) async fn drain(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
        let over = async {
            while !self.callers.lock().is_empty() {
                self.call_ended.notified().await;
            }
        };
        drop(timeout(DRAIN, over).await);
    }

    /// The log of a server, if another replica runs it.
    pub(crate) async fn logs(
        &self,
        name: &str,
        tail: usize,
        after: u64,
    ) -> Result<Option<Vec<ServerLogLine>>, String> {
        let holder = lease::holder(&*self.deps.link, name).await.map_err(|e| e.to_string())?;
        let Some(holder) = holder.filter(|holder| holder.replica != self.deps.link.id()) else {
            return Ok(None);
        };
        let request = Request::Logs { server: name.to_owned(), tail, after };
        match self.ask(&holder.replica, request).await {
            Ok(Reply::Logs(lines)) => Ok(Some(lines)),
            Ok(_) => Err("the replica that runs it gave no answer".to_owned()),
            Err(reason) => Err(reason.to_string()),
        }
    }

    /// Sends another replica a request that is safe to repeat.
    async fn ask(&self, replica: &str, request: Request) -> Result<Reply, NoResult> {
        let ticket = unguessable().ok_or(NoResult::NotBegun)?;
        let result = self.work.ask(replica, &ticket, raw(&request), std::future::pending()).await?;
        serde_json::from_slice(&result).map_err(|_| NoResult::Lost)
    }

    /// Sends a message, best effort: it may be lost.
    async fn send(&self, to: Recipient<'_>, topic: &str, message: Vec<u8>) {
        if let Err(error) = self.deps.link.send(to, topic, message).await {
            tracing::debug!("a message about a server is lost: {error}");
        }
    }
}
