//! Legacy sessions: what is kept of a client between its requests.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::HeaderValue;
use muster_core::call::Caller;
use serde_json::value::RawValue;
use tokio::{
    sync::{Notify, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::options::HttpOptions;
use crate::{lock::Lock, server::Server, session::Session};

/// Requests that can be taken back, by id, each with the number of its turn.
type RunningById = BTreeMap<Arc<str>, (u64, CancellationToken)>;

/// One client.
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) id: String,
    /// The same, for the head of every answer.
    pub(super) header: HeaderValue,
    /// Who opened it, and so whose it is.
    pub(super) caller: Caller,
    /// What it has settled for all its requests.
    pub(super) state: Arc<Session>,
    /// To its standing stream.
    pub(super) out: mpsc::Sender<Vec<u8>>,
    /// What waits for the standing stream.
    pub(super) waiting: Lock<mpsc::Receiver<Vec<u8>>>,
    /// Ends with the session; what belongs to it is a child.
    pub(super) ended: CancellationToken,
    /// Ends the present standing stream when the next one comes.
    standing: Lock<CancellationToken>,
    /// How many standing streams there are.
    pub(super) streams: watch::Sender<usize>,
    /// How many requests are running.
    busy: AtomicUsize,
    /// Told when none is running any more.
    quiet: Notify,
    running: Lock<RunningById>,
    started: AtomicU64,
    used: Lock<Instant>,
}

impl HttpSession {
    fn new(id: String, mut caller: Caller, ahead: usize) -> Self {
        if caller.principal.is_none() {
            caller.session.get_or_insert_with(|| id.as_str().into());
        }
        let (out, waiting) = mpsc::channel(ahead);
        let ended = CancellationToken::new();
        // Nothing in it could not be in a header.
        let header = HeaderValue::from_str(&id).unwrap_or_else(|_| HeaderValue::from_static(""));
        Self {
            id,
            header,
            caller,
            state: Arc::new(Session::new()),
            out,
            waiting: Lock::new(waiting),
            standing: Lock::new(ended.child_token()),
            ended,
            streams: watch::Sender::new(0),
            busy: AtomicUsize::new(0),
            quiet: Notify::new(),
            running: Lock::default(),
            started: AtomicU64::new(0),
            used: Lock::new(Instant::now()),
        }
    }

    /// Someone who sends a request in this session: what is the session's own is theirs.
    pub(super) fn caller(&self, mut caller: Caller) -> Caller {
        caller.session.clone_from(&self.caller.session);
        caller
    }

    /// A request of the client begins; it can be cancelled by its id.
    pub(super) fn start(self: &Arc<Self>, id: &RawValue) -> Running {
        let number = self.started.fetch_add(1, Ordering::Relaxed);
        let token = self.ended.child_token();
        let id: Arc<str> = id.get().into();
        self.running.lock().insert(Arc::clone(&id), (number, token.clone()));
        self.busy.fetch_add(1, Ordering::AcqRel);
        Running { session: Arc::clone(self), id, number, token }
    }

    /// The client takes a request back.
    pub(super) fn cancel(&self, id: &RawValue) {
        if let Some((_, token)) = self.running.lock().get(id.get()) {
            token.cancel();
        }
    }

    /// A standing stream begins, and ends the one before: every message goes out on one stream only.
    pub(super) fn stand(&self) -> CancellationToken {
        let token = self.ended.child_token();
        std::mem::replace(&mut *self.standing.lock(), token.clone()).cancel();
        token
    }

    /// Returns when nothing is running.
    pub(super) async fn quiet(&self) {
        loop {
            let quiet = self.quiet.notified();
            if self.busy.load(Ordering::Acquire) == 0 {
                return;
            }
            quiet.await;
        }
    }

    fn touch(&self) {
        *self.used.lock() = Instant::now();
    }

    /// Since when nobody uses it; none while somebody does.
    fn idle_since(&self) -> Option<Instant> {
        let in_use = self.busy.load(Ordering::Acquire) > 0 || *self.streams.borrow() > 0;
        (!in_use).then(|| *self.used.lock())
    }
}

/// A request of a session. Dropping it takes it off the list.
pub(super) struct Running {
    session: Arc<HttpSession>,
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
        if self.session.busy.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.session.quiet.notify_waiters();
        }
    }
}

/// All sessions of one transport.
#[derive(Debug)]
pub(super) struct Sessions {
    server: Server,
    idle: Duration,
    most: usize,
    /// How much may wait for a client's stream.
    ahead: usize,
    table: Lock<BTreeMap<String, Arc<HttpSession>>>,
}

impl Sessions {
    pub(super) fn new(server: Server, options: &HttpOptions, ahead: usize) -> Self {
        let (idle, most) = (options.session_idle, options.max_sessions);
        Self { server, idle, most, ahead, table: Lock::default() }
    }

    /// A new session for `caller`; none when the system has no randomness to name it.
    pub(super) fn mint(&self, caller: &Caller) -> Option<Arc<HttpSession>> {
        let session = Arc::new(HttpSession::new(name()?, caller.clone(), self.ahead));
        let surplus = {
            let mut table = self.table.lock();
            table.insert(session.id.clone(), Arc::clone(&session));
            if table.len() > self.most { longest_unused(&table, &session.id) } else { None }
        };
        if let Some(id) = surplus {
            tracing::warn!("more than {} sessions: the one longest unused ends", self.most);
            self.end(&id);
        }
        Some(session)
    }

    /// The session of that name, if it is this caller's.
    pub(super) fn find(&self, id: &str, caller: &Caller) -> Option<Arc<HttpSession>> {
        let session = self.table.lock().get(id).cloned()?;
        if session.caller.subject != caller.subject {
            return None;
        }
        session.touch();
        Some(session)
    }

    /// Ends a session: what runs for it is cancelled, its streams close.
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

    /// Ends sessions that nobody used for long.
    pub(super) fn sweep(&self) {
        for session in self.all() {
            if session.idle_since().is_some_and(|since| since.elapsed() >= self.idle) {
                tracing::debug!("session {} ends: unused", session.id);
                self.end(&session.id);
            }
        }
    }

    pub(super) fn all(&self) -> Vec<Arc<HttpSession>> {
        self.table.lock().values().cloned().collect()
    }

    fn close(&self, session: &HttpSession) {
        session.ended.cancel();
        session.state.questions.close();
        self.server.unwatch(&session.caller, session.state.unwatch_all());
    }
}

/// The session to give up for another: of those in use only if all are.
fn longest_unused(table: &BTreeMap<String, Arc<HttpSession>>, but: &str) -> Option<String> {
    table
        .values()
        .filter(|session| session.id != but)
        .min_by_key(|session| match session.idle_since() {
            Some(since) => (false, since),
            None => (true, *session.used.lock()),
        })
        .map(|session| session.id.clone())
}

/// `mcp-session-<uuid4>`
fn name() -> Option<String> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).ok()?;
    let mut bits = u128::from_be_bytes(bytes);
    bits = bits & !(0xf << 76) | 4 << 76;
    bits = bits & !(0b11 << 62) | 0b10 << 62;
    Some(format!(
        "mcp-session-{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        bits >> 96,
        bits >> 80 & 0xffff,
        bits >> 64 & 0xffff,
        bits >> 48 & 0xffff,
        bits & 0xffff_ffff_ffff
    ))
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn sessions_are_named_by_random_uuids() {
        let (one, other) = (name().unwrap(), name().unwrap());
        assert_ne!(one, other);
        let uuid = one.strip_prefix("mcp-session-").unwrap();
        let parts: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }
}
