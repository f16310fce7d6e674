//! Waiting for requests and for children at once, and telling the gateway of the latter.
//!
//! **Invariant:** the gateway hears of a start before its end, in the same message if the end comes
//! soon and the gateway does not mind.

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

use super::children::Children;
use crate::wire::{Announce, Reply};

/// A start that need not be told at once is told after this, or with the end if that comes first.
/// Waking the gateway while a short command runs only slows both down.
const ANNOUNCE_AFTER: Duration = Duration::from_millis(2);
/// Adopted orphans end unnoticed and are looked for at growing intervals.
const FIRST_SWEEP: Duration = Duration::from_millis(50);
const LAST_SWEEP: Duration = Duration::from_secs(60);
/// How often children are looked at if the kernel has no process handles to wait for.
const BLIND_LOOK: Duration = Duration::from_millis(5);

pub(super) struct Watch {
    children: Arc<Children>,
    runs: Vec<Run>,
    /// There may be children, own or adopted.
    populated: bool,
    sweep: Duration,
}

struct Run {
    id: u64,
    pid: i32,
    /// Becomes readable when the process has ended.
    handle: Option<OwnedFd>,
    /// When the gateway is to be told of the start, if it was not.
    announce_at: Option<Instant>,
}

impl Watch {
    pub(super) const fn new(children: Arc<Children>) -> Self {
        Self { children, runs: Vec::new(), populated: false, sweep: FIRST_SWEEP }
    }

    pub(super) fn started(&mut self, id: u64, pid: i32, announce: Announce) {
        self.children.add(pid, id);
        let announce_at = match announce {
            Announce::Now => {
                tell(&[Reply::Spawned { id, pid }]);
                None
            }
            Announce::Soon => Some(Instant::now() + ANNOUNCE_AFTER),
        };
        self.runs.push(Run { id, pid, handle: handle_of(pid), announce_at });
        self.populated = true;
        self.sweep = FIRST_SWEEP;
    }

    /// Tells of a start now, if that was put off.
    pub(super) fn announce(&mut self, id: u64) {
        self.sweep = FIRST_SWEEP;
        self.announce_if(|run| run.id == id);
    }

    /// Waits until the gateway says something or is gone. Looks after the children meanwhile.
    pub(super) fn until_asked(&mut self) {
        loop {
            let limit = self.patience();
            let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
            let gateway = stdin();
            let mut watched = vec![PollFd::new(&gateway, PollFlags::IN)];
            let handles = self.runs.iter().filter_map(|run| run.handle.as_ref());
            watched.extend(handles.map(|handle| PollFd::new(handle, PollFlags::IN)));
            let polled = poll(&mut watched, limit.as_ref());
            let mut happened = watched.iter().map(|descriptor| !descriptor.revents().is_empty());
            let asked = happened.next().unwrap_or_default();
            let ended = happened.any(|happened| happened);
            if ended || polled == Ok(0) {
                self.reap();
            }
            let now = Instant::now();
            self.announce_if(|run| run.announce_at.is_some_and(|at| at <= now));
            if asked || polled.is_err_and(|errno| errno != Errno::INTR) {
                return;
            }
        }
    }

    /// Waits until no children are left, at most for `limit`. Tells whether that is so.
    pub(super) fn until_alone(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            self.reap();
            let left = end.saturating_duration_since(Instant::now());
            if !self.populated || left.is_zero() {
                return !self.populated;
            }
            let handles = self.runs.iter().filter_map(|run| run.handle.as_ref());
            let mut watched: Vec<_> =
                handles.map(|handle| PollFd::new(handle, PollFlags::IN)).collect();
            let limit = Timespec::try_from(left.min(BLIND_LOOK)).ok();
            let _ended = poll(&mut watched, limit.as_ref());
        }
    }

    /// How long nothing has to be done if nothing happens.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let announcements = self.runs.iter().filter_map(|run| run.announce_at);
        let announcement = announcements.min().map(|at| at.saturating_duration_since(now));
        let blind = self.runs.iter().any(|run| run.handle.is_none()).then_some(BLIND_LOOK);
        let sweep = self.populated.then_some(self.sweep);
        [announcement, blind, sweep].into_iter().flatten().min()
    }

    fn reap(&mut self) {
        let reaped = self.children.reap();
        self.populated = reaped.more;
        let nothing = reaped.runs.is_empty() && reaped.orphans == 0;
        self.sweep = if nothing { (self.sweep * 2).min(LAST_SWEEP) } else { FIRST_SWEEP };
        for (id, end) in reaped.runs {
            let Some(index) = self.runs.iter().position(|run| run.id == id) else { continue };
            let run = self.runs.swap_remove(index);
            match run.announce_at {
                Some(_) => {
                    tell(&[Reply::Spawned { id, pid: run.pid }, Reply::Exited { id, end }]);
                }
                None => tell(&[Reply::Exited { id, end }]),
            }
        }
    }

    fn announce_if(&mut self, due: impl Fn(&Run) -> bool) {
        for run in &mut self.runs {
            if run.announce_at.is_some() && due(run) {
                run.announce_at = None;
                tell(&[Reply::Spawned { id: run.id, pid: run.pid }]);
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn handle_of(pid: i32) -> Option<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

#[cfg(not(target_os = "linux"))]
fn handle_of(_pid: i32) -> Option<OwnedFd> {
    None
}

/// A gateway that is gone needs no reply, and the reader of requests notices.
pub(super) fn tell(replies: &[Reply]) {
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
