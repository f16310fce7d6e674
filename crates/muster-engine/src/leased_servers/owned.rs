//! The connection to a server that this replica runs for all.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest, boxed},
    call::{CallError, Outcome},
    connect::{
        ConnectError, Connection, ConnectionEvent, ConnectionObserver, OutputStream, ServerListing,
    },
    json::{RawObject, raw},
    lock::Lock,
    policy::Permitted,
    shared::Recipient,
    spooled::ToolResult,
};
use serde_json::value::RawValue;
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    EVENT, LeasedServers,
    lease::{self, Lease},
    messages::{Failure, Happened, SharedEvent},
};

/// How long closing the connection may take.
const CLOSE: Duration = Duration::from_secs(3);
/// How long it takes until all processes of a server have ended, after its connection was closed.
pub(super) const KILL: Duration = Duration::from_millis(500);
/// The longest URI of a resource that may be subscribed to.
const MAX_URI: usize = 8 * 1024;
/// The number of resources of one server that may be subscribed to.
const MAX_SUBSCRIPTIONS: usize = 10_000;

const LEASE_LOST: &str = "the replica that ran this call gave up the server: the call may have been carried out in part; repeat \
                          it only if that does no harm";
pub(super) const MOVING: &str =
    "the server is moving to another replica, and the call was not made; try again";

/// The connection to a server under a lease. It is used by this replica, and by calls of others.
#[derive(Debug)]
pub(super) struct OwnedConnection {
    servers: Arc<LeasedServers>,
    pub(super) lease: Arc<Lease>,
    /// `None` once it is closed.
    connection: Lock<Option<Arc<dyn Connection>>>,
    /// The replicas whose clients subscribed to a resource.
    subscribed: Lock<BTreeMap<String, BTreeSet<String>>>,
    /// Dropped with the connection, which ends every wait for it.
    connected: watch::Sender<Option<Weak<Self>>>,
}

impl OwnedConnection {
    pub(super) fn new(
        servers: Arc<LeasedServers>,
        lease: Arc<Lease>,
        connection: Arc<dyn Connection>,
        events: Arc<dyn ConnectionObserver>,
        connected: watch::Sender<Option<Weak<Self>>>,
    ) -> Arc<Self> {
        let tasks = servers.deps.tasks.clone();
        let connection = Lock::new(Some(connection));
        let subscribed = Lock::default();
        let owned = Arc::new(Self { servers, lease, connection, subscribed, connected });
        owned.connected.send_replace(Some(Arc::downgrade(&owned)));
        tasks.spawn(boxed(stop_with_lease(
            Arc::downgrade(&owned),
            Arc::clone(&owned.lease),
            events,
        )));
        owned
    }

    /// The connection, if the server may be used.
    fn connection(&self) -> Result<Arc<dyn Connection>, Failure> {
        let connection = self.connection.lock().clone().filter(|_| self.lease.is_held());
        connection.ok_or_else(|| Failure::elsewhere(MOVING))
    }

    /// Waits for the result of a call. Fails when the lease ends.
    async fn leased<T>(&self, call: BoxFuture<'_, Result<T, CallError>>) -> Result<T, CallError> {
        tokio::select! {
            biased;
            result = call => result,
            () = self.lease.end() => {
                Err(Failure::elsewhere(LEASE_LOST).error(&self.lease.server))
            }
        }
    }

    pub(super) async fn listing(&self) -> Result<ServerListing, ConnectError> {
        match self.connection() {
            Ok(connection) => connection.list().await,
            Err(_) => Err(ConnectError::Transient(MOVING.to_owned())),
        }
    }

    pub(super) async fn call(
        &self,
        cx: CallContext<'_>,
        call: Permitted,
    ) -> Result<ToolResult, CallError> {
        let connection = self.connection().map_err(|failure| failure.error(&self.lease.server))?;
        self.leased(connection.run(cx, call)).await
    }

    /// Serves a request for a replica. A subscription ends when the last replica unsubscribes.
    pub(super) async fn ask(
        &self,
        cx: CallContext<'_>,
        request: ResourceRequest,
        replica: &str,
    ) -> Result<Outcome, CallError> {
        let connection = self.connection().map_err(|failure| failure.error(&self.lease.server))?;
        let new = match &request.operation {
            ResourceOperation::Subscribe { uri } => {
                self.check_room(uri).map_err(|failure| failure.error(&self.lease.server))?;
                Some(uri.clone())
            }
            ResourceOperation::Unsubscribe { uri } if !self.is_last(uri, replica) => {
                return Ok(Outcome::Raw(RawObject::new().to_raw()));
            }
            _ => None,
        };
        let served = self.leased(connection.request(cx, request)).await?;
        if let Some(uri) = new {
            self.subscribed.lock().entry(uri).or_default().insert(replica.to_owned());
        }
        Ok(served)
    }

    /// Refuses a subscription that would take too much memory.
    fn check_room(&self, uri: &str) -> Result<(), Failure> {
        let subscribed = self.subscribed.lock();
        if uri.len() > MAX_URI {
            let reason = format!("the URI of a subscription may have at most {MAX_URI} bytes");
            return Err(Failure::elsewhere(&reason));
        }
        match subscribed.len() < MAX_SUBSCRIPTIONS || subscribed.contains_key(uri) {
            true => Ok(()),
            false => Err(Failure::elsewhere("it has too many subscriptions")),
        }
    }

    /// Removes the subscription of a replica. Returns whether no other replica has one.
    fn is_last(&self, uri: &str, replica: &str) -> bool {
        let mut subscribed = self.subscribed.lock();
        let Some(replicas) = subscribed.get_mut(uri) else { return true };
        replicas.remove(replica);
        let is_last = replicas.is_empty();
        if is_last {
            subscribed.remove(uri);
        }
        is_last
    }

    /// Ends the process, then the lease.
    async fn end(&self) {
        self.lease.end_use();
        let connection = self.connection.lock().take();
        if let Some(connection) = connection {
            let (servers, lease) = (Arc::clone(&self.servers), Arc::clone(&self.lease));
            // Spawned, so that it continues if the caller stops waiting.
            let stopping = async move { stop(&servers, &lease, connection).await };
            drop(self.servers.deps.tasks.spawn(boxed(stopping)).await);
        }
    }
}

/// Ends a server's process, then its lease.
async fn stop(servers: &LeasedServers, lease: &Lease, connection: Arc<dyn Connection>) {
    drop(timeout(CLOSE, connection.close()).await);
    drop(connection);
    // A process that closed its output, or left others behind, may not have ended yet.
    sleep(KILL).await;
    lease::give_up(servers, lease).await;
}

/// Ends the process when its lease is lost.
async fn stop_with_lease(
    owned: Weak<OwnedConnection>,
    lease: Arc<Lease>,
    events: Arc<dyn ConnectionObserver>,
) {
    lease.end().await;
    let Some(owned) = owned.upgrade() else { return };
    owned.end().await;
    events.on_event(ConnectionEvent::Moved);
}

impl Drop for OwnedConnection {
    fn drop(&mut self) {
        self.lease.end_use();
        let Some(connection) = self.connection.lock().take() else { return };
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (servers, lease) = (Arc::clone(&self.servers), Arc::clone(&self.lease));
        let tasks = self.servers.deps.tasks.clone();
        tasks.spawn(boxed(async move { stop(&servers, &lease, connection).await }));
    }
}

impl Backend for OwnedConnection {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(self.call(cx, call))
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(self.ask(cx, ask, self.servers.deps.link.id()))
    }
}

impl Connection for OwnedConnection {
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>> {
        Box::pin(self.listing())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.end())
    }
}

/// The observer of a server that this replica runs. Passes events that concern other replicas on to them.
#[derive(Debug)]
pub(super) struct SharedEvents {
    pub(super) servers: Weak<LeasedServers>,
    pub(super) lease: Arc<Lease>,
    pub(super) events: Arc<dyn ConnectionObserver>,
}

impl ConnectionObserver for SharedEvents {
    fn on_event(&self, event: ConnectionEvent) {
        let shared = match &event {
            ConnectionEvent::ListChanged => Some(SharedEvent::ListChanged),
            ConnectionEvent::ResourceUpdated { uri } if uri.len() <= MAX_URI => {
                Some(SharedEvent::ResourceUpdated(uri.clone()))
            }
            _ => None,
        };
        if let (Some(event), Some(servers)) = (shared, self.servers.upgrade()) {
            let message = raw(&Happened { target: self.lease.target(), event });
            let tasks = servers.deps.tasks.clone();
            tasks.spawn(boxed(async move {
                servers.send(Recipient::Others, EVENT, message.get().as_bytes().to_vec()).await;
            }));
        }
        self.events.on_event(event);
    }

    fn on_message(&self, method: &str, params: &RawValue) {
        self.events.on_message(method, params);
    }

    fn on_output(&self, stream: OutputStream, line: &str) {
        self.events.on_output(stream, line);
    }
}
