//! Limits the concurrency of the calls that one request makes, and counts each against the limits of its caller.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use muster_core::client::{CallCounter, CallRetry, CallSlot, ClientHandle, TooManyCalls};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, sleep},
};

/// The number of calls of one request that may run concurrently.
const MAX_CONCURRENT: usize = 8;
/// How long a call waits for the rate limit of its caller. Other requests of the caller compete for it, so the wait
/// might never end otherwise.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The concurrency limiter of one request's calls.
#[derive(Debug)]
pub struct CallTurns {
    free: Semaphore,
    /// The slot that the request itself was counted with. The first call uses it, and then calls that the caller's
    /// limits do not admit alongside others.
    own: Semaphore,
    /// Makes calls wait for the rate limit of their caller one after the other.
    paced: Semaphore,
    has_begun: AtomicBool,
}

impl Default for CallTurns {
    fn default() -> Self {
        Self {
            free: Semaphore::new(MAX_CONCURRENT),
            own: Semaphore::new(1),
            paced: Semaphore::new(1),
            has_begun: AtomicBool::new(false),
        }
    }
}

/// A permit to run one call, released when it is dropped.
#[derive(Debug)]
pub struct CallTurn<'a> {
    _free: Option<SemaphorePermit<'a>>,
    _own: Option<SemaphorePermit<'a>>,
    _counted: Option<CallSlot>,
}

impl CallTurns {
    /// Waits until a call may begin; fails if its caller exceeds a limit.
    pub async fn begin(&self, client: &dyn ClientHandle) -> Result<CallTurn<'_>, TooManyCalls> {
        // No semaphore is ever closed.
        let free = self.free.acquire().await.ok();
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            return Ok(CallTurn { _free: free, _own: self.own().await, _counted: None });
        }
        let Some(counter) = client.call_counter() else {
            return Ok(CallTurn { _free: free, _own: None, _counted: None });
        };
        match self.counted(&*counter).await {
            Ok(counted) => Ok(CallTurn { _free: free, _own: None, _counted: Some(counted) }),
            Err(TooManyCalls { retry: CallRetry::WhenOneEnds, .. }) => {
                Ok(CallTurn { _free: free, _own: self.own().await, _counted: None })
            }
            Err(too_many) => Err(too_many),
        }
    }

    async fn own(&self) -> Option<SemaphorePermit<'_>> {
        self.own.acquire().await.ok()
    }

    /// Counts a call against the limits of its caller, and waits for the rate limit for up to [`MAX_WAIT`].
    async fn counted(&self, counter: &dyn CallCounter) -> Result<CallSlot, TooManyCalls> {
        let began = Instant::now();
        let _paced = self.paced.acquire().await.ok();
        loop {
            let counted = counter.begin().await;
            let Err(TooManyCalls { retry: CallRetry::After(pause), .. }) = &counted else {
                return counted;
            };
            if began.elapsed() + *pause > MAX_WAIT {
                return counted;
            }
            sleep(*pause).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::VecDeque,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use muster_core::{
        backend::BoxFuture,
        client::{
            CallCounter, CallRetry, CallSlot, ClientHandle, InputError, InputMode, InputRequest,
            Notification, TooManyCalls,
        },
        json::{Raw, RawObject},
        lock::Lock,
    };
    use tokio::time::{Instant, timeout};

    use super::CallTurns;

    /// A caller that may run one call beside its request, after the given waits.
    #[derive(Debug, Default)]
    struct Limited {
        waits: Lock<VecDeque<Duration>>,
        further: Arc<AtomicUsize>,
    }

    #[derive(Debug)]
    struct Counted(Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }

    impl CallCounter for Limited {
        fn begin(&self) -> BoxFuture<'_, Result<CallSlot, TooManyCalls>> {
            let refused = |retry| TooManyCalls { message: "Too many calls".to_owned(), retry };
            let begun: Result<CallSlot, TooManyCalls> = match self.waits.lock().pop_front() {
                Some(pause) => Err(refused(CallRetry::After(pause))),
                None if self.further.load(Ordering::SeqCst) > 0 => {
                    Err(refused(CallRetry::WhenOneEnds))
                }
                None => {
                    self.further.fetch_add(1, Ordering::SeqCst);
                    Ok(Box::new(Counted(Arc::clone(&self.further))))
                }
            };
            Box::pin(std::future::ready(begun))
        }
    }

    #[derive(Debug)]
    struct Client(Arc<Limited>);

    impl ClientHandle for Client {
        fn capabilities(&self) -> Raw {
            RawObject::new().to_raw()
        }

        fn input_mode(&self) -> InputMode {
            InputMode::Unsupported
        }

        fn notify(&self, _: Notification) {}

        fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
            Some(Arc::clone(&self.0) as Arc<dyn CallCounter>)
        }

        fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
            Box::pin(std::future::ready(Err(InputError::Disconnected)))
        }
    }

    fn client(waits: &[u64]) -> Client {
        let waits = waits.iter().copied().map(Duration::from_millis).collect();
        Client(Arc::new(Limited { waits: Lock::new(waits), ..Limited::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn calls_beyond_the_limit_wait_for_the_place_of_the_request() {
        let (turns, client) = (CallTurns::default(), client(&[]));
        let first = turns.begin(&client).await.unwrap();
        let second = turns.begin(&client).await.unwrap();
        let moment = Duration::from_secs(1);
        assert!(timeout(moment, turns.begin(&client)).await.is_err());
        drop(first);
        let third = timeout(moment, turns.begin(&client)).await.unwrap();
        assert!(third.is_ok() && timeout(moment, turns.begin(&client)).await.is_err());
        drop((second, third));
        assert_eq!(client.0.further.load(Ordering::SeqCst), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn all_calls_but_the_first_wait_for_the_rate() {
        let (turns, client) = (CallTurns::default(), client(&[300, 200]));
        let start = Instant::now();
        drop(turns.begin(&client).await.unwrap());
        assert_eq!(start.elapsed(), Duration::ZERO);
        drop(turns.begin(&client).await.unwrap());
        assert_eq!(start.elapsed(), Duration::from_millis(500));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_does_not_wait_for_ever() {
        let (turns, client) = (CallTurns::default(), client(&[900, 900, 900, 900]));
        drop(turns.begin(&client).await.unwrap());
        let refused = turns.begin(&client).await.unwrap_err();
        assert_eq!(refused.retry, CallRetry::After(Duration::from_millis(900)));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_that_wait_for_each_other_wait_no_longer_together() {
        let (turns, client) = (CallTurns::default(), client(&[900; 20]));
        drop(turns.begin(&client).await.unwrap());
        let start = Instant::now();
        let further = [(), (), (), ()].map(|()| turns.begin(&client));
        let [one, two, three, four] = further;
        let ended = tokio::join!(one, two, three, four);
        assert!(ended.0.is_err() && ended.1.is_err() && ended.2.is_err() && ended.3.is_err());
        assert!(start.elapsed() <= super::MAX_WAIT, "{:?}", start.elapsed());
    }
}
