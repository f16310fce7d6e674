//! State in Valkey or Redis, which replicas share.

mod connection;

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use muster_core::{
    backoff::Backoff,
    lock::Lock,
    shared::{KeyValueStore, LogLimits, SharedState, StoreError, StoreFuture, Subscription},
};
use muster_net::TrustStore;
use redis::{
    FromRedisValue, Pipeline, PushInfo, PushKind, RedisError, Value, aio::MultiplexedConnection,
};
use tokio::{
    sync::{Mutex, mpsc},
    time::timeout,
};

use self::connection::{Connection, Connector, NodeAddress, TIMEOUT, is_not_executed, unavailable};
use crate::{ValkeyOptions, memory_shared::Messages};

/// How long requests fail at once after a connection failed, so that they do not all wait for the timeout.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The number of messages that this process may fall behind; beyond it the subscription ends, and begins again.
const MAX_BEHIND: usize = 16 * 1024;

/// The delays between attempts of a command that a node of a cluster did not execute.
const REDIRECT: Backoff =
    Backoff { first: Duration::from_millis(20), max: Duration::from_millis(500) };

/// How long a subscription may be silent before its connection is checked.
const MAX_SILENCE: Duration = Duration::from_secs(5);

/// Sets a value if the current one is expected.
const SWAP: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                    redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) return 1";

/// Removes a value if it is expected.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('DEL', KEYS[1]) return 1";

/// The text of the error for an entry at a position that a log has already reached.
const POSITION_TAKEN: &str = "equal or smaller";

/// A store in Valkey.
pub(crate) struct ValkeyStore {
    connector: Connector,
    prefix: String,
    /// Opened by the first request, so that a gateway starts while its storage is down, and again
    /// after it broke.
    open: Lock<Option<Open>>,
    /// Held while a connection is opened: one at a time.
    connecting: Mutex<()>,
    /// The number of connections so far.
    generations: AtomicU64,
    /// When a connection last failed.
    failed: Lock<Option<(Instant, StoreError)>>,
}

/// An open connection, and its number.
#[derive(Clone)]
struct Open {
    generation: u64,
    connection: Connection,
}

impl fmt::Debug for ValkeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Valkey").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl ValkeyStore {
    /// Parses the settings; the first request connects.
    pub(crate) fn new(options: &ValkeyOptions, trust: &TrustStore) -> Result<Self, StoreError> {
        let connector = Connector::new(options, trust)?;
        let prefix = options.prefix.clone();
        Ok(Self {
            connector,
            prefix,
            open: Lock::default(),
            connecting: Mutex::default(),
            generations: AtomicU64::new(0),
            failed: Lock::default(),
        })
    }

    /// The open connection, or a new one.
    async fn connection(&self) -> Result<Open, StoreError> {
        if let Some(open) = self.open() {
            return Ok(open);
        }
        let _connecting = self.connecting.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        if let Some((at, error)) = &*self.failed.lock()
            && at.elapsed() < RETRY_DELAY
        {
            return Err(error.clone());
        }
        let connection = self.connector.connect().await.map_err(|err| self.failed(&err))?;
        let generation = self.generations.fetch_add(1, Ordering::Relaxed);
        let open = Open { generation, connection };
        *self.open.lock() = Some(open.clone());
        Ok(open)
    }

    fn open(&self) -> Option<Open> {
        self.open.lock().clone()
    }

    /// Drops a connection that broke, unless another one has replaced it.
    fn drop_connection(&self, generation: u64) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| open.generation == generation) {
            *open = None;
        }
    }

    /// Sends commands in one round trip.
    async fn query<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, QueryError> {
        let (mut used, mut refused) = (None, None);
        let query = async {
            let mut retries = 0;
            loop {
                let open = self.connection().await.map_err(QueryError::Unavailable)?;
                let Open { generation, mut connection } = open;
                used = Some(generation);
                match connection.query(commands).await {
                    Err(err) if is_not_executed(&err) => {
                        let asked = Box::pin(self.ask_importing(&err, commands));
                        let err = match asked.await {
                            Some(Err(err)) if is_not_executed(&err) => err,
                            Some(result) => return result.map_err(QueryError::Failed),
                            None => err,
                        };
                        if connection.is_misdirected(&err) {
                            self.drop_connection(generation);
                        }
                        refused = Some(err);
                        tokio::time::sleep(REDIRECT.delay(retries)).await;
                        retries += 1;
                    }
                    result => return result.map_err(QueryError::Failed),
                }
            }
        };
        // The timeout includes connecting and retries, because a request waits for all of it.
        let result = match (timeout(TIMEOUT, query).await, refused) {
            (Ok(result), _) => result,
            // The connection works, and other commands may be executed.
            (Err(_), Some(err)) => return Err(QueryError::Failed(err)),
            (Err(_), None) => Err(QueryError::Failed(RedisError::from(std::io::Error::from(
                std::io::ErrorKind::TimedOut,
            )))),
        };
        if let Err(QueryError::Failed(err)) = &result {
            let is_timeout = err.is_timeout();
            if let Some(generation) = used.filter(|_| is_timeout || err.is_unrecoverable_error()) {
                self.drop_connection(generation);
            }
            if is_timeout {
                self.failed(err);
            }
        }
        result
    }

    /// Sends commands to the node that their slot is being moved to, if that is why they were not executed. `None` if it
    /// cannot be reached.
    async fn ask_importing<T: FromRedisValue>(
        &self,
        err: &RedisError,
        commands: &Pipeline,
    ) -> Option<Result<T, RedisError>> {
        let node = NodeAddress::of_import(err)?;
        let mut node = self.connector.connect_to_importing(&node).await.ok()?;
        Some(commands.query_async(&mut node).await)
    }

    async fn ask<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        self.query(commands).await.map_err(QueryError::into)
    }

    fn failed(&self, err: &RedisError) -> StoreError {
        let error = unavailable(err);
        *self.failed.lock() = Some((Instant::now(), error.clone()));
        error
    }

    /// Sets a value under a condition of `SET`.
    async fn set_if(
        &self,
        condition: &str,
        key: &str,
        value: Vec<u8>,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let mut set = redis::pipe();
        set.cmd("SET").arg(self.key(key)).arg(value).arg("EX").arg(seconds(ttl)).arg(condition);
        let (done,): (Option<String>,) = self.ask(&set).await?;
        Ok(done.is_some())
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// Why a command has no result.
enum QueryError {
    Failed(RedisError),
    Unavailable(StoreError),
}

impl From<QueryError> for StoreError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Failed(err) => unavailable(&err),
            QueryError::Unavailable(error) => error,
        }
    }
}

/// Commands that are executed together or not at all: no value is stored without its TTL.
fn transaction() -> Pipeline {
    let mut commands = redis::pipe();
    commands.atomic();
    commands
}

fn seconds(ttl: Duration) -> u64 {
    ttl.as_secs().max(1)
}

impl KeyValueStore for ValkeyStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let (value,) = self.ask(redis::pipe().cmd("GET").arg(self.key(key))).await?;
            Ok(value)
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut set = redis::pipe();
            set.cmd("SET").arg(self.key(key)).arg(value).arg("EX").arg(seconds(ttl)).ignore();
            self.ask(&set).await
        })
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(self.set_if("XX", key, value, ttl))
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(self.set_if("NX", key, value, ttl))
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let (value,) = self.ask(redis::pipe().cmd("GETDEL").arg(self.key(key))).await?;
            Ok(value)
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(
            async move { self.ask(redis::pipe().cmd("DEL").arg(self.key(key)).ignore()).await },
        )
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl SharedState for ValkeyStore {
    fn touch<'a>(&'a self, key: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut get = redis::pipe();
            get.cmd("GETEX").arg(self.key(key)).arg("EX").arg(seconds(ttl));
            let (value,) = self.ask(&get).await?;
            Ok(value)
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Vec<u8>,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut swap = redis::pipe();
            swap.cmd("EVAL").arg(SWAP).arg(1).arg(self.key(key)).arg(expected).arg(value);
            let (done,) = self.ask(swap.arg(seconds(ttl))).await?;
            Ok(done)
        })
    }

    fn release<'a>(&'a self, key: &'a str, expected: &'a [u8]) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut release = redis::pipe();
            release.cmd("EVAL").arg(RELEASE).arg(1).arg(self.key(key)).arg(expected);
            let (done,) = self.ask(&release).await?;
            Ok(done)
        })
    }

    fn add<'a>(&'a self, key: &'a str, amount: u64, ttl: Duration) -> StoreFuture<'a, u64> {
        Box::pin(async move {
            let (mut add, key) = (transaction(), self.key(key));
            add.cmd("INCRBY").arg(&key).arg(amount);
            add.cmd("EXPIRE").arg(&key).arg(seconds(ttl)).ignore();
            let (sum,) = self.ask(&add).await?;
            Ok(sum)
        })
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        position: u64,
        entry: Vec<u8>,
        limits: LogLimits,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let (mut append, key) = (transaction(), self.key(log));
            append.cmd("XADD").arg(&key).arg("MAXLEN").arg("=").arg(limits.length);
            append.arg(format!("{position}-0")).arg("e").arg(entry).ignore();
            append.cmd("EXPIRE").arg(&key).arg(seconds(limits.ttl)).ignore();
            match self.query::<()>(&append).await {
                Ok(()) => Ok(true),
                Err(QueryError::Failed(err)) if err.to_string().contains(POSITION_TAKEN) => {
                    Ok(false)
                }
                Err(error) => Err(error.into()),
            }
        })
    }

    fn entries<'a>(
        &'a self,
        log: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>> {
        Box::pin(async move {
            type Entry = (String, (String, Vec<u8>));
            let (mut read, first) = (redis::pipe(), after.saturating_add(1));
            read.cmd("XRANGE").arg(self.key(log)).arg(first).arg("+");
            let (found,): (Vec<Entry>,) = self.ask(read.arg("COUNT").arg(limit)).await?;
            let entry = |(id, (_, entry)): Entry| {
                let position = id.split('-').next().and_then(|number| number.parse().ok());
                position.map(|position| (position, entry)).ok_or(StoreError::Unreadable)
            };
            found.into_iter().map(entry).collect()
        })
    }

    fn renew<'a>(&'a self, log: &'a str, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let mut renew = redis::pipe();
            renew.cmd("EXPIRE").arg(self.key(log)).arg(seconds(ttl));
            let (exists,) = self.ask(&renew).await?;
            Ok(exists)
        })
    }

    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (mut join, key) = (transaction(), self.key(set));
            join.cmd("SADD").arg(&key).arg(member).ignore();
            self.ask(join.cmd("EXPIRE").arg(&key).arg(seconds(ttl)).ignore()).await
        })
    }

    fn leave<'a>(&'a self, set: &'a str, member: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            self.ask(redis::pipe().cmd("SREM").arg(self.key(set)).arg(member).ignore()).await
        })
    }

    fn members<'a>(&'a self, set: &'a str) -> StoreFuture<'a, Vec<String>> {
        Box::pin(async move {
            let (members,) = self.ask(redis::pipe().cmd("SMEMBERS").arg(self.key(set))).await?;
            Ok(members)
        })
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Vec<u8>) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut publish = redis::pipe();
            publish.cmd("PUBLISH").arg(self.key(channel)).arg(message).ignore();
            self.ask(&publish).await
        })
    }

    fn subscribe<'a>(&'a self, channels: &'a [String]) -> StoreFuture<'a, Box<dyn Subscription>> {
        Box::pin(async move {
            let (queue, messages) = mpsc::channel(MAX_BEHIND);
            let queue = Lock::new(Some(queue));
            let received = move |push: PushInfo| {
                let mut queue = queue.lock();
                let is_queued = match (push.kind, &*queue, push.data.into_iter().nth(1)) {
                    (PushKind::Message, Some(queue), Some(Value::BulkString(message))) => {
                        queue.try_send(message).is_ok()
                    }
                    (PushKind::Disconnection, ..) => false,
                    _ => true,
                };
                if !is_queued {
                    // The subscription ends with its queue.
                    *queue = None;
                }
                Ok::<(), ()>(())
            };
            let opened = self.connector.connect_for_messages(received).await;
            let mut connection = opened.map_err(|err| unavailable(&err))?;
            for channel in channels {
                let subscribed = connection.subscribe(self.key(channel)).await;
                subscribed.map_err(|err| unavailable(&err))?;
            }
            let messages = ValkeyMessages { messages: Messages(messages), connection };
            Ok(Box::new(messages) as Box<dyn Subscription>)
        })
    }
}

/// The messages of one subscription, and the connection that they arrive on.
struct ValkeyMessages {
    messages: Messages,
    connection: MultiplexedConnection,
}

impl Subscription for ValkeyMessages {
    fn next(&mut self) -> muster_core::backend::BoxFuture<'_, Option<Vec<u8>>> {
        Box::pin(async move {
            loop {
                if let Ok(message) = timeout(MAX_SILENCE, self.messages.next()).await {
                    return message;
                }
                // A connection whose other end vanished stays open and silent.
                let ping = redis::cmd("PING");
                if let Err(err) = ping.query_async::<()>(&mut self.connection).await {
                    tracing::debug!("a subscription is lost: {}", unavailable(&err));
                    return None;
                }
            }
        })
    }
}
