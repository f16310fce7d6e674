//! Coarse deadlines of a connection: one slow interval instead of a timer for each request.
//!
//! A timer costs as much as several checks of a call, and a timeout of seconds need not be exact: the task
//! of a connection wakes up a few times within the shortest timeout and checks all deadlines then.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// How often a connection wakes up within a timeout.
const TICKS: u32 = 4;

/// The interval that is short enough for timeouts of `limit`.
pub(super) fn interval_for(limit: Duration) -> Interval {
    let every = (limit / TICKS).max(Duration::from_millis(1));
    let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for a future with a timeout; `None` if it times out. The timeout begins when the future is first pending, so a
/// future that is ready at once does not read the clock.
pub(super) async fn within<F: Future>(limit: Duration, future: F) -> Option<F::Output> {
    let (mut future, mut deadline) = (pin!(future), None);
    poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let deadline = deadline.get_or_insert_with(|| CoarseDeadline::after(limit));
        if deadline.is_over() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await
}

/// A deadline that does not wake its task by itself.
#[derive(Debug)]
pub(super) struct CoarseDeadline(Instant);

impl CoarseDeadline {
    pub(super) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

impl Future for CoarseDeadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep for CoarseDeadline {}

/// hyper's timer on coarse deadlines.
#[derive(Debug, Clone, Copy)]
pub(super) struct CoarseTimer;

impl Timer for CoarseTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(CoarseDeadline::after(duration))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(CoarseDeadline(deadline.into()))
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: std::time::Instant) {
        *sleep = self.sleep_until(deadline);
    }
}
