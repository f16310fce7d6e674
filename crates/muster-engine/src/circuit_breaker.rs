//! The circuit breaker of a server.
//!
//! - *Closed*: calls are sent. After several calls in a row without an answer (`callFailures` in config.yaml), it opens.
//! - *Open*: calls fail at once, until a backoff has passed.
//! - *Half-open*: one call probes the server. An answer closes it, a failure opens it again with a longer backoff.
//!
//! Only calls that get no answer count: the server cannot be reached, the connection is lost, or the call timeout passes.
//! An error of a tool is an answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_core::{backoff::Backoff, call::CallError, lock::Lock, name::BackendName};
use tokio::time::Instant;

/// The pauses between probes.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(5), max: Duration::from_secs(300) };

/// The circuit breaker of one server. All connections to the server share it.
#[derive(Debug)]
pub struct CircuitBreaker {
    server: BackendName,
    state: Lock<State>,
    /// Whether a call got no answer since the last answer. Calls to a server that answers take no lock.
    has_failed: AtomicBool,
}

/// Closed without `probe_at`, open until then, half-open from then on.
#[derive(Debug, Default)]
struct State {
    /// The failures in a row after which it opens, `callFailures` in config.yaml; 0 for never.
    threshold: u64,
    /// Calls without an answer since the last answer.
    failures: u64,
    /// When the next probe is due; `None` while the breaker is closed.
    probe_at: Option<Instant>,
    /// How often it has opened since the last answer.
    opened: u64,
    /// Whether a call probes the server while the breaker is half-open.
    is_probing: bool,
}

/// An open circuit breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenCircuit {
    /// The number of consecutive calls without an answer.
    pub failures: u64,
    /// The time until the next probe; zero if one is due or under way.
    pub wait: Duration,
}

impl OpenCircuit {
    /// Explains why a call fails at once.
    pub fn reason(self) -> String {
        let Self { failures, wait } = self;
        // Rounded up, so that an attempt after this time is not too early.
        match wait.as_millis().div_ceil(1000) {
            0 => format!("it failed {failures} times in a row; another call is trying it now"),
            seconds => format!("it failed {failures} times in a row; next attempt in {seconds} s"),
        }
    }
}

impl CircuitBreaker {
    /// The closed circuit breaker of a server, which opens after `threshold` failures in a row; 0 for never.
    pub(crate) fn new(server: &str, threshold: u16) -> Arc<Self> {
        let state = State { threshold: threshold.into(), ..State::default() };
        let (server, has_failed) = (BackendName::new(server), AtomicBool::new(false));
        Arc::new(Self { server, state: Lock::new(state), has_failed })
    }

    /// Replaces the threshold.
    pub(crate) fn set_threshold(&self, threshold: u16) {
        self.state.lock().threshold = threshold.into();
        if threshold == 0 {
            self.close();
        }
    }

    /// Fails if a call would fail at once.
    pub(crate) fn check(&self) -> Result<(), CallError> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.state.lock().refusal().map_or(Ok(()), |open| Err(self.error(open)))
    }

    /// Begins a call.
    pub(crate) fn begin(&self) -> Result<GuardedCall<'_>, CallError> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return Ok(GuardedCall { breaker: self, is_probe: false });
        }
        let mut state = self.state.lock();
        if let Some(open) = state.refusal() {
            return Err(self.error(open));
        }
        let is_probe = state.probe_at.is_some();
        state.is_probing |= is_probe;
        Ok(GuardedCall { breaker: self, is_probe })
    }

    /// Its state while it is open.
    pub fn open(&self) -> Option<OpenCircuit> {
        self.state.lock().open()
    }

    /// Closes it: the server is connected again.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.close();
        self.has_failed.store(false, Ordering::Relaxed);
    }

    fn error(&self, open: OpenCircuit) -> CallError {
        let (backend, reason) = (self.server.clone(), open.reason());
        CallError::Unavailable { backend, reason, no_answer: false }
    }
}

impl State {
    fn open(&self) -> Option<OpenCircuit> {
        let wait = self.probe_at?.saturating_duration_since(Instant::now());
        Some(OpenCircuit { failures: self.failures, wait })
    }

    /// Why a call fails at once; `None` if it may be sent.
    fn refusal(&self) -> Option<OpenCircuit> {
        self.open().filter(|open| self.is_probing || !open.wait.is_zero())
    }

    fn close(&mut self) {
        *self = Self { threshold: self.threshold, ..Self::default() };
    }
}

/// A call in progress. If it is dropped before its end, it does not count.
#[derive(Debug)]
pub(crate) struct GuardedCall<'a> {
    breaker: &'a CircuitBreaker,
    is_probe: bool,
}

impl GuardedCall<'_> {
    /// Counts the result of the call.
    pub(crate) fn end<T>(self, result: &Result<T, CallError>) {
        let has_failed = matches!(result, Err(CallError::Unavailable { no_answer: true, .. }));
        if !has_failed && !self.breaker.has_failed.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.breaker.state.lock();
        if !has_failed {
            let was_open = state.opened > 0;
            state.close();
            self.breaker.has_failed.store(false, Ordering::Relaxed);
            drop(state);
            if was_open {
                tracing::info!(server = self.breaker.server.as_str(), "it answers again");
            }
            return;
        }
        self.breaker.has_failed.store(true, Ordering::Relaxed);
        state.failures += 1;
        let is_enough = state.threshold > 0 && state.failures >= state.threshold;
        // Calls that began before it opened neither extend the pause nor lengthen the next one.
        if !is_enough || (state.probe_at.is_some() && !self.is_probe) {
            return;
        }
        state.probe_at = Some(Instant::now() + BACKOFF.delay(state.opened));
        state.opened += 1;
        let failures = state.failures;
        drop(state);
        let server = self.breaker.server.as_str();
        tracing::warn!(
            server,
            "it failed {failures} times in a row: calls fail at once for a while"
        );
    }
}

impl Drop for GuardedCall<'_> {
    fn drop(&mut self) {
        if self.is_probe {
            self.breaker.state.lock().is_probing = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use muster_core::{call::CallError, name::BackendName};
    use tokio::time::{Instant, advance};

    use super::CircuitBreaker;

    fn answered(breaker: &CircuitBreaker, result: &Result<(), CallError>) {
        breaker.begin().unwrap().end(result);
    }

    fn no_answer() -> Result<(), CallError> {
        let backend = BackendName::new("far");
        Err(CallError::Unavailable { backend, reason: "gone".to_owned(), no_answer: true })
    }

    fn refusal(breaker: &CircuitBreaker) -> String {
        breaker.begin().unwrap_err().to_string()
    }

    #[tokio::test(start_paused = true)]
    async fn opens_after_failures_in_a_row_and_probes_with_one_call() {
        let breaker = CircuitBreaker::new("far", 3);
        let tool_error =
            || Err(CallError::Upstream { code: -32602, message: "no".to_owned(), data: None });
        for result in [no_answer(), no_answer(), tool_error(), no_answer(), no_answer(), Ok(())] {
            answered(&breaker, &result);
        }
        assert_eq!(breaker.open(), None, "an error of a tool is an answer");
        for _ in 0..3 {
            answered(&breaker, &no_answer());
        }
        let said = "backend `far` is not available: it failed 3 times in a row; next attempt in ";
        assert_eq!(refusal(&breaker), format!("{said}5 s"));
        advance(Duration::from_millis(4500)).await;
        assert_eq!(refusal(&breaker), format!("{said}1 s"));
        advance(Duration::from_millis(500)).await;
        let probe = breaker.begin().unwrap();
        assert!(refusal(&breaker).ends_with("another call is trying it now"));
        probe.end(&no_answer());
        assert_eq!(
            refusal(&breaker),
            "backend `far` is not available: it failed 4 times in a row; next attempt in 10 s"
        );
        advance(Duration::from_secs(10)).await;
        // The caller of the probe leaves: the next call probes.
        drop(breaker.begin().unwrap());
        answered(&breaker, &Ok(()));
        assert_eq!(breaker.open(), None);
        answered(&breaker, &no_answer());
        answered(&breaker, &no_answer());
        assert_eq!(breaker.open(), None, "the count starts again");
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_began_before_it_opened_do_not_extend_the_pause() {
        let breaker = CircuitBreaker::new("far", 3);
        let began = Instant::now();
        let calls: Vec<_> = (0..20).map(|_| breaker.begin().unwrap()).collect();
        for call in calls {
            call.end(&no_answer());
        }
        let open = breaker.open().unwrap();
        assert_eq!((open.failures, open.wait), (20, Duration::from_secs(5)));
        advance(Duration::from_secs(5)).await;
        breaker.begin().unwrap().end::<()>(&Ok(()));
        assert_eq!((breaker.open(), began.elapsed()), (None, Duration::from_secs(5)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_threshold_of_zero_switches_it_off() {
        let breaker = CircuitBreaker::new("far", 0);
        for _ in 0..100 {
            answered(&breaker, &no_answer());
        }
        breaker.set_threshold(3);
        answered(&breaker, &no_answer());
        assert!(breaker.open().is_some());
        breaker.set_threshold(0);
        assert_eq!(breaker.open(), None);
    }
}
