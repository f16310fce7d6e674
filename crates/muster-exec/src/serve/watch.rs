//! The launcher's event loop: waits for requests and child exits at once, and reports the latter.
//!
//! **Invariant:** a start is reported before its exit, in the same message if the exit comes soon and the
//! gateway allowed a deferred report.

use std::{
    os::fd::OwnedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::{Errno, write},
    stdio::{stdin, stdout},
};

use super::{children::Children, terminate::KillOrder};
use crate::{
    platform::open_pidfd,
    protocol::{ExitReport, Reply, StartReport},
};

/// A deferred start report is sent after this, or with the exit if that comes first. Waking the gateway
/// while a short command runs only slows both down.
const DEFERRED_REPORT_DELAY: Duration = Duration::from_millis(2);
/// Adopted orphans have no pidfd: they are reaped at growing intervals.
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(50);
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// How often children are checked where the kernel has no pidfds to poll.
const POLL_WITHOUT_PIDFD: Duration = Duration::from_millis(5);

pub(super) struct ChildWatch {
    children: Arc<Children>,
    runs: Vec<Run>,
    /// Whether there may be children, own or adopted.
    populated: bool,
    sweep: Duration,
}

struct Run {
    id: u64,
    pid: i32,
    /// Becomes readable when the process has exited.
    pidfd: Option<OwnedFd>,
    /// When to report the start, if it has not been reported.
    report_at: Option<Instant>,
}

impl ChildWatch {
    pub(super) const fn new(children: Arc<Children>) -> Self {
        Self { children, runs: Vec::new(), populated: false, sweep: MIN_SWEEP_INTERVAL }
    }

    pub(super) fn started(&mut self, id: u64, pid: i32, report: StartReport) {
        self.children.add(pid, id);
        let report_at = match report {
            StartReport::Immediate => {
                send_replies(&[Reply::Spawned { id, pid }]);
                None
            }
            StartReport::Deferred => Some(Instant::now() + DEFERRED_REPORT_DELAY),
        };
        self.runs.push(Run { id, pid, pidfd: open_pidfd(pid), report_at });
        self.populated = true;
        self.sweep = MIN_SWEEP_INTERVAL;
    }

    /// Sends a deferred start report now.
    pub(super) fn report_start(&mut self, id: u64) {
        self.sweep = MIN_SWEEP_INTERVAL;
        self.report_if(|run| run.id == id);
    }

    /// Waits for the next request or the end of the gateway; reaps and reports children in the meantime.
    pub(super) fn wait_for_request(&mut self) {
        loop {
            let limit = self.poll_timeout();
            let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
            let gateway = stdin();
            let mut watched = vec![PollFd::new(&gateway, PollFlags::IN)];
            let pidfds = self.runs.iter().filter_map(|run| run.pidfd.as_ref());
            watched.extend(pidfds.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
            let polled = poll(&mut watched, limit.as_ref());
            let mut happened = watched.iter().map(|descriptor| !descriptor.revents().is_empty());
            let requested = happened.next().unwrap_or_default();
            let ended = happened.any(|happened| happened);
            if ended || polled == Ok(0) {
                self.reap();
            }
            let now = Instant::now();
            self.report_if(|run| run.report_at.is_some_and(|at| at <= now));
            if requested || polled.is_err_and(|errno| errno != Errno::INTR) {
                return;
            }
        }
    }

    /// Waits until no children are left, at most for `limit`; returns whether none are.
    pub(super) fn wait_until_childless(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            self.reap();
            let left = end.saturating_duration_since(Instant::now());
            if !self.populated || left.is_zero() {
                return !self.populated;
            }
            let pidfds = self.runs.iter().filter_map(|run| run.pidfd.as_ref());
            let mut watched: Vec<_> =
                pidfds.map(|pidfd| PollFd::new(pidfd, PollFlags::IN)).collect();
            let limit = Timespec::try_from(left.min(POLL_WITHOUT_PIDFD)).ok();
            let _ended = poll(&mut watched, limit.as_ref());
        }
    }

    /// How long `poll` may block before timed work is due.
    fn poll_timeout(&self) -> Option<Duration> {
        let now = Instant::now();
        let deferred = self.runs.iter().filter_map(|run| run.report_at);
        let deferred = deferred.min().map(|at| at.saturating_duration_since(now));
        let fallback =
            self.runs.iter().any(|run| run.pidfd.is_none()).then_some(POLL_WITHOUT_PIDFD);
        let sweep = self.populated.then_some(self.sweep);
        [deferred, fallback, sweep].into_iter().flatten().min()
    }

    fn reap(&mut self) {
        let reaped = self.children.reap();
        self.populated = reaped.more;
        let nothing = reaped.runs.is_empty() && reaped.orphans == 0;
        self.sweep =
            if nothing { (self.sweep * 2).min(MAX_SWEEP_INTERVAL) } else { MIN_SWEEP_INTERVAL };
        // Processes that a root process left running have been adopted by now. Usually there are none, and the lookup
        // is skipped.
        let may_have_left = reaped.more && !reaped.runs.is_empty();
        let adopted = if may_have_left { self.children.adopted() } else { Some(Vec::new()) };
        for (id, status) in reaped.runs {
            let Some(index) = self.runs.iter().position(|run| run.id == id) else { continue };
            let run = self.runs.swap_remove(index);
            let order = KillOrder { id, pid: run.pid };
            let has_leftovers =
                adopted.as_ref().is_none_or(|adopted| adopted.iter().any(|&pid| order.covers(pid)));
            let end = ExitReport { status, has_leftovers };
            match run.report_at {
                Some(_) => {
                    send_replies(&[Reply::Spawned { id, pid: run.pid }, Reply::Exited { id, end }]);
                }
                None => send_replies(&[Reply::Exited { id, end }]),
            }
        }
    }

    fn report_if(&mut self, due: impl Fn(&Run) -> bool) {
        for run in &mut self.runs {
            if run.report_at.is_some() && due(run) {
                run.report_at = None;
                send_replies(&[Reply::Spawned { id: run.id, pid: run.pid }]);
            }
        }
    }
}

/// Writes replies. Errors are ignored: if the gateway is gone, the request reader notices.
pub(super) fn send_replies(replies: &[Reply]) {
    let bytes: Vec<u8> = replies.iter().flat_map(|reply| reply.encode()).collect();
    let mut left = bytes.as_slice();
    while !left.is_empty() {
        match write(stdout(), left) {
            Ok(size) => left = left.get(size..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
