//! Futures that wake themselves, polled again at once.
//!
//! hyper wakes its own task whenever it passes on a piece of a body. The runtime then puts the task
//! at the end of a queue and wakes another thread for it, which costs more than the whole request. Where
//! many requests are under way the queue is the better place: no thread sleeps, and what comes in
//! meanwhile is read at one go.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use crate::lock::Lock;

/// How often in a row a future is polled while nothing else is under way. One that has more to do lets
/// others go first.
const AT_ONCE: u32 = 8;

/// Nobody has woken it, and it is not being polled.
const ASLEEP: u8 = 0;
/// It is being polled, and nobody has woken it since.
const POLLED: u8 = 1;
/// It is to be polled.
const WOKEN: u8 = 2;

/// Polls one future.
#[derive(Debug)]
pub(crate) struct Steady {
    bell: Arc<Bell>,
    waker: Waker,
}

#[derive(Debug)]
struct Bell {
    state: AtomicU8,
    task: Lock<Waker>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == ASLEEP {
            self.task.lock().wake_by_ref();
        }
    }
}

impl Steady {
    pub(crate) fn new() -> Self {
        let bell =
            Arc::new(Bell { state: AtomicU8::new(ASLEEP), task: Lock::new(Waker::noop().clone()) });
        Self { waker: Arc::clone(&bell).into(), bell }
    }

    /// Polls the future until it waits for somebody else, if it is `alone`.
    pub(crate) fn poll<F: Future>(
        &self,
        cx: &mut Context<'_>,
        mut future: Pin<&mut F>,
        alone: impl Fn() -> bool,
    ) -> Poll<F::Output> {
        self.bell.task.lock().clone_from(cx.waker());
        for _ in 0..AT_ONCE {
            self.bell.state.store(POLLED, Ordering::Release);
            let mut inner = Context::from_waker(&self.waker);
            if let Poll::Ready(output) = future.as_mut().poll(&mut inner) {
                return Poll::Ready(output);
            }
            let slept = self.bell.state.compare_exchange(
                POLLED,
                ASLEEP,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if slept.is_ok() {
                return Poll::Pending;
            }
            if !alone() {
                break;
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::{Pin, pin},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use super::{AT_ONCE, Steady};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What becomes of a poll, and how often the task was woken for it.
    fn polled(
        steady: &Steady,
        future: Pin<&mut impl Future<Output = u32>>,
        alone: bool,
    ) -> (Poll<u32>, usize) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let poll = steady.poll(&mut Context::from_waker(&waker), future, || alone);
        (poll, count.0.load(Ordering::Relaxed))
    }

    /// Wakes itself so many times before it is ready.
    fn restless(times: u32) -> impl Future<Output = u32> {
        let mut polls = 0;
        poll_fn(move |cx| {
            polls += 1;
            if polls > times {
                return Poll::Ready(polls);
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
    }

    #[test]
    fn a_future_that_wakes_itself_wakes_nobody_else() {
        let steady = Steady::new();
        assert_eq!(polled(&steady, pin!(restless(3)), true), (Poll::Ready(4), 0));
    }

    #[test]
    fn where_others_are_busy_it_takes_turns() {
        let (steady, mut future) = (Steady::new(), pin!(restless(1)));
        assert_eq!(polled(&steady, future.as_mut(), false), (Poll::Pending, 1));
        assert_eq!(polled(&steady, future, false), (Poll::Ready(2), 0));
    }

    #[test]
    fn one_that_never_rests_lets_others_go_first() {
        let (steady, mut future) = (Steady::new(), pin!(restless(AT_ONCE + 1)));
        assert_eq!(polled(&steady, future.as_mut(), true), (Poll::Pending, 1));
        assert_eq!(polled(&steady, future, true), (Poll::Ready(AT_ONCE + 2), 0));
    }

    #[test]
    fn whoever_wakes_it_later_wakes_its_task_once() {
        let (steady, mut kept) = (Steady::new(), None);
        let mut future = pin!(poll_fn(|cx| {
            kept = Some(cx.waker().clone());
            Poll::<u32>::Pending
        }));
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        for round in 1..3 {
            let cx = &mut Context::from_waker(&waker);
            assert!(steady.poll(cx, future.as_mut(), || true).is_pending());
            assert_eq!(count.0.load(Ordering::Relaxed), round - 1);
            steady.waker.wake_by_ref();
            steady.waker.wake_by_ref();
            assert_eq!(count.0.load(Ordering::Relaxed), round);
        }
        assert!(kept.is_some());
    }
}
