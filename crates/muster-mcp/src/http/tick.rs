//! Time limits of a connection, kept by one slow clock instead of a timer for each request.
//!
//! A timer costs as much as several of the checks that a call goes through, and a limit of seconds
//! need not be kept to the millisecond: the task of a connection wakes up a few times within the
//! shortest limit, and whoever has one looks at the time then.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::rt::{Sleep, Timer};
use tokio::time::{Instant, Interval, MissedTickBehavior};

/// How often a connection wakes up within a limit.
const WITHIN: u32 = 4;

/// Wakes the task of a connection often enough for `limit`.
pub(super) fn every(limit: Duration) -> Interval {
    let every = (limit / WITHIN).max(Duration::from_millis(1));
    let mut ticks = tokio::time::interval_at(Instant::now() + every, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Whether a time has come; somebody else wakes whoever asks.
#[derive(Debug)]
pub(super) struct Due(Instant);

impl Due {
    pub(super) fn after(limit: Duration) -> Self {
        Self(Instant::now() + limit)
    }

    pub(super) fn has_come(&self) -> bool {
        Instant::now() >= self.0
    }
}

impl Future for Due {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.has_come() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Sleep for Due {}

/// The clock of a connection that ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ticking;

impl Timer for Ticking {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Due::after(duration))
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Due(deadline.into()))
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, deadline: std::time::Instant) {
        *sleep = self.sleep_until(deadline);
    }
}
