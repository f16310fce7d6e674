//! What the tests share: a launcher, scripts, and processes that are watched until they end.

use std::{
    collections::BTreeSet,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use muster_exec::{
    command::Command,
    launcher::Launcher,
    run::{Captured, Finished, Limits, run},
    serve::LAUNCHER_ARG,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};

/// How long whatever is being ended may take to be gone.
pub(crate) const SOON: Duration = Duration::from_secs(2);
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_muster-exec-helper");

pub(crate) fn launcher() -> Launcher {
    Launcher::with_program(HELPER, [LAUNCHER_ARG])
}

pub(crate) fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

pub(crate) fn within(seconds: f64) -> Limits {
    Limits { timeout: Duration::from_secs_f64(seconds), ..Limits::default() }
}

/// Runs a script with nothing to read and time to spare.
pub(crate) async fn run_script(launcher: &Launcher, script: &str) -> Finished {
    run(launcher, sh(script), None, Limits::default()).await
}

pub(crate) fn text(captured: &Captured) -> &str {
    str::from_utf8(&captured.bytes).expect("the scripts write text")
}

/// The numbers that a script printed, one a line.
pub(crate) fn pids(text: &str) -> Vec<i32> {
    text.lines().map(|line| line.parse().expect("a process number")).collect()
}

/// Processes that are watched by handle, so that a recycled number cannot deceive.
pub(crate) struct Watched(Vec<(i32, OwnedFd)>);

impl Watched {
    /// Processes that have ended already are left out.
    pub(crate) fn new(pids: &[i32]) -> Self {
        let open = |&pid: &i32| {
            let raw = Pid::from_raw(pid).expect("a process number");
            match pidfd_open(raw, PidfdFlags::empty()) {
                Ok(handle) => Some((pid, handle)),
                Err(Errno::SRCH) => None,
                Err(errno) => panic!("cannot watch {pid}: {errno}"),
            }
        };
        Self(pids.iter().filter_map(open).collect())
    }

    pub(crate) fn running(&self) -> Vec<i32> {
        self.wait(Duration::ZERO)
    }

    /// Waits until all have ended.
    pub(crate) fn assert_gone_within(&self, limit: Duration) {
        let left = self.wait(limit);
        assert!(left.is_empty(), "still running after {limit:?}: {left:?}");
    }

    fn wait(&self, limit: Duration) -> Vec<i32> {
        let end = Instant::now() + limit;
        let mut left: BTreeSet<usize> = (0..self.0.len()).collect();
        loop {
            let mut polled: Vec<_> =
                left.iter().map(|&index| PollFd::new(&self.0[index].1, PollFlags::IN)).collect();
            let time = end.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(time).expect("a short time");
            let _count = poll(&mut polled, Some(&timeout)).expect("handles can be polled");
            let ended: Vec<bool> =
                polled.iter().map(|handle| !handle.revents().is_empty()).collect();
            drop(polled);
            let mut ended = ended.into_iter();
            left.retain(|_| ended.next() == Some(false));
            if left.is_empty() || time.is_zero() {
                return left.into_iter().map(|index| self.0[index].0).collect();
            }
        }
    }
}
