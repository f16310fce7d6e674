//! Legacy sessions over HTTP.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::HeaderValue;
use muster_core::{call::Caller, hex};
use serde_json::value::RawValue;
use tokio::{
    sync::{Mutex, Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectionCounter, connections::peer_of, options::HttpOptions, replica_sessions::digest,
};
use crate::{lock::Lock, replica_names::ReplicaNames, server::Server, session::LegacySession};

/// The session limit divided by this is the most that one search for sessions evicts. A search visits every session
/// while all requests wait, so in a flood it must not run for every new session.
const EVICTION_DIVISOR: usize = 100;

/// Pending requests by id, each with a serial number: ids may be reused.
type RunningById = BTreeMap<Arc<str>, (u64, CancellationToken)>;

/// The session of one client.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) id: String,
    /// The id as a header of responses.
    pub(super) header: HeaderValue,
    /// The caller that opened the session and owns it.
    pub(super) caller: Caller,
    pub(super) state: Arc<LegacySession>,
    /// The queue of its standalone stream.
    pub(super) out: mpsc::Sender<Vec<u8>>,
    /// The receiving end of the queue.
    pub(super) waiting: Lock<mpsc::Receiver<Vec<u8>>>,
    /// Cancelled when the session ends; the tokens of its requests and streams are children.
    pub(super) ended: CancellationToken,
    /// Closes the current standalone stream when the next one opens.
    stream: Lock<CancellationToken>,
    /// The number of open standalone streams.
    pub(super) streams: watch::Sender<usize>,
    /// The number of pending requests.
    pending: AtomicUsize,
    /// Notified when no request is pending.
    idle: Notify,
    running: Lock<RunningById>,
    started: AtomicU64,
    used: Lock<Instant>,
    /// Whether a request followed `initialize`.
    is_established: AtomicBool,
    /// Whether other replicas may serve it, too.
    is_shared: bool,
    /// Whether its client has opened a standalone stream, at any replica.
    pub(super) was_streamed: AtomicBool,
    /// Whether its client may have missed changes.
    pub(super) is_outdated: AtomicBool,
    /// Held while changes are stored for other replicas.
    pub(super) saving: Mutex<()>,
    /// The user that the session is counted for, or the peer if the user is unknown.
    holder: Holder,
}

/// The user or the peer that a session is counted for.
type Holder = (Arc<str>, Option<IpAddr>);

impl HttpSession {
    fn new(
        id: String,
        mut caller: Caller,
        address: IpAddr,
        queue: usize,
        names: Option<&Arc<ReplicaNames>>,
    ) -> Self {
        let holder =
            (Arc::clone(&caller.subject), caller.principal.is_none().then(|| peer_of(address)));
        caller.session.get_or_insert_with(|| id.as_str().into());
        let (out, waiting) = mpsc::channel(queue);
        let state = LegacySession::with_queue(&out);
        let state = match names {
            Some(names) => state.shared_by(names),
            None => state,
        };
        let ended = CancellationToken::new();
        // Ids contain only characters that headers allow.
        let header = HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self {
            id,
            header,
            caller,
            state: Arc::new(state),
            out,
            waiting: Lock::new(waiting),
            stream: Lock::new(ended.child_token()),
            ended,
            streams: watch::Sender::new(0),
            pending: AtomicUsize::new(0),
            idle: Notify::new(),
            running: Lock::default(),
            started: AtomicU64::new(0),
            used: Lock::new(Instant::now()),
            is_established: AtomicBool::new(false),
            is_shared: names.is_some(),
            was_streamed: AtomicBool::new(false),
            is_outdated: AtomicBool::new(false),
            saving: Mutex::default(),
            holder,
        }
    }

    /// The caller of a request in this session.
    pub(super) fn caller(&self, mut caller: Caller) -> Caller {
        caller.session.clone_from(&self.caller.session);
        caller
    }

    /// Registers a request, so that it can be cancelled by its id.
    pub(super) fn start(self: &Arc<Self>, id: &RawValue) -> Running {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let token = self.ended.child_token();
        let id: Arc<str> = id.get().into();
        self.running.lock().insert(Arc::clone(&id), (number, token.clone()));
        self.pending.fetch_add(1, Ordering::AcqRel);
        Running { session: Arc::clone(self), id, number, token }
    }

    /// Cancels a request; `false` if it is not running here.
    pub(super) fn cancel(&self, id: &RawValue) -> bool {
        let running = self.running.lock();
        let Some((_, token)) = running.get(id.get()) else { return false };
        token.cancel();
        true
    }

    /// The name of the session in logs: its id is a secret of its client.
    pub(super) fn log_name(&self) -> String {
        log_name(&self.id)
    }

    /// Whether changes can be queued for its client. A client of several replicas has its stream at one of them.
    pub(super) fn is_reachable(&self) -> bool {
        !self.is_shared || *self.streams.borrow() > 0
    }

    /// Opens a standalone stream and closes the previous one: every message is sent on one stream only.
    pub(super) fn open_stream(&self) -> CancellationToken {
        let token = self.ended.child_token();
        std::mem::replace(&mut *self.stream.lock(), token.clone()).cancel();
        token
    }

    /// Waits until no request is pending.
    pub(super) async fn until_idle(&self) {
        loop {
            let idle = self.idle.notified();
            if self.pending.load(Ordering::Acquire) == 0 {
                return;
            }
            idle.await;
        }
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Whether it has a pending request or an open stream.
    pub(super) fn is_in_use(&self) -> bool {
        self.pending.load(Ordering::Acquire) > 0 || *self.streams.borrow() > 0
    }

    /// Whether its client waits for no response.
    pub(super) fn is_quiet(&self) -> bool {
        self.pending.load(Ordering::Acquire) == 0
    }

    /// Since when the session is idle; `None` while it is in use.
    fn idle_since(&self) -> Option<Instant> {
        (!self.is_in_use()).then(|| *self.used.lock())
    }
}

/// A pending request of a session. Dropping it unregisters it.
pub(super) struct Running {
    pub(super) session: Arc<HttpSession>,
    id: Arc<str>,
    number: u64,
    pub(super) token: CancellationToken,
}

impl Drop for Running {
    fn drop(&mut self) {
        {
            let mut running = self.session.running.lock();
            if running.get(&self.id).is_some_and(|(number, _)| *number == self.number) {
                running.remove(&self.id);
            }
        }
        self.session.touch();
        if self.session.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.session.idle.notify_waiters();
        }
    }
}

/// The sessions of one transport.
#[derive(Debug)]
pub(super) struct SessionTable {
    server: Server,
    idle_timeout: Duration,
    max_sessions: usize,
    /// The size of the queue of each session.
    queue: usize,
    counter: Arc<ConnectionCounter>,
    /// The names of this replica, if others serve the same sessions.
    names: Option<Arc<ReplicaNames>>,
    table: Lock<BTreeMap<String, Arc<HttpSession>>>,
}

impl SessionTable {
    pub(super) fn new(server: Server, options: &HttpOptions, queue: usize) -> Self {
        let (idle_timeout, max_sessions) = (options.session_idle, options.max_sessions);
        let counter = Arc::clone(&options.connections);
        let (names, table) = (None, Lock::default());
        Self { server, idle_timeout, max_sessions, queue, counter, names, table }
    }

    /// Lets other replicas serve the sessions too.
    pub(super) fn shared_by(self, names: Option<&Arc<ReplicaNames>>) -> Self {
        Self { names: names.cloned(), ..self }
    }

    /// A new session; `None` if the system has no randomness for its id.
    pub(super) fn create(&self, caller: &Caller, address: IpAddr) -> Option<Arc<HttpSession>> {
        Some(self.insert(new_id()?, caller.clone(), address))
    }

    /// Adopts a session of another replica, which its client continues here.
    pub(super) fn adopt(
        &self,
        id: &str,
        caller: &Caller,
        name: Option<&str>,
        address: IpAddr,
    ) -> Arc<HttpSession> {
        let caller = Caller { session: name.map(Into::into), ..caller.clone() };
        let session = self.insert(id.to_owned(), caller, address);
        session.is_established.store(true, Ordering::Relaxed);
        session
    }

    fn insert(&self, id: String, caller: Caller, address: IpAddr) -> Arc<HttpSession> {
        let session = HttpSession::new(id, caller, address, self.queue, self.names.as_ref());
        let session = Arc::new(session);
        let evicted = {
            let mut table = self.table.lock();
            if let Some(known) = table.get(&session.id) {
                return Arc::clone(known);
            }
            table.insert(session.id.clone(), Arc::clone(&session));
            match table.len() > self.max_sessions {
                true => {
                    let most = (self.max_sessions / EVICTION_DIVISOR).max(1);
                    to_evict(&table, &session.id, most, self.names.is_some())
                }
                false => Vec::new(),
            }
        };
        self.counter.session_began();
        if !evicted.is_empty() {
            let (max, count) = (self.max_sessions, evicted.len());
            tracing::debug!("more than {max} sessions: {count} of the heaviest user are evicted");
        }
        for id in evicted {
            self.end(&id);
        }
        session
    }

    /// The session of an id, without a check of its owner: other replicas check it before they send a message.
    pub(super) fn known(&self, id: &str) -> Option<Arc<HttpSession>> {
        self.table.lock().get(id).cloned()
    }

    /// The session of an id, if it belongs to `caller`.
    pub(super) fn find(&self, id: &str, caller: &Caller) -> Option<Arc<HttpSession>> {
        let session = self.table.lock().get(id).cloned()?;
        if session.caller.subject != caller.subject {
            return None;
        }
        session.touch();
        session.is_established.store(true, Ordering::Relaxed);
        Some(session)
    }

    /// Ends a session: cancels its requests and closes its streams.
    pub(super) fn end(&self, id: &str) {
        if let Some(session) = self.table.lock().remove(id) {
            self.close(&session);
        }
    }

    pub(super) fn end_all(&self) {
        for session in std::mem::take(&mut *self.table.lock()).values() {
            self.close(session);
        }
    }

    /// Evicts idle sessions.
    pub(super) fn sweep(&self) {
        for session in self.all() {
            if session.idle_since().is_some_and(|since| since.elapsed() >= self.idle_timeout) {
                tracing::debug!("session {} is evicted: idle", session.log_name());
                self.end(&session.id);
            }
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<HttpSession>> {
        self.table.lock().values().cloned().collect()
    }

    fn close(&self, session: &HttpSession) {
        self.counter.session_ended();
        session.ended.cancel();
        session.state.input_requests.close();
        self.server.unsubscribe(&session.caller, session.state.unsubscribe_all());
    }
}

/// Returns the sessions to evict, of the user or peer with the most sessions: at most `most` sessions that were only
/// initialized, longest idle first. If there are none, the least recently used session, and one in use only if all are.
/// Where replicas share sessions, up to `most` idle ones instead: they are only dropped from memory, and loaded again
/// on their next use.
fn to_evict(
    table: &BTreeMap<String, Arc<HttpSession>>,
    except: &str,
    most: usize,
    is_shared: bool,
) -> Vec<String> {
    let mut held: BTreeMap<&Holder, usize> = BTreeMap::new();
    for session in table.values() {
        *held.entry(&session.holder).or_default() += 1;
    }
    let Some((heaviest, _)) = held.into_iter().max_by_key(|(_, held)| *held) else {
        return Vec::new();
    };
    let theirs = table.values().filter(|held| held.id != except && held.holder == *heaviest);
    let (mut unused, mut idle, mut used) = (Vec::new(), Vec::new(), Vec::new());
    for session in theirs {
        let is_established = session.is_established.load(Ordering::Relaxed);
        match session.idle_since() {
            Some(since) if !is_established => unused.push((since, &session.id)),
            Some(since) if is_shared => idle.push((since, &session.id)),
            Some(since) => used.push(((false, is_established, since), &session.id)),
            None => used.push(((true, is_established, *session.used.lock()), &session.id)),
        }
    }
    let mut evicted = if unused.is_empty() { idle } else { unused };
    if evicted.is_empty() {
        return used.into_iter().min().map(|(_, id)| id.clone()).into_iter().collect();
    }
    if let Some(last) = most.checked_sub(1).filter(|last| *last < evicted.len()) {
        evicted.select_nth_unstable(last);
        evicted.truncate(most);
    }
    evicted.into_iter().map(|(_, id)| id.clone()).collect()
}

/// The name of a session in logs.
pub(super) fn log_name(id: &str) -> String {
    let mut name = digest(id);
    name.truncate(8);
    name
}

/// `mcp-session-<uuid4>`
fn new_id() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(format!("mcp-session-{}", hex::uuid4(bytes)))
}

#[cfg(test)]
mod tests {
    use std::{net::IpAddr, sync::Arc};

    use muster_core::{call::Caller, credentials::Principal};

    use super::{HttpSession, new_id};

    #[tokio::test]
    async fn each_session_of_a_user_has_a_name_of_its_own() {
        let principal = Principal {
            id: "https://id.example|ada".into(),
            issuer: "https://id.example".into(),
            subject: "ada".into(),
            email: None,
            name: None,
            groups: Arc::default(),
            login: "1".into(),
            identity: None,
            client: None,
        };
        let caller = Caller::authenticated(Arc::new(principal));
        let [one, other] = ["1", "2"].map(|id| {
            let address = IpAddr::from([127, 0, 0, 1]);
            HttpSession::new(id.to_owned(), caller.clone(), address, 1, None).caller(caller.clone())
        });
        assert_ne!(one.session, other.session);
        // Private state belongs to the user, not to the session.
        assert_eq!(one.owner(), other.owner());
    }

    #[test]
    fn session_ids_are_random_uuids() {
        let (one, other) = (new_id().unwrap(), new_id().unwrap());
        assert_ne!(one, other);
        let uuid = one.strip_prefix("mcp-session-").unwrap();
        let parts: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
