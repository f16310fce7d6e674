//! The guarantees of shared state, checked against each adapter: memory, Valkey, Valkey with encryption, and a cluster.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests, which start the server that they test with"
)]

use std::{
    io::{Read as _, Write as _, stderr},
    net::{TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use muster_core::shared::{LogLimits, Recipient, ReplicaLink as _, SharedState};
use muster_net::TrustStore;
use muster_shared::{
    MemoryShared, Replica, Seal, SealedStore, StoreError, ValkeyOptions, clock::Clock, open,
};
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::timeout,
};

const TTL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(20);
const LIMITS: LogLimits = LogLimits { length: 3, ttl: TTL };

/// A Valkey of this test, which ends with it.
struct Server {
    process: Child,
    port: u16,
    bus: u16,
    _dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Waits for something outside of this process.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = std::time::Instant::now() + PATIENCE;
    while !is_so() {
        assert!(std::time::Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

impl Server {
    /// Starts Valkey or Redis; `None` if neither is installed.
    fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    fn start_with(options: &[&str]) -> Option<Self> {
        let (port, bus, dir) = (free_port(), free_port(), tempfile::tempdir().unwrap());
        let start = |program: &str| {
            Command::new(program)
                .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
                .args(["--cluster-port", &bus.to_string()])
                .args(options)
                .arg("--dir")
                .arg(dir.path())
                .stdout(Stdio::null())
                .spawn()
        };
        let process = start("valkey-server").or_else(|_| start("redis-server")).ok()?;
        let server = Self { process, port, bus, _dir: dir };
        until("the server does not listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }

    /// Sends a command, and returns the reply up to its last line.
    fn command(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn options(&self, prefix: &str) -> ValkeyOptions {
        let url = format!("127.0.0.1:{}", self.port);
        ValkeyOptions { url, prefix: prefix.to_owned(), ..ValkeyOptions::default() }
    }

    fn open(&self, prefix: &str) -> Arc<dyn SharedState> {
        open(&self.options(prefix), &TrustStore::system()).unwrap()
    }
}

/// A cluster of three nodes; `None` if neither Valkey nor Redis is installed.
fn cluster() -> Option<[Server; 3]> {
    let start = || Server::start_with(&["--cluster-enabled", "yes"]);
    let nodes = [start()?, start()?, start()?];
    let slots = ["0 5460", "5461 10922", "10923 16383"];
    for (node, slots) in nodes.iter().zip(slots) {
        let assigned = node.command(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        assert!(assigned.starts_with("+OK"), "{assigned}");
    }
    let [first, others @ ..] = &nodes;
    for other in others {
        let met = first.command(&format!("CLUSTER MEET 127.0.0.1 {} {}", other.port, other.bus));
        assert!(met.starts_with("+OK"), "{met}");
    }
    for node in &nodes {
        let knows_all = || {
            let info = node.command("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")
        };
        until("the cluster does not begin", knows_all);
    }
    Some(nodes)
}

/// What the tests run against.
struct Servers {
    single: Server,
    cluster: [Server; 3],
}

impl Servers {
    fn start(test: &str) -> Option<Self> {
        let servers = Server::start().and_then(|single| Some(Self { single, cluster: cluster()? }));
        if servers.is_none() {
            skip(test);
        }
        servers
    }
}

/// Lets the node with a slot move it to another one. Keys of the slot that do not exist belong there from now on.
fn begin_move(slot: &str, from: &Server, to: &Server) {
    let id = |node: &Server| {
        let reply = node.command("CLUSTER MYID");
        reply.lines().nth(1).unwrap().to_owned()
    };
    let (from_id, to_id) = (id(from), id(to));
    let importing = to.command(&format!("CLUSTER SETSLOT {slot} IMPORTING {from_id}"));
    assert!(importing.starts_with("+OK"), "{importing}");
    let migrating = from.command(&format!("CLUSTER SETSLOT {slot} MIGRATING {to_id}"));
    assert!(migrating.starts_with("+OK"), "{migrating}");
}

/// A node without slots, which joins a cluster.
fn join([first, others @ ..]: &[Server; 3]) -> Server {
    let node = Server::start_with(&["--cluster-enabled", "yes"]).unwrap();
    let met = first.command(&format!("CLUSTER MEET 127.0.0.1 {} {}", node.port, node.bus));
    assert!(met.starts_with("+OK"), "{met}");
    for one in others.iter().chain([first, &node]) {
        let knows_all = || {
            let info = one.command("CLUSTER INFO");
            info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:4")
        };
        until("the node does not join", knows_all);
    }
    node
}

/// Writes past the output capture of libtest that Valkey was not tried.
fn skip(test: &str) {
    let reason = "neither valkey-server nor redis-server is installed";
    let said = writeln!(stderr(), "skipped: {test}: {reason}");
    said.unwrap();
}

/// Every adapter, with its name.
fn adapters(servers: Option<&Servers>) -> Vec<(&'static str, Arc<dyn SharedState>)> {
    let memory = MemoryShared::new(Clock::system());
    let mut all: Vec<(_, Arc<dyn SharedState>)> = vec![("memory", Arc::new(memory))];
    if let Some(Servers { single, cluster: [node, ..] }) = servers {
        let seal = Seal::new("MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=").unwrap();
        all.push(("valkey", single.open("plain:")));
        all.push(("sealed", Arc::new(SealedStore::new(single.open("sealed:"), seal))));
        let options = ValkeyOptions { cluster: true, ..node.options("cluster:") };
        all.push(("cluster", open(&options, &TrustStore::system()).unwrap()));
    }
    all
}

#[tokio::test]
async fn values() {
    let servers = Servers::start("values");
    for (name, state) in adapters(servers.as_ref()) {
        let (one, two) = (b"one".to_vec(), b"two\n\0\xff".to_vec());
        assert_eq!(state.get("a").await.unwrap(), None, "{name}");
        assert!(!state.replace("a", one.clone(), TTL).await.unwrap(), "{name}");
        assert!(state.claim("a", one.clone(), TTL).await.unwrap(), "{name}");
        assert!(!state.claim("a", two.clone(), TTL).await.unwrap(), "{name}");
        assert_eq!(state.touch("a", TTL).await.unwrap().as_ref(), Some(&one), "{name}");
        assert!(!state.swap("a", &two, one.clone(), TTL).await.unwrap(), "{name}");
        assert!(state.swap("a", &one, two.clone(), TTL).await.unwrap(), "{name}");
        assert!(!state.swap("none", &one, two.clone(), TTL).await.unwrap(), "{name}");
        assert!(!state.release("a", &one).await.unwrap(), "{name}");
        assert_eq!(state.get("a").await.unwrap().as_ref(), Some(&two), "{name}");
        assert!(state.release("a", &two).await.unwrap(), "{name}");
        assert!(!state.release("a", &two).await.unwrap(), "{name}");
        state.put("a", one.clone(), TTL).await.unwrap();
        assert_eq!(state.take("a").await.unwrap().as_ref(), Some(&one), "{name}");
        assert_eq!(state.take("a").await.unwrap(), None, "{name}");
        assert_eq!(state.touch("a", TTL).await.unwrap(), None, "{name}");
    }
}

#[tokio::test]
async fn one_of_many_succeeds() {
    let servers = Servers::start("one_of_many_succeeds");
    for (name, state) in adapters(servers.as_ref()) {
        state.put("lease", b"dead".to_vec(), TTL).await.unwrap();
        let mut rivals = JoinSet::new();
        for rival in 0..20_u8 {
            let state = Arc::clone(&state);
            rivals.spawn(async move {
                let claimed = state.claim("claim", vec![rival], TTL).await.unwrap();
                let swapped = state.swap("lease", b"dead", vec![rival], TTL).await.unwrap();
                let appended = state.append("log", 1, vec![rival], LIMITS).await.unwrap();
                let sum = state.add("counter", 1, TTL).await.unwrap();
                (claimed, swapped, appended, sum)
            });
        }
        let won = rivals.join_all().await;
        assert_eq!(won.iter().filter(|(claimed, ..)| *claimed).count(), 1, "{name}");
        assert_eq!(won.iter().filter(|(_, swapped, ..)| *swapped).count(), 1, "{name}");
        assert_eq!(won.iter().filter(|(_, _, appended, _)| *appended).count(), 1, "{name}");
        let mut sums: Vec<_> = won.iter().map(|(.., sum)| *sum).collect();
        sums.sort_unstable();
        assert_eq!(sums, (1..=20).collect::<Vec<_>>(), "{name}");
    }
}

#[tokio::test]
async fn logs_have_one_writer_of_a_position() {
    let servers = Servers::start("logs_have_one_writer_of_a_position");
    for (name, state) in adapters(servers.as_ref()) {
        for position in 1..=5_u8 {
            let appended = state.append("log", position.into(), vec![position], LIMITS).await;
            assert!(appended.unwrap(), "{name}");
        }
        for position in [1, 5] {
            assert!(!state.append("log", position, vec![9], LIMITS).await.unwrap(), "{name}");
        }
        let kept =
            |numbers: &[u8]| numbers.iter().map(|n| (u64::from(*n), vec![*n])).collect::<Vec<_>>();
        assert_eq!(state.entries("log", 0, 10).await.unwrap(), kept(&[3, 4, 5]), "{name}");
        assert_eq!(state.entries("log", 4, 10).await.unwrap(), kept(&[5]), "{name}");
        assert_eq!(state.entries("log", 5, 10).await.unwrap(), kept(&[]), "{name}");
        assert_eq!(state.entries("log", 0, 2).await.unwrap(), kept(&[3, 4]), "{name}");
        assert!(state.renew("log", TTL).await.unwrap(), "{name}");
        assert!(!state.renew("none", TTL).await.unwrap(), "{name}");
        // A position may be left out, not used again.
        assert!(state.append("log", 9, vec![9], LIMITS).await.unwrap(), "{name}");
        assert_eq!(state.entries("other", 0, 10).await.unwrap(), kept(&[]), "{name}");
    }
}

#[tokio::test]
async fn sets() {
    let servers = Servers::start("sets");
    for (name, state) in adapters(servers.as_ref()) {
        assert!(state.members("runs").await.unwrap().is_empty(), "{name}");
        for member in ["a", "b", "a"] {
            state.join("runs", member, TTL).await.unwrap();
        }
        state.leave("runs", "none").await.unwrap();
        let mut members = state.members("runs").await.unwrap();
        members.sort();
        assert_eq!(members, ["a", "b"], "{name}");
        state.leave("runs", "a").await.unwrap();
        assert_eq!(state.members("runs").await.unwrap(), ["b"], "{name}");
    }
}

#[tokio::test]
async fn messages_reach_the_replicas_they_are_for() {
    let servers = Servers::start("messages_reach_the_replicas_they_are_for");
    for (name, state) in adapters(servers.as_ref()) {
        let (heard, mut messages) = mpsc::unbounded_channel();
        let replicas: Vec<_> = (0..3).map(|_| Replica::new(Arc::clone(&state)).unwrap()).collect();
        let mut running = JoinSet::new();
        for (number, replica) in replicas.iter().enumerate() {
            let heard = heard.clone();
            let listen = move |message: Vec<u8>| drop(heard.send((number, message)));
            replica.listen("topic", Arc::new(listen));
            let replica = Arc::clone(replica);
            running.spawn(async move { replica.run().await });
        }
        let are_ready = async {
            while replicas.iter().any(|replica| replica.pending_reason().is_some()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, are_ready).await.unwrap_or_else(|_| panic!("{name}: not connected"));
        let [first, second, third] = &replicas[..] else { panic!("three replicas") };
        assert!(first.is_alive(second.id()).await.unwrap(), "{name}");
        assert!(!first.is_alive("0123456789abcdef").await.unwrap(), "{name}");
        first.send(Recipient::Replica(third.id()), "topic", b"to\none".to_vec()).await.unwrap();
        assert_eq!(messages.recv().await.unwrap(), (2, b"to\none".to_vec()), "{name}");
        first.send(Recipient::Others, "other topic", b"unheard".to_vec()).await.unwrap();
        first.send(Recipient::Others, "topic", b"to all".to_vec()).await.unwrap();
        let mut heard_by = [messages.recv().await.unwrap().0, messages.recv().await.unwrap().0];
        heard_by.sort_unstable();
        assert_eq!(heard_by, [1, 2], "{name}");
        // It does not renew its lease again.
        running.shutdown().await;
        second.retire().await;
        assert!(!first.is_alive(second.id()).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn a_slot_that_is_being_moved_is_served_by_the_node_it_moves_to() {
    let Some(nodes) = cluster() else {
        return skip("a_slot_that_is_being_moved_is_served_by_the_node_it_moves_to");
    };
    let [first, second, _] = &nodes;
    let added = join(&nodes);
    let options = ValkeyOptions { cluster: true, ..first.options("") };
    let state = open(&options, &TrustStore::system()).unwrap();
    // One that has slots, and one that the client of the cluster does not know.
    for (tag, to) in [("b", second), ("f", &added)] {
        let key = |name: &str| format!("{{{tag}}}{name}");
        let slot = first.command(&format!("CLUSTER KEYSLOT {tag}"));
        let slot = slot.lines().next().unwrap().trim_start_matches(':').to_owned();
        state.put(&key("stays"), b"0".to_vec(), TTL).await.unwrap();
        begin_move(&slot, first, to);
        assert_eq!(state.get(&key("stays")).await.unwrap().as_deref(), Some(&b"0"[..]), "{tag}");
        state.put(&key("a"), b"1".to_vec(), TTL).await.unwrap();
        assert_eq!(state.get(&key("a")).await.unwrap().as_deref(), Some(&b"1"[..]), "{tag}");
        assert!(!state.claim(&key("a"), b"2".to_vec(), TTL).await.unwrap(), "{tag}");
        assert!(state.swap(&key("a"), b"1", b"3".to_vec(), TTL).await.unwrap(), "{tag}");
        for sum in 1..=3 {
            assert_eq!(state.add(&key("sum"), 1, TTL).await.unwrap(), sum, "{tag}");
        }
        assert!(state.append(&key("log"), 1, b"x".to_vec(), LIMITS).await.unwrap(), "{tag}");
        assert!(!state.append(&key("log"), 1, b"y".to_vec(), LIMITS).await.unwrap(), "{tag}");
        state.join(&key("set"), "m", TTL).await.unwrap();
        assert_eq!(state.members(&key("set")).await.unwrap(), ["m"], "{tag}");
        assert_eq!(state.take(&key("a")).await.unwrap().as_deref(), Some(&b"3"[..]), "{tag}");
        let stored = to.command("DBSIZE");
        assert!(stored.starts_with(":3"), "{tag}: it is not stored where it belongs: {stored}");
    }
}

#[tokio::test]
async fn values_are_encrypted_under_prefixed_keys() {
    let Some(server) = Server::start() else {
        skip("values_are_encrypted_under_prefixed_keys");
        return;
    };
    let plain = server.open("tenant:");
    let seal = || Seal::new("MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=").unwrap();
    let sealed = SealedStore::new(Arc::clone(&plain), seal());
    use muster_core::shared::KeyValueStore as _;
    sealed.put("a", b"canary".to_vec(), TTL).await.unwrap();
    let stored = plain.get("a").await.unwrap().unwrap();
    assert!(!stored.windows(6).any(|window| window == b"canary"));
    // A value cannot be moved to another key, and another prefix is another tenant.
    plain.put("b", stored, TTL).await.unwrap();
    assert!(matches!(sealed.get("b").await, Err(StoreError::Unreadable)));
    assert_eq!(server.open("other:").get("a").await.unwrap(), None);
    assert_eq!(
        server.open("").get("tenant:b").await.unwrap().map(|value| value.len() > 6),
        Some(true)
    );
}

#[tokio::test]
async fn a_server_that_is_down_is_reported() {
    let Some(server) = Server::start() else {
        skip("a_server_that_is_down_is_reported");
        return;
    };
    let state = server.open("");
    state.put("a", b"1".to_vec(), TTL).await.unwrap();
    drop(server);
    for _ in 0..3 {
        assert!(matches!(state.get("a").await, Err(StoreError::Unavailable(_))));
    }
}

/// A connection between a client and a server whose other end vanishes when `vanished` is notified.
async fn forward(listener: tokio::net::TcpListener, port: u16, vanished: Arc<Notify>) {
    let (mut client, _) = listener.accept().await.unwrap();
    let mut server = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    tokio::select! {
        copied = tokio::io::copy_bidirectional(&mut client, &mut server) => drop(copied),
        () = vanished.notified() => (),
    }
    // Both stay open, and nothing passes.
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_subscription_whose_server_vanished_ends() {
    let Some(server) = Server::start() else {
        skip("a_subscription_whose_server_vanished_ends");
        return;
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let vanished = Arc::new(Notify::new());
    let mut forwarding = JoinSet::new();
    forwarding.spawn(forward(listener, server.port, Arc::clone(&vanished)));
    let options = ValkeyOptions { url, ..ValkeyOptions::default() };
    let state = open(&options, &TrustStore::system()).unwrap();
    let mut messages = state.subscribe(&["a".to_owned()]).await.unwrap();
    server.open("").publish("a", b"1".to_vec()).await.unwrap();
    assert_eq!(messages.next().await.as_deref(), Some(&b"1"[..]));
    vanished.notify_one();
    assert_eq!(timeout(PATIENCE, messages.next()).await.expect("it does not end"), None);
}

#[tokio::test]
async fn commands_without_an_answer_do_not_wait_longer_than_the_timeout() {
    // It accepts connections and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = listener.local_addr().unwrap().to_string();
    let options = ValkeyOptions { url, ..ValkeyOptions::default() };
    let state = open(&options, &TrustStore::system()).unwrap();
    let began = std::time::Instant::now();
    let mut asked = JoinSet::new();
    for _ in 0..5 {
        let state = Arc::clone(&state);
        asked.spawn(async move { state.get("a").await.is_err() });
    }
    assert_eq!(asked.join_all().await, [true; 5]);
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
