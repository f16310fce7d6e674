//! Polls a future that wakes itself again inline, instead of rescheduling its task.
//!
//! hyper wakes its own task whenever it forwards a piece of a body. The runtime then appends the task to a queue and
//! wakes another thread for it, which costs more than the whole request. Under load the queue is better: no thread
//! sleeps, and everything that arrives in the meantime is read at once.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use crate::lock::Lock;

/// Inline polls in a row, after which other tasks get their turn.
const MAX_POLLS: u32 = 8;

/// Not woken, and not being polled.
const IDLE: u8 = 0;
/// Being polled, and not woken since the poll began.
const POLLING: u8 = 1;
/// Woken: must be polled.
const WOKEN: u8 = 2;

/// The inline poller of one future.
#[derive(Debug)]
pub(crate) struct InlineRepoll {
    inner: Arc<RepollWaker>,
    waker: Waker,
}

#[derive(Debug)]
struct RepollWaker {
    state: AtomicU8,
    task: Lock<Waker>,
}

impl Wake for RepollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.swap(WOKEN, Ordering::AcqRel) == IDLE {
            self.task.lock().wake_by_ref();
        }
    }
}

impl InlineRepoll {
    pub(crate) fn new() -> Self {
        let inner = Arc::new(RepollWaker {
            state: AtomicU8::new(IDLE),
            task: Lock::new(Waker::noop().clone()),
        });
        Self { waker: Arc::clone(&inner).into(), inner }
    }

    /// Polls the future until it no longer wakes itself. Unless it `is_alone`, it is rescheduled after the first poll.
    pub(crate) fn poll<F: Future>(
        &self,
        cx: &mut Context<'_>,
        mut future: Pin<&mut F>,
        is_alone: impl Fn() -> bool,
    ) -> Poll<F::Output> {
        self.inner.task.lock().clone_from(cx.waker());
        for _ in 0..MAX_POLLS {
            self.inner.state.store(POLLING, Ordering::Release);
            let mut inner = Context::from_waker(&self.waker);
            if let Poll::Ready(output) = future.as_mut().poll(&mut inner) {
                return Poll::Ready(output);
            }
            let became_idle = self.inner.state.compare_exchange(
                POLLING,
                IDLE,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if became_idle.is_ok() {
                return Poll::Pending;
            }
            if !is_alone() {
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

    use super::{InlineRepoll, MAX_POLLS};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The result of a poll, and how often it woke the task.
    fn polled(
        repoll: &InlineRepoll,
        future: Pin<&mut impl Future<Output = u32>>,
        is_alone: bool,
    ) -> (Poll<u32>, usize) {
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        let poll = repoll.poll(&mut Context::from_waker(&waker), future, || is_alone);
        (poll, count.0.load(Ordering::Relaxed))
    }

    /// A future that wakes itself so many times before it is ready.
    fn self_waking(times: u32) -> impl Future<Output = u32> {
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
    fn a_future_that_wakes_itself_does_not_wake_its_task() {
        let repoll = InlineRepoll::new();
        assert_eq!(polled(&repoll, pin!(self_waking(3)), true), (Poll::Ready(4), 0));
    }

    #[test]
    fn under_load_it_is_rescheduled() {
        let (repoll, mut future) = (InlineRepoll::new(), pin!(self_waking(1)));
        assert_eq!(polled(&repoll, future.as_mut(), false), (Poll::Pending, 1));
        assert_eq!(polled(&repoll, future, false), (Poll::Ready(2), 0));
    }

    #[test]
    fn a_busy_future_yields_to_other_tasks() {
        let (repoll, mut future) = (InlineRepoll::new(), pin!(self_waking(MAX_POLLS + 1)));
        assert_eq!(polled(&repoll, future.as_mut(), true), (Poll::Pending, 1));
        assert_eq!(polled(&repoll, future, true), (Poll::Ready(MAX_POLLS + 2), 0));
    }

    #[test]
    fn a_later_wake_wakes_the_task_once() {
        let (repoll, mut last_waker) = (InlineRepoll::new(), None);
        let mut future = pin!(poll_fn(|cx| {
            last_waker = Some(cx.waker().clone());
            Poll::<u32>::Pending
        }));
        let count = Arc::new(Count::default());
        let waker = Waker::from(Arc::clone(&count));
        for round in 1..3 {
            let cx = &mut Context::from_waker(&waker);
            assert!(repoll.poll(cx, future.as_mut(), || true).is_pending());
            assert_eq!(count.0.load(Ordering::Relaxed), round - 1);
            repoll.waker.wake_by_ref();
            repoll.waker.wake_by_ref();
            assert_eq!(count.0.load(Ordering::Relaxed), round);
        }
        assert!(last_waker.is_some());
    }
}
