//! Replicas whose shared state is not available for a while.
//!
//! Each connection is to a replica of its own, over a pipe, so that time can pass by itself.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use muster_core::{
    credentials::Peer,
    shared::{KeyValueStore, LogLimits, SharedState, StoreError, StoreFuture, Subscription},
};
use muster_mcp::{
    http::{HttpOptions, serve_connection},
    server::Server,
};
use muster_shared::{MemoryShared, Replica, clock::Clock};
use serde_json::{Value, json};
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};

use super::{
    client::{Reply, call, exchange, request, soon},
    fake::{Fake, Journal, fake},
};

/// State that is not available while `is_down`.
#[derive(Debug)]
struct Unreliable {
    store: MemoryShared,
    is_down: AtomicBool,
}

impl Unreliable {
    fn new() -> Arc<Self> {
        let start = Instant::now();
        let clock = Clock::new(move || 1_000 + start.elapsed().as_secs());
        Arc::new(Self { store: MemoryShared::new(clock), is_down: AtomicBool::new(false) })
    }

    fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
    }

    fn unless_down<'a, T: Send + 'a>(
        &'a self,
        work: impl FnOnce() -> StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        if self.is_down.load(Ordering::Relaxed) {
            let down = StoreError::Unavailable("a test".to_owned());
            return Box::pin(std::future::ready(Err(down)));
        }
        work()
    }
}

impl KeyValueStore for Unreliable {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.unless_down(|| self.store.get(key))
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        self.unless_down(|| self.store.put(key, value, ttl))
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.unless_down(|| self.store.replace(key, value, ttl))
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        self.unless_down(|| self.store.claim(key, value, ttl))
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.unless_down(|| self.store.take(key))
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        self.unless_down(|| self.store.remove(key))
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl SharedState for Unreliable {
    fn touch<'a>(&'a self, key: &'a str, ttl: Duration) -> StoreFuture<'a, Option<Vec<u8>>> {
        self.unless_down(|| self.store.touch(key, ttl))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: &'a [u8],
        value: Vec<u8>,
        ttl: Duration,
    ) -> StoreFuture<'a, bool> {
        self.unless_down(|| self.store.swap(key, expected, value, ttl))
    }

    fn release<'a>(&'a self, key: &'a str, expected: &'a [u8]) -> StoreFuture<'a, bool> {
        self.unless_down(|| self.store.release(key, expected))
    }

    fn add<'a>(&'a self, key: &'a str, amount: u64, ttl: Duration) -> StoreFuture<'a, u64> {
        self.unless_down(|| self.store.add(key, amount, ttl))
    }

    fn append<'a>(
        &'a self,
        log: &'a str,
        position: u64,
        entry: Vec<u8>,
        limits: LogLimits,
    ) -> StoreFuture<'a, bool> {
        self.unless_down(|| self.store.append(log, position, entry, limits))
    }

    fn entries<'a>(
        &'a self,
        log: &'a str,
        after: u64,
        limit: usize,
    ) -> StoreFuture<'a, Vec<(u64, Vec<u8>)>> {
        self.unless_down(|| self.store.entries(log, after, limit))
    }

    fn renew<'a>(&'a self, log: &'a str, ttl: Duration) -> StoreFuture<'a, bool> {
        self.unless_down(|| self.store.renew(log, ttl))
    }

    fn join<'a>(&'a self, set: &'a str, member: &'a str, ttl: Duration) -> StoreFuture<'a, ()> {
        self.unless_down(|| self.store.join(set, member, ttl))
    }

    fn leave<'a>(&'a self, set: &'a str, member: &'a str) -> StoreFuture<'a, ()> {
        self.unless_down(|| self.store.leave(set, member))
    }

    fn members<'a>(&'a self, set: &'a str) -> StoreFuture<'a, Vec<String>> {
        self.unless_down(|| self.store.members(set))
    }

    fn publish<'a>(&'a self, channel: &'a str, message: Vec<u8>) -> StoreFuture<'a, ()> {
        self.unless_down(|| self.store.publish(channel, message))
    }

    fn subscribe<'a>(&'a self, channels: &'a [String]) -> StoreFuture<'a, Box<dyn Subscription>> {
        self.unless_down(|| self.store.subscribe(channels))
    }
}

/// A replica behind a pipe.
struct Piped {
    options: HttpOptions,
    fake: Arc<Fake>,
    journal: Journal,
    tasks: JoinSet<()>,
}

/// The header of a session, and an event to resume from.
type Headers<'a> = &'a [(&'a str, &'a str)];

impl Piped {
    async fn start(state: &Arc<Unreliable>) -> Self {
        let link = Replica::new(Arc::<Unreliable>::clone(state) as Arc<dyn SharedState>).unwrap();
        let mut tasks = JoinSet::new();
        let keep = Arc::clone(&link);
        tasks.spawn(async move { match keep.run().await {} });
        while link.pending_reason().is_some() {
            tokio::task::yield_now().await;
        }
        let (fake, journal) = fake();
        let options = HttpOptions { replica: Some(link), ..HttpOptions::default() };
        Self { options, fake, journal, tasks }
    }

    async fn send(&mut self, method: &str, headers: Headers<'_>, body: &Value) -> Reply {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let address = SocketAddr::from(([127, 0, 0, 1], 80));
        let server = Server::new(Arc::<Fake>::clone(&self.fake));
        let peer = Peer::new(address, address);
        self.tasks.spawn(serve_connection(server, self.options.clone(), theirs, peer));
        let mut sent = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "127.0.0.1")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            sent = sent.header(*name, *value);
        }
        exchange(ours, sent.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await
    }

    async fn initialize(&mut self) -> String {
        let client = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let reply = self.send("POST", &[], &request(0, "initialize", &params)).await;
        reply.header("mcp-session-id").to_owned()
    }

    async fn ask(&mut self, session: &str, id: u32, method: &str, params: Value) -> Reply {
        let headers = [("mcp-session-id", session), ("mcp-protocol-version", "2025-11-25")];
        self.send("POST", &headers, &request(id, method, &params)).await
    }

    async fn resume(&mut self, session: &str, last: &str) -> Reply {
        let headers = [("mcp-session-id", session), ("last-event-id", last)];
        self.send("GET", &headers, &Value::Null).await
    }
}

/// The id of the next event.
async fn next_id(reply: &mut Reply) -> String {
    let event = reply.raw_event().await.unwrap();
    let id = event.lines().find_map(|line| line.strip_prefix("id: "));
    id.unwrap_or_else(|| panic!("{event}")).to_owned()
}

/// The next response on a stream, without what precedes it.
async fn response(reply: &mut Reply) -> Value {
    loop {
        let event = reply.raw_event().await.expect("the stream ends without a response");
        let data = event.lines().find_map(|line| line.strip_prefix("data: {"));
        let message = data.map(|data| serde_json::from_str::<Value>(&format!("{{{data}")).unwrap());
        if let Some(message) = message.filter(|message| message.get("id").is_some()) {
            return message;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_silent_for_long_can_be_resumed() {
    let state = Unreliable::new();
    let (mut one, mut other) = (Piped::start(&state).await, Piped::start(&state).await);
    let session = one.initialize().await;
    let mut reply = one.ask(&session, 7, "tools/call", call("two_parts")).await;
    let id = next_id(&mut reply).await;
    sleep(Duration::from_secs(1_000)).await;
    drop(reply);
    let mut resumed = other.resume(&session, &id).await;
    assert_eq!(resumed.status.as_u16(), 200);
    one.fake.finish.notify_one();
    assert_eq!(response(&mut resumed).await["result"]["content"][0]["text"], "done");
}

#[tokio::test(start_paused = true)]
async fn a_response_is_stored_when_the_storage_is_available_again() {
    let state = Unreliable::new();
    let (mut one, mut other) = (Piped::start(&state).await, Piped::start(&state).await);
    let session = one.initialize().await;
    let mut reply = one.ask(&session, 7, "tools/call", call("two_parts")).await;
    let id = next_id(&mut reply).await;
    drop(reply);
    sleep(Duration::from_secs(1)).await;
    state.set_down(true);
    one.fake.finish.notify_one();
    sleep(Duration::from_secs(20)).await;
    state.set_down(false);
    sleep(Duration::from_secs(8)).await;
    let mut resumed = other.resume(&session, &id).await;
    assert_eq!(response(&mut resumed).await["result"]["content"][0]["text"], "done");
    assert_eq!(resumed.raw_event().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_on_while_nothing_is_known_about_its_client() {
    let state = Unreliable::new();
    let mut one = Piped::start(&state).await;
    let session = one.initialize().await;
    let reply = one.ask(&session, 7, "tools/call", call("talking")).await;
    assert_eq!(soon(one.journal.recv()).await.unwrap(), "began talking");
    drop(reply);
    state.set_down(true);
    sleep(Duration::from_secs(100)).await;
    assert!(one.journal.try_recv().is_err(), "it was cancelled");
    // Its client does not come back.
    state.set_down(false);
    sleep(Duration::from_secs(38)).await;
    assert_eq!(soon(one.journal.recv()).await.unwrap(), "dropped talking");
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_on_while_its_client_reads_it_elsewhere() {
    let state = Unreliable::new();
    let (mut one, mut other) = (Piped::start(&state).await, Piped::start(&state).await);
    let session = one.initialize().await;
    let mut reply = one.ask(&session, 7, "tools/call", call("talking")).await;
    assert_eq!(soon(one.journal.recv()).await.unwrap(), "began talking");
    let id = next_id(&mut reply).await;
    drop(reply);
    let resumed = other.resume(&session, &id).await;
    sleep(Duration::from_secs(1_000)).await;
    // What says that it is read expires during an outage.
    state.set_down(true);
    sleep(Duration::from_secs(100)).await;
    state.set_down(false);
    sleep(Duration::from_secs(100)).await;
    assert!(one.journal.try_recv().is_err(), "it was cancelled");
    drop(resumed);
    sleep(Duration::from_secs(80)).await;
    assert_eq!(soon(one.journal.recv()).await.unwrap(), "dropped talking");
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_stayed_away_ends_with_an_error() {
    let state = Unreliable::new();
    let (mut one, mut other) = (Piped::start(&state).await, Piped::start(&state).await);
    let session = one.initialize().await;
    let mut reply = one.ask(&session, 7, "tools/call", call("talking")).await;
    let id = next_id(&mut reply).await;
    drop(reply);
    sleep(Duration::from_secs(40)).await;
    let mut resumed = other.resume(&session, &id).await;
    let response = response(&mut resumed).await;
    assert_eq!(response["id"], 7);
    assert!(response["error"]["message"].as_str().unwrap().contains("cancelled"), "{response}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_whose_events_are_lost_ends_with_an_error() {
    let state = Unreliable::new();
    let (mut one, mut other) = (Piped::start(&state).await, Piped::start(&state).await);
    let session = one.initialize().await;
    let mut reply = one.ask(&session, 7, "tools/call", call("two_parts")).await;
    let id = next_id(&mut reply).await;
    let mut resumed = other.resume(&session, &id).await;
    // The storage is down until everything in it has expired, and so is the session.
    state.set_down(true);
    sleep(Duration::from_secs(401)).await;
    state.set_down(false);
    let response = response(&mut resumed).await;
    assert!(response["error"]["message"].as_str().unwrap().contains("no longer"), "{response}");
    assert_eq!(other.resume(&session, &id).await.status.as_u16(), 410);
}

#[tokio::test]
async fn only_requests_that_change_a_session_fail_with_it() {
    let state = Unreliable::new();
    let server = super::client::start_with(HttpOptions {
        replica: Some(Replica::new(Arc::<Unreliable>::clone(&state) as _).unwrap()),
        ..HttpOptions::default()
    })
    .await;
    let client = server.initialize(json!({})).await;
    state.set_down(true);
    let uri = json!({"uri": "a:b"});
    let refused = client.ask(1, "resources/subscribe", uri).await.json().await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("try again"), "{refused}");
    let answered = client.ask(2, "tools/call", call("echo")).await.json().await;
    assert!(answered["result"].is_object(), "{answered}");
    let answer = json!({"jsonrpc": "2.0", "id": "muster-0123456789abcdef-0", "result": {}});
    assert_eq!(client.post(&answer).await.status.as_u16(), 503);
    let cancel = json!({"requestId": 5});
    assert_eq!(client.tell("notifications/cancelled", cancel).await.status.as_u16(), 503);
    // What could not be stored is stored by a later request.
    state.set_down(false);
    assert!(client.ask(3, "ping", json!({})).await.json().await["result"].is_object());
    let stored = async {
        while !has_subscription(&state, &client.session).await {
            tokio::task::yield_now().await;
        }
    };
    soon(stored).await;
    state.set_down(true);
    assert_eq!(client.send("DELETE").await.status.as_u16(), 503);
    state.set_down(false);
    assert_eq!(client.send("DELETE").await.status.as_u16(), 200);
    assert_eq!(client.ask(4, "ping", json!({})).await.status.as_u16(), 404);
}

fn key_of(session: &str) -> String {
    use sha2::{Digest as _, Sha256};
    format!("session:{}", muster_core::hex::encode(&Sha256::digest(session)))
}

async fn has_subscription(state: &Unreliable, session: &str) -> bool {
    let record = state.get(&key_of(session)).await.unwrap().unwrap();
    String::from_utf8(record).unwrap().contains("a:b")
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_no_session() {
    let state = Unreliable::new();
    let replica = || Some(Replica::new(Arc::<Unreliable>::clone(&state) as _).unwrap() as _);
    let options = HttpOptions { replica: replica(), ..HttpOptions::default() };
    let server = super::client::start_with(options).await;
    let client = server.initialize(json!({})).await;
    let ttl = Duration::from_secs(60);
    state.put(&key_of(&client.session), b"of another version".to_vec(), ttl).await.unwrap();
    assert_eq!(client.ask(1, "ping", json!({})).await.status.as_u16(), 404);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_never_used_is_soon_forgotten() {
    let state = Unreliable::new();
    let mut one = Piped::start(&state).await;
    let (unused, used) = (one.initialize().await, one.initialize().await);
    assert_eq!(one.ask(&used, 1, "ping", json!({})).await.status.as_u16(), 200);
    sleep(Duration::from_secs(61)).await;
    assert_eq!(one.ask(&unused, 1, "ping", json!({})).await.status.as_u16(), 404);
    assert_eq!(one.ask(&used, 2, "ping", json!({})).await.status.as_u16(), 200);
}

#[tokio::test]
async fn what_a_session_keeps_is_limited() {
    let state = Unreliable::new();
    let replica = Some(Replica::new(Arc::<Unreliable>::clone(&state) as _).unwrap() as _);
    let options = HttpOptions { replica, ..HttpOptions::default() };
    let server = super::client::start_with(options).await;
    let params = json!({
        "protocolVersion": "2025-11-25", "capabilities": {"experimental": {"x": "y".repeat(9_000)}},
        "clientInfo": {"name": "test", "version": "1"},
    });
    let refused = server.post(&[], &request(0, "initialize", &params)).await.json().await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let client = server.initialize(json!({})).await;
    for (id, length, is_kept) in [(1, 40_000, true), (2, 30_000, false), (3, 10_000, true)] {
        let uri = json!({"uri": format!("a:{}", "b".repeat(length))});
        let reply = client.ask(id, "resources/subscribe", uri).await.json().await;
        assert_eq!(reply.get("result").is_some(), is_kept, "{length}: {reply:.300}");
    }
    // A subscription that is refused takes no other change with it.
    let level = async || {
        let record = state.get(&key_of(&client.session)).await.unwrap().unwrap();
        serde_json::from_slice::<Value>(&record).unwrap()["level"].clone()
    };
    let before = level().await;
    state.set_down(true);
    let unsaved = client.ask(4, "logging/setLevel", json!({"level": "error"})).await.json().await;
    assert!(unsaved.get("error").is_some(), "{unsaved}");
    state.set_down(false);
    let uri = json!({"uri": format!("a:{}", "c".repeat(30_000))});
    let refused = client.ask(5, "resources/subscribe", uri).await.json().await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert_ne!(level().await, before);
}
