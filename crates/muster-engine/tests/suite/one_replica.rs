//! Servers that one replica runs for all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, ResourceOperation},
    call::{CallError, Outcome},
    client::{ClientHandle, InputError, InputMode, InputRequest, Notification},
    connect::ConnectionEvent,
    join::join_all,
    json::{Raw, raw},
    lock::Lock,
    request::Change,
    shared::{KeyValueStore, LogLimits, SharedState, StoreError, StoreFuture, Subscription},
};
use muster_shared::{MemoryShared, Replica, clock::Clock};
use serde_json::json;
use tokio::{
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

use crate::{
    fake::{Fake, Plan, Said, permanent},
    rig::Rig,
};

const ONE: &str = "command: server\nrunOn: one\n";

/// Shared state that one replica cannot reach while it is cut off.
#[derive(Debug)]
struct CutOff {
    state: Arc<MemoryShared>,
    is_cut: Arc<AtomicBool>,
}

fn unavailable<'a, T: Send + 'a>() -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::Unavailable("a test".to_owned()))))
}

/// Delegates operations unless the replica is cut off.
macro_rules! delegated {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $value:ty;)*) => {
        $(fn $name<'a>(&'a self, $($arg: $kind),*) -> StoreFuture<'a, $value> {
            match self.is_cut.load(Ordering::Relaxed) {
                true => unavailable(),
                false => self.state.$name($($arg),*),
            }
        })*
    };
}

impl KeyValueStore for CutOff {
    delegated! {
        get(key: &'a str) -> Option<Vec<u8>>;
        put(key: &'a str, value: Vec<u8>, ttl: Duration) -> ();
        replace(key: &'a str, value: Vec<u8>, ttl: Duration) -> bool;
        claim(key: &'a str, value: Vec<u8>, ttl: Duration) -> bool;
        take(key: &'a str) -> Option<Vec<u8>>;
        remove(key: &'a str) -> ();
    }

    fn is_shared(&self) -> bool {
        true
    }
}

impl SharedState for CutOff {
    delegated! {
        touch(key: &'a str, ttl: Duration) -> Option<Vec<u8>>;
        swap(key: &'a str, expected: &'a [u8], value: Vec<u8>, ttl: Duration) -> bool;
        release(key: &'a str, expected: &'a [u8]) -> bool;
        add(key: &'a str, amount: u64, ttl: Duration) -> u64;
        append(log: &'a str, position: u64, entry: Vec<u8>, limits: LogLimits) -> bool;
        entries(log: &'a str, after: u64, limit: usize) -> Vec<(u64, Vec<u8>)>;
        renew(log: &'a str, ttl: Duration) -> bool;
        join(set: &'a str, member: &'a str, ttl: Duration) -> ();
        leave(set: &'a str, member: &'a str) -> ();
        members(set: &'a str) -> Vec<String>;
        publish(channel: &'a str, message: Vec<u8>) -> ();
        subscribe(channels: &'a [String]) -> Box<dyn Subscription>;
    }
}

/// Two replicas with one configuration. The first one runs the server at the beginning.
struct Pair {
    first: Rig,
    second: Rig,
    /// Cuts off the first one.
    cut: Arc<AtomicBool>,
    running: JoinSet<()>,
    /// The link of the second one, and the task that keeps it connected.
    link: (Arc<Replica>, AbortHandle),
}

fn connect(running: &mut JoinSet<()>, link: &Arc<Replica>) -> AbortHandle {
    let link = Arc::clone(link);
    running.spawn(async move { match link.run().await {} })
}

impl Pair {
    async fn new() -> Self {
        Self::with([Fake::default(), Fake::default()]).await
    }

    async fn with([one, other]: [Fake; 2]) -> Self {
        let start = Instant::now();
        let clock = Clock::new(move || 1_000 + start.elapsed().as_secs());
        let shared = Arc::new(MemoryShared::new(clock));
        let mut running = JoinSet::new();
        let cuts = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let links = cuts.each_ref().map(|is_cut| {
            let (state, is_cut) = (Arc::clone(&shared), Arc::clone(is_cut));
            let link = Replica::new(Arc::new(CutOff { state, is_cut })).unwrap();
            let connected = connect(&mut running, &link);
            (link, connected)
        });
        while links.iter().any(|(link, _)| link.pending_reason().is_some()) {
            tokio::task::yield_now().await;
        }
        let files = [("mcpservers/a.yaml", ONE)];
        let [(first, _), link] = links;
        let first = Rig::replica(first, one, &files);
        first.until_is("a", "running").await;
        let second = Rig::replica(Arc::<Replica>::clone(&link.0), other, &files);
        second.until_is("a", "running").await;
        let [cut, _] = cuts;
        Self { first, second, cut, running, link }
    }

    /// Lets the second replica miss the messages of some time.
    async fn deafen(&mut self, during: impl AsyncFnOnce(&Self)) {
        self.link.1.abort();
        sleep(Duration::from_millis(10)).await;
        during(self).await;
        self.link.1 = connect(&mut self.running, &self.link.0);
    }

    /// How often each replica started the server.
    fn starts(&self) -> [usize; 2] {
        let start = Instant::now();
        [&self.first, &self.second].map(|rig| rig.fake.attempts("a", start).len())
    }
}

#[track_caller]
fn assert_unavailable(result: Result<Outcome, CallError>, expected: &str) {
    let error = result.unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[tokio::test(start_paused = true)]
async fn one_process_serves_the_calls_of_all_replicas() {
    let pair = Pair::new().await;
    for rig in [&pair.first, &pair.second] {
        assert_eq!(rig.call("x_a_echo", json!({"n": 1})).await, "a did echo");
    }
    assert_eq!(pair.starts(), [1, 0]);
    assert_eq!(pair.first.fake.called(), ["echo {\"n\":1}", "echo {\"n\":1}"]);
    // What changes at the server is known everywhere.
    let mut changes = pair.second.engine().changes().subscribe();
    pair.first.fake.link("a").offer(vec!["echo", "other"]);
    pair.second.until_listed("x_a_other").await;
    let uri = "a://r".to_owned();
    pair.first.fake.link("a").happen(ConnectionEvent::ResourceUpdated { uri: uri.clone() });
    while !matches!(changes.recv().await.unwrap(), Change::Resource { uri: changed } if changed == uri)
    {
    }
    // A result that is an error of the tool stays one.
    pair.first.fake.says("echo", [Said::Failure("no")]);
    assert_eq!(pair.second.call("x_a_echo", json!({})).await, "E: no");
}

#[tokio::test(start_paused = true)]
async fn a_change_is_known_although_its_message_was_lost() {
    let mut pair = Pair::new().await;
    pair.deafen(async |pair| {
        pair.first.fake.link("a").offer(vec!["echo", "other"]);
        pair.first.until_listed("x_a_other").await;
        sleep(Duration::from_secs(1)).await;
    })
    .await;
    let listed = timeout(Duration::from_secs(60), pair.second.until_listed("x_a_other"));
    listed.await.expect("it is listed again");
    assert_eq!(pair.second.call("x_a_other", json!({})).await, "a did other");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_when_no_replica_has_it() {
    let pair = Pair::new().await;
    let subscribe = |uri: &str| ResourceOperation::Subscribe { uri: uri.to_owned() };
    let unsubscribe = |uri: &str| ResourceOperation::Unsubscribe { uri: uri.to_owned() };
    for rig in [&pair.first, &pair.second] {
        rig.request("a", subscribe("a://r")).await.unwrap();
    }
    assert_eq!(pair.first.fake.called(), ["subscribe a://r", "subscribe a://r"]);
    pair.second.request("a", unsubscribe("a://r")).await.unwrap();
    assert!(pair.first.fake.called().is_empty());
    pair.first.request("a", unsubscribe("a://r")).await.unwrap();
    assert_eq!(pair.first.fake.called(), ["unsubscribe a://r"]);
    // Subscriptions that the server refused take no room of others.
    for number in 0..10_001 {
        let refused = pair.first.request("a", subscribe(&format!("b://{number}"))).await;
        assert_unavailable(refused, "no such resource");
    }
    pair.second.request("a", subscribe("a://s")).await.unwrap();
    let long = format!("a://{}", "r".repeat(8 * 1024));
    assert_unavailable(pair.second.request("a", subscribe(&long)).await, "at most 8192 bytes");
    // Those that it accepted are limited.
    for number in 1..10_000 {
        pair.first.request("a", subscribe(&format!("a://{number}"))).await.unwrap();
    }
    let refused = pair.second.request("a", subscribe("a://one-more")).await;
    assert_unavailable(refused, "too many subscriptions");
    pair.second.request("a", subscribe("a://1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn another_replica_takes_over_at_once_when_the_server_is_given_up() {
    let mut pair = Pair::new().await;
    let before = Instant::now();
    pair.first.engine.take().unwrap().shut_down().await;
    let connected = |fake: &Fake| fake.attempts("a", before).len() == 1;
    while !connected(&pair.second.fake) {
        sleep(Duration::from_millis(10)).await;
    }
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    // What the process left behind has ended by then.
    assert!(before.elapsed() >= Duration::from_millis(500), "{:?}", before.elapsed());
    pair.second.until_is("a", "running").await;
    assert_eq!(pair.second.call("x_a_echo", json!({})).await, "a did echo");
    assert_eq!(pair.second.fake.called().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_is_cut_off_stops_the_server_before_another_starts_it() {
    let pair = Pair::new().await;
    pair.first.fake.says("echo", [Said::Nothing]);
    pair.second.fake.says("echo", [Said::Text("here")]);
    // As many as would open the circuit breaker of a server that gives no answer.
    let forward = |_| -> BoxFuture<'_, _> { Box::pin(pair.second.try_call("x_a_echo", json!({}))) };
    let forwarded = join_all((0..10).map(forward).collect());
    let own = pair.first.try_call("x_a_echo", json!({}));
    let began = Instant::now();
    let (forwarded, own, ()) = tokio::join!(forwarded, own, async {
        while pair.first.fake.link("a").most_calls() == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        pair.cut.store(true, Ordering::Relaxed);
        while pair.first.fake.closed().is_empty() {
            sleep(Duration::from_millis(100)).await;
        }
        assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
        assert_eq!(pair.starts(), [1, 0]);
    });
    // Neither replica makes the call again.
    assert_unavailable(own, "repeat it only if that does no harm");
    for forwarded in forwarded {
        assert_unavailable(forwarded, "repeat it only if that does no harm");
    }
    assert!(pair.second.fake.called().is_empty());
    while pair.starts() == [1, 0] {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(began.elapsed() > Duration::from_secs(9), "{:?}", began.elapsed());
    assert!(began.elapsed() < Duration::from_secs(13), "{:?}", began.elapsed());
    pair.second.until_is("a", "running").await;
    assert_eq!(pair.second.call("x_a_echo", json!({})).await, "here");
    // The first one calls it there as soon as it can.
    pair.cut.store(false, Ordering::Relaxed);
    pair.first.until_is("a", "running").await;
    assert_eq!(pair.first.call("x_a_echo", json!({})).await, "here");
    assert_eq!(pair.starts(), [1, 1]);
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_with_its_client_at_another_replica() {
    let pair = Pair::new().await;
    pair.first.fake.says("echo", [Said::Nothing, Said::Text("next")]);
    tokio::select! {
        _ = pair.second.try_call("x_a_echo", json!({})) => panic!("it gets no reply"),
        () = async {
            while pair.first.fake.link("a").most_calls() == 0 {
                sleep(Duration::from_millis(1)).await;
            }
            sleep(Duration::from_millis(10)).await;
        } => (),
    }
    pair.first.fake.link("a").cancelled().await;
    assert_eq!(pair.second.call("x_a_echo", json!({})).await, "next");
}

#[tokio::test(start_paused = true)]
async fn a_server_is_started_stopped_and_restarted_at_any_replica() {
    let pair = Pair::new().await;
    let name = || json!({"name": "a"});
    assert_eq!(
        pair.second.call("core_service_restart", name()).await,
        "Successfully restarted service 'a'"
    );
    assert_eq!(pair.starts().iter().sum::<usize>(), 2);
    pair.first.until_is("a", "running").await;
    assert_eq!(
        pair.second.call("core_service_stop", name()).await,
        "Successfully stopped service 'a'"
    );
    for rig in [&pair.first, &pair.second] {
        rig.until_is("a", "stopped").await;
    }
    assert_eq!(pair.first.fake.closed().len() + pair.second.fake.closed().len(), 2);
    sleep(Duration::from_secs(3600)).await;
    assert_eq!(pair.starts().iter().sum::<usize>(), 2);
    assert_eq!(
        pair.second.call("core_service_start", name()).await,
        "Successfully started service 'a'"
    );
    pair.first.until_is("a", "running").await;
    assert_eq!(pair.starts().iter().sum::<usize>(), 3);
    // A server that is added after one of its name was stopped and removed is another one.
    pair.first.call("core_service_stop", name()).await;
    pair.second.until_is("a", "stopped").await;
    for rig in [&pair.first, &pair.second] {
        std::fs::remove_file(rig.path("mcpservers/a.yaml")).unwrap();
        rig.until(|view| view.servers.is_empty()).await;
    }
    for rig in [&pair.first, &pair.second] {
        rig.put("mcpservers/a.yaml", ONE);
        rig.until_is("a", "running").await;
    }
    assert_eq!(pair.starts().iter().sum::<usize>(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_start_here_is_tried_elsewhere() {
    let [one, other] = [Fake::default(), Fake::default()];
    one.plan("a", [Plan::Up(vec!["echo"]), permanent()]);
    let pair = Pair::with([one, other]).await;
    pair.first.fake.link("a").crash();
    pair.second.until(|_| pair.starts() != [1, 0]).await;
    pair.second.until_is("a", "running").await;
    pair.first.until_is("a", "running").await;
    assert_eq!(pair.first.call("x_a_echo", json!({})).await, "a did echo");
}

/// A client that answers requests for input, and records what it is sent.
#[derive(Debug, Default)]
struct Answering {
    answer: &'static str,
    seen: Lock<Vec<String>>,
}

impl ClientHandle for Answering {
    fn capabilities(&self) -> Raw {
        raw(&json!({"elicitation": {}}))
    }

    fn input_mode(&self) -> InputMode {
        InputMode::Direct
    }

    fn notify(&self, notice: Notification) {
        self.seen.lock().push(format!("{} {}", notice.method, notice.params));
    }

    fn request_input(&self, request: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        self.seen.lock().push(format!("{} {}", request.method, request.params));
        let answer = match self.answer {
            "" => Err(InputError::Disconnected),
            answer => Ok(raw(&answer.repeat(1_000_000))),
        };
        Box::pin(async move {
            // Longer than the request waits before it is sent again.
            sleep(Duration::from_secs(5)).await;
            answer
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_asks_the_client_at_another_replica() {
    let pair = Pair::new().await;
    pair.first.fake.says("echo", [Said::Answer]);
    for (answer, expected) in [
        ("y", "yyy"),
        ("", "the client is gone"),
        ("too long", "an answer for another replica may have at most 4194304 bytes"),
    ] {
        let client = Arc::new(Answering { answer, seen: Lock::default() });
        let handle: Arc<dyn ClientHandle> = Arc::<Answering>::clone(&client);
        let said = pair.second.call_for(&handle, "x_a_echo", json!({})).await.unwrap();
        let Outcome::Text { text, .. } = said else { panic!("{said:?}") };
        assert!(text.contains(expected), "{text:.200}");
        // It is asked once, although the question is repeated.
        assert_eq!(
            *client.seen.lock(),
            [
                r#"notifications/progress {"progress":1}"#,
                r#"elicitation/create {"message":"sure?"}"#,
            ]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_nowhere_is_reported_as_failed_everywhere() {
    let pair = Pair::new().await;
    pair.first.fake.plan("a", [permanent()]);
    pair.second.fake.plan("a", [permanent()]);
    pair.first.fake.link("a").crash();
    for rig in [&pair.first, &pair.second] {
        let status = rig.until_is("a", "failed").await.status.clone();
        assert!(status.error.is_some(), "{status:?}");
    }
    pair.first.fake.plan("a", [Plan::Up(vec!["echo"])]);
    pair.second.fake.plan("a", [Plan::Up(vec!["echo"])]);
    for rig in [&pair.first, &pair.second] {
        rig.until_is("a", "running").await;
        assert_eq!(rig.call("x_a_echo", json!({})).await, "a did echo");
    }
}
