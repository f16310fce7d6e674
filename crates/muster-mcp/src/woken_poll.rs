//! Polls a future only when it was woken, not whenever its task is.
//!
//! The task of a connection is polled several times for each request. The other futures that it waits for (a shutdown,
//! a timer) are shared by all connections, and each poll of one takes a lock.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use crate::lock::Lock;

/// The poller of one future.
#[derive(Debug)]
pub(crate) struct WokenPoll {
    inner: Arc<FlagWaker>,
    waker: Waker,
}

#[derive(Debug)]
struct FlagWaker {
    /// Whether the future was woken since it was last polled, or was never polled.
    is_woken: AtomicBool,
    task: Lock<Waker>,
}

impl Wake for FlagWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.lock().wake_by_ref();
    }
}

impl WokenPoll {
    pub(crate) fn new() -> Self {
        let inner = Arc::new(FlagWaker {
            is_woken: AtomicBool::new(true),
            task: Lock::new(Waker::noop().clone()),
        });
        Self { waker: Arc::clone(&inner).into(), inner }
    }

    /// Polls the future if it was woken. After its output, the next future is polled at once.
    pub(crate) fn poll<F: Future>(
        &self,
        cx: &mut Context<'_>,
        future: Pin<&mut F>,
    ) -> Poll<F::Output> {
        // Before the flag is read, so that a wake after that reaches this task.
        self.inner.task.lock().clone_from(cx.waker());
        if !self.inner.is_woken.swap(false, Ordering::AcqRel) {
            return Poll::Pending;
        }
        let polled = future.poll(&mut Context::from_waker(&self.waker));
        if polled.is_ready() {
            self.inner.is_woken.store(true, Ordering::Release);
        }
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::poll_fn,
        pin::pin,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
    };

    use super::WokenPoll;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_future_is_polled_once_for_each_wake() {
        let (woken, mut polls, mut waker) = (WokenPoll::new(), 0, None);
        let count = Arc::new(Count::default());
        let task = Waker::from(Arc::clone(&count));
        for round in 1..4 {
            for _ in 0..3 {
                let mut future = pin!(poll_fn(|cx| {
                    polls += 1;
                    waker = Some(cx.waker().clone());
                    Poll::<()>::Pending
                }));
                let cx = &mut Context::from_waker(&task);
                assert!(woken.poll(cx, future.as_mut()).is_pending());
            }
            assert_eq!(polls, round);
            waker.take().unwrap().wake();
            assert_eq!(count.0.load(Ordering::Relaxed), round, "its task is woken");
        }
    }

    #[test]
    fn a_wake_while_it_is_polled_counts() {
        let (woken, mut polls) = (WokenPoll::new(), 0);
        for expected in [1, 2] {
            let mut future = pin!(poll_fn(|cx| {
                polls += 1;
                if polls == 1 {
                    cx.waker().wake_by_ref();
                }
                Poll::<()>::Pending
            }));
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(woken.poll(cx, future.as_mut()).is_pending());
            assert_eq!(polls, expected);
        }
    }

    #[test]
    fn the_next_future_is_polled_at_once() {
        let woken = WokenPoll::new();
        for _ in 0..2 {
            let cx = &mut Context::from_waker(Waker::noop());
            assert!(woken.poll(cx, pin!(std::future::ready(()))).is_ready());
        }
    }

    #[test]
    fn the_task_that_polled_last_is_woken() {
        let (woken, mut waker) = (WokenPoll::new(), None);
        let [first, last] = [(); 2].map(|()| Arc::new(Count::default()));
        for task in [&first, &last] {
            let mut future = pin!(poll_fn(|cx| {
                waker = Some(cx.waker().clone());
                Poll::<()>::Pending
            }));
            let task = Waker::from(Arc::clone(task));
            assert!(woken.poll(&mut Context::from_waker(&task), future.as_mut()).is_pending());
        }
        waker.unwrap().wake();
        assert_eq!([first, last].map(|count| count.0.load(Ordering::Relaxed)), [0, 1]);
    }
}
