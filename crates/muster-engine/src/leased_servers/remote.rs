//! The connection to a server that another replica runs.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceRequest, boxed},
    call::{CallError, Outcome},
    connect::{ConnectError, Connection, ConnectionEvent, ConnectionObserver, ServerListing},
    json::raw,
    lock::Lock,
    policy::Permitted,
    spooled::ToolResult,
};
use muster_gateway::replica_work::{NoResult, unguessable};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{sleep, timeout},
};

use super::{
    LeasedServers,
    lease::{self, Holder},
    messages::{CallerInfo, Failure, Happened, Reply, Request, SharedEvent, Target},
    owned::MOVING,
};

/// How often the lease is checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long a replica that gave up a lease may take to store the results of calls that were cut off.
const LAST_RESULTS: Duration = Duration::from_secs(1);

const GONE: &str = "the replica that ran this call died or gave up the server: the call may have been carried out in part; \
                    repeat it only if that does no harm";

/// The connection to a server at another replica, under one lease.
#[derive(Debug)]
pub(crate) struct RemoteConnection {
    servers: Arc<LeasedServers>,
    target: Target,
    replica: String,
    events: Arc<dyn ConnectionObserver>,
    moved: watch::Sender<bool>,
    watching: Lock<Option<AbortHandle>>,
}

impl RemoteConnection {
    pub(super) fn new(
        servers: &Arc<LeasedServers>,
        server: &str,
        holder: Holder,
        events: Arc<dyn ConnectionObserver>,
    ) -> Arc<Self> {
        let Holder { replica, lease } = holder;
        let target = Target { server: server.to_owned(), lease };
        let connection = Arc::new(Self {
            servers: Arc::clone(servers),
            target,
            replica,
            events,
            moved: watch::Sender::new(false),
            watching: Lock::default(),
        });
        let watched = Arc::downgrade(&connection);
        let servers = Arc::clone(servers);
        let watching = async move {
            loop {
                // Subscribe before the lease is read, so that a message meanwhile is not missed.
                let moved = servers.moved.notified();
                let Some(connection) = watched.upgrade() else { return };
                if connection.has_lease_ended().await {
                    connection.moved.send_replace(true);
                    connection.events.on_event(ConnectionEvent::Moved);
                    return;
                }
                drop(connection);
                drop(timeout(CHECK_INTERVAL, moved).await);
            }
        };
        let watching = connection.servers.deps.tasks.spawn(boxed(watching)).abort_handle();
        *connection.watching.lock() = Some(watching);
        connection
    }

    /// Whether this lease has ended: there is another one, or none. While the shared state is unavailable, no replica
    /// can take a lease, so it has not.
    async fn has_lease_ended(&self) -> bool {
        match lease::holder(&*self.servers.deps.link, &self.target.server).await {
            Ok(holder) => holder.is_none_or(|holder| holder.lease != self.target.lease),
            Err(error) => {
                tracing::debug!(server = self.target.server, "its lease is not known: {error}");
                false
            }
        }
    }

    /// Whether the server has moved to another replica.
    pub(crate) fn has_moved(&self) -> bool {
        *self.moved.borrow()
    }

    async fn moved(&self) {
        let mut moved = self.moved.subscribe();
        drop(moved.wait_for(|moved| *moved).await);
        sleep(LAST_RESULTS).await;
    }

    async fn reply(&self, ticket: &str, request: &Request) -> Result<Reply, NoResult> {
        let request = raw(request);
        let result = self.servers.work.ask(&self.replica, ticket, request, self.moved()).await?;
        serde_json::from_slice(&result).map_err(|_| NoResult::Lost)
    }

    /// Forwards a call to the replica that runs the server, and relays messages to its client meanwhile.
    async fn forward(&self, cx: CallContext<'_>, request: &Request) -> Result<Outcome, CallError> {
        let failed = |failure: Failure| Err(failure.error(&self.target.server));
        let Some(ticket) = unguessable() else {
            return failed(Failure::elsewhere("there is no source of randomness"));
        };
        let _served = self.servers.forwarded.begin(&self.servers, &ticket, cx.client);
        match self.reply(&ticket, request).await {
            Ok(Reply::Outcome(outcome)) => Ok(outcome),
            Ok(Reply::Failed(failure)) => failed(failure),
            Ok(_) => failed(Failure::elsewhere("another version of the gateway runs it")),
            Err(reason @ (NoResult::NotBegun | NoResult::TooLarge)) => {
                failed(Failure::elsewhere(&reason.to_string()))
            }
            // This says nothing about the server, which may run at another replica by now.
            Err(NoResult::Died) => failed(Failure::elsewhere(GONE)),
            Err(NoResult::Lost) => {
                let reason = NoResult::Lost.to_string();
                failed(Failure::Unavailable { reason, no_answer: true })
            }
        }
    }
}

/// The client of a call, as the server learns of it.
fn caller(cx: CallContext<'_>) -> CallerInfo {
    CallerInfo {
        subject: cx.caller.subject.to_string(),
        capabilities: cx.client.capabilities(),
        input_mode: cx.client.input_mode(),
        era: cx.client.era(),
    }
}

/// Handles an event of a server that another replica runs.
pub(super) fn happened(servers: &Arc<LeasedServers>, message: &[u8]) {
    let Ok(Happened { target, event }) = serde_json::from_slice(message) else { return };
    let remote = servers.remote.lock().get(&target.server).and_then(Weak::upgrade);
    let Some(remote) = remote.filter(|remote| remote.target == target) else { return };
    remote.events.on_event(match event {
        SharedEvent::ListChanged => ConnectionEvent::ListChanged,
        SharedEvent::ResourceUpdated(uri) => ConnectionEvent::ResourceUpdated { uri },
    });
}

/// Lists the servers of other replicas again, because messages about changes may have been lost.
pub(super) fn may_have_missed(servers: &LeasedServers) {
    servers.moved.notify_waiters();
    servers.switches.look();
    let remote: Vec<_> = servers.remote.lock().values().filter_map(Weak::upgrade).collect();
    for remote in remote {
        remote.events.on_event(ConnectionEvent::ListChanged);
    }
}

impl Drop for RemoteConnection {
    fn drop(&mut self) {
        if let Some(watching) = self.watching.lock().take() {
            watching.abort();
        }
    }
}

impl Backend for RemoteConnection {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        let request = Request::Run {
            target: self.target.clone(),
            tool: call.entry().local_name.to_string(),
            arguments: call.raw_arguments().clone(),
            meta: call.meta().cloned(),
            continuation: call.continuation().clone(),
            from: caller(cx),
        };
        Box::pin(async move { self.forward(cx, &request).await.map(ToolResult::Inline) })
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        let ResourceRequest { operation, meta, continuation } = ask;
        let target = self.target.clone();
        let request = Request::Resource { target, operation, meta, continuation, from: caller(cx) };
        Box::pin(async move { self.forward(cx, &request).await })
    }
}

impl Connection for RemoteConnection {
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>> {
        Box::pin(async move {
            let no_randomness = || ConnectError::Transient("no source of randomness".to_owned());
            let ticket = unguessable().ok_or_else(no_randomness)?;
            match self.reply(&ticket, &Request::List(self.target.clone())).await {
                Ok(Reply::Listing(listing)) => Ok(*listing),
                Ok(Reply::NotListed(reason)) => Err(ConnectError::Transient(reason)),
                Ok(Reply::Moving) => {
                    // The lease is about to end or expire.
                    self.moved().await;
                    Err(ConnectError::Transient(MOVING.to_owned()))
                }
                Ok(_) => Err(ConnectError::Transient("an unknown answer".to_owned())),
                Err(reason) => {
                    let reason = format!("the replica that runs it was not reached: {reason}");
                    Err(ConnectError::Transient(reason))
                }
            }
        })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
