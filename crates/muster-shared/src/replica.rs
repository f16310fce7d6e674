//! This replica of the gateway: its lease, and the messages that it exchanges with others.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_core::{
    backoff::Backoff,
    hex,
    lock::Lock,
    shared::{
        CONNECTED, MessageListener, Recipient, ReplicaLink, SharedState, StoreError, StoreFuture,
        Subscription,
    },
};

/// How long a replica counts as alive after it last renewed its lease.
const LEASE: Duration = Duration::from_secs(6);
/// The interval at which a replica renews its lease.
const RENEWAL: Duration = Duration::from_secs(2);

/// The delays between attempts to receive messages again.
const RECONNECT: Backoff =
    Backoff { first: Duration::from_millis(100), max: Duration::from_secs(5) };

/// The channel of messages to all replicas.
const ALL: &str = "replicas";

/// A replica of the gateway.
pub struct Replica {
    id: String,
    state: Arc<dyn SharedState>,
    listeners: Lock<BTreeMap<&'static str, Arc<dyn MessageListener>>>,
    /// Whether it holds its lease and receives messages.
    is_leased: AtomicBool,
    is_subscribed: AtomicBool,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replica").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Replica {
    /// A replica with a new id; `None` without a source of randomness.
    pub fn new(state: Arc<dyn SharedState>) -> Option<Arc<Self>> {
        let mut random = [0_u8; 8];
        getrandom::fill(&mut random).ok()?;
        Some(Arc::new(Self {
            id: hex::encode(&random),
            state,
            listeners: Lock::default(),
            is_leased: AtomicBool::new(false),
            is_subscribed: AtomicBool::new(false),
        }))
    }

    /// Returns why the replica cannot work with others now, for the health endpoint.
    pub fn pending_reason(&self) -> Option<&'static str> {
        let is_connected =
            self.is_leased.load(Ordering::Relaxed) && self.is_subscribed.load(Ordering::Relaxed);
        (!is_connected).then_some("shared-storage-unavailable")
    }

    /// Renews the lease and receives messages.
    pub async fn run(&self) -> Infallible {
        tokio::join!(self.keep_lease(), self.receive()).0
    }

    /// Gives up the lease, so that others need not wait for it to expire.
    pub async fn retire(&self) {
        if let Err(error) = self.state.remove(&lease_of(&self.id)).await {
            tracing::debug!("the lease of this replica is not given up: {error}");
        }
    }

    async fn keep_lease(&self) -> Infallible {
        let mut ticks = tokio::time::interval(RENEWAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let renewed =
                self.state.put(&lease_of(&self.id), self.id.clone().into_bytes(), LEASE).await;
            note(&self.is_leased, renewed, "the lease of this replica is not renewed");
        }
    }

    async fn receive(&self) -> Infallible {
        let channels = [ALL.to_owned(), channel_of(&self.id)];
        let mut retries = 0;
        loop {
            match self.state.subscribe(&channels).await {
                Ok(mut messages) => {
                    note(&self.is_subscribed, Ok(()), "");
                    retries = 0;
                    self.deliver(CONNECTED, Vec::new());
                    self.dispatch(&mut *messages).await;
                    let lost = StoreError::Unavailable("the connection was lost".to_owned());
                    note(&self.is_subscribed, Err(lost), "no messages of other replicas");
                }
                Err(error) => {
                    note(&self.is_subscribed, Err(error), "no messages of other replicas");
                }
            }
            tokio::time::sleep(RECONNECT.delay(retries)).await;
            retries += 1;
        }
    }

    async fn dispatch(&self, messages: &mut dyn Subscription) {
        while let Some(message) = messages.next().await {
            let mut parts = message.splitn(3, |byte| *byte == b'\n');
            let (Some(from), Some(topic), Some(body)) = (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if from == self.id.as_bytes() {
                continue;
            }
            if let Ok(topic) = std::str::from_utf8(topic) {
                self.deliver(topic, body.to_vec());
            }
        }
    }

    fn deliver(&self, topic: &str, message: Vec<u8>) {
        let listener = self.listeners.lock().get(topic).cloned();
        if let Some(listener) = listener {
            listener.receive(message);
        }
    }
}

/// Records and logs whether something works, when that changes.
fn note(works: &AtomicBool, result: Result<(), StoreError>, problem: &str) {
    match result {
        Ok(()) => {
            if !works.swap(true, Ordering::Relaxed) {
                tracing::debug!("the shared storage is available");
            }
        }
        Err(error) => {
            if works.swap(false, Ordering::Relaxed) {
                tracing::warn!("{problem}: {error}");
            } else {
                tracing::debug!("{problem}: {error}");
            }
        }
    }
}

fn lease_of(id: &str) -> String {
    format!("replica:{id}")
}

fn channel_of(id: &str) -> String {
    format!("replicas:{id}")
}

impl ReplicaLink for Replica {
    fn id(&self) -> &str {
        &self.id
    }

    fn state(&self) -> &Arc<dyn SharedState> {
        &self.state
    }

    fn is_alive<'a>(&'a self, id: &'a str) -> StoreFuture<'a, bool> {
        Box::pin(async move { Ok(id == self.id || self.state.get(&lease_of(id)).await?.is_some()) })
    }

    fn send<'a>(
        &'a self,
        to: Recipient<'a>,
        topic: &'a str,
        message: Vec<u8>,
    ) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let channel = match to {
                Recipient::Replica(id) => channel_of(id),
                Recipient::Others => ALL.to_owned(),
            };
            let head = format!("{}\n{topic}\n", self.id);
            self.state.publish(&channel, [head.as_bytes(), &message].concat()).await
        })
    }

    fn listen(&self, topic: &'static str, listener: Arc<dyn MessageListener>) {
        self.listeners.lock().insert(topic, listener);
    }
}
