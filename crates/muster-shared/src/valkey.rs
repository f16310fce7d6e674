//! State in Valkey or Redis, which replicas share.

mod connection;

use std::{
    fmt,
    time::{Duration, Instant},
};

use muster_core::{
    lock::Lock,
    shared::{KeyValueStore, LogLimits, SharedState, StoreError, StoreFuture, Subscription},
};
use muster_net::TrustStore;
use redis::{
    FromRedisValue, Pipeline, PushInfo, PushKind, RedisError, Value, aio::MultiplexedConnection,
};
use tokio::sync::{Mutex, mpsc};

use self::connection::{Connection, Connector, unavailable};
use crate::{ValkeyOptions, memory_shared::Messages};

/// How long requests fail at once after a connection failed, so that they do not all wait for the timeout.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The messages that this process may fall behind; beyond it the subscription ends, and begins again.
const MAX_BEHIND: usize = 16 * 1024;

/// The number of entries of a log that one request reads.
const MAX_ENTRIES: usize = 10_000;

/// Sets a value if the current one is expected.
const SWAP: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
                    redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3]) return 1";

/// Removes a value if it is expected.
const RELEASE: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end redis.call('DEL', KEYS[1]) return 1";

/// The error code of an entry at a position that a log has reached.
const POSITION_TAKEN: &str = "equal or smaller";

/// A store in Valkey.
pub(crate) struct ValkeyStore {
    connector: Connector,
    prefix: String,
    /// Opened by the first request, so that a gateway starts while its storage is down, and again
    /// after it broke.
    connection: Mutex<Option<Connection>>,
    /// When a connection last failed.
    failed: Lock<Option<(Instant, StoreError)>>,
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
        Ok(Self { connector, prefix, connection: Mutex::default(), failed: Lock::default() })
    }

    async fn connection(&self) -> Result<Connection, StoreError> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current {
            return Ok(connection.clone());
        }
        if let Some((at, error)) = &*self.failed.lock()
            && at.elapsed() < RETRY_DELAY
        {
            return Err(error.clone());
        }
        let opened = self.connector.connect().await.map_err(|err| self.failed(&err))?;
        Ok(current.insert(opened).clone())
    }

    /// Sends commands in one round trip, and drops a connection that broke.
    async fn query<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, RedisOutcome> {
        let mut connection = self.connection().await.map_err(RedisOutcome::Unavailable)?;
        match connection.query(commands).await {
            Ok(value) => Ok(value),
            Err(err) => {
                if err.is_unrecoverable_error() || err.is_timeout() {
                    *self.connection.lock().await = None;
                }
                if err.is_timeout() {
                    self.failed(&err);
                }
                Err(RedisOutcome::Failed(err))
            }
        }
    }

    async fn ask<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, StoreError> {
        self.query(commands).await.map_err(RedisOutcome::into)
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
enum RedisOutcome {
    Failed(RedisError),
    Unavailable(StoreError),
}

impl From<RedisOutcome> for StoreError {
    fn from(outcome: RedisOutcome) -> Self {
        match outcome {
            RedisOutcome::Failed(err) => unavailable(&err),
            RedisOutcome::Unavailable(error) => error,
        }
    }
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
            let (mut add, key) = (redis::pipe(), self.key(key));
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
            let (mut append, key) = (redis::pipe(), self.key(log));
            append.cmd("XADD").arg(&key).arg("MAXLEN").arg("=").arg(limits.length);
            append.arg(format!("{position}-0")).arg("e").arg(entry).ignore();
            append.cmd("EXPIRE").arg(&key).arg(seconds(limits.ttl)).ignore();
            match self.query::<()>(&append).await {
                Ok(()) => Ok(true),
                Err(RedisOutcome::Failed(err)) if err.to_string().contains(POSITION_TAKEN) => {
                    Ok(false)
                }
                Err(outcome) => Err(outcome.into()),
            }
        })
    }

    fn entries<'a>(&'a self, log: &'a str, after: u64) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>> {
        Box::pin(async move {
            type Entry = (String, (String, Vec<u8>));
            let (mut read, first) = (redis::pipe(), after.saturating_add(1));
            read.cmd("XRANGE").arg(self.key(log)).arg(first).arg("+");
            let (found,): (Vec<Entry>,) = self.ask(read.arg("COUNT").arg(MAX_ENTRIES)).await?;
            let entry = |(id, (_, entry)): Entry| {
                let position = id.split('-').next().and_then(|number| number.parse().ok());
                position.map(|position| (position, entry)).ok_or(StoreError::Unreadable)
            };
            found.into_iter().map(entry).collect()
        })
    }

    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let (mut join, key) = (redis::pipe(), self.key(set));
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
            let messages = ValkeyMessages { messages: Messages(messages), _connection: connection };
            Ok(Box::new(messages) as Box<dyn Subscription>)
        })
    }
}

/// The messages of one subscription, and the connection that they arrive on.
struct ValkeyMessages {
    messages: Messages,
    _connection: MultiplexedConnection,
}

impl Subscription for ValkeyMessages {
    fn next(&mut self) -> muster_core::backend::BoxFuture<'_, Option<Vec<u8>>> {
        self.messages.next()
    }
}
