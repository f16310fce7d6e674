//! Shared test support: a launcher, scripts, and processes watched until they exit.

use std::{
    collections::BTreeSet,
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use muster_exec::{
    command::Command,
    launcher::Launcher,
    run::{CapturedStream, CompletedRun, RunLimits, run},
    serve::LAUNCHER_ARG,
};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, PidfdFlags, pidfd_open},
};

/// How long something takes at most that does not wait for a process to end.
pub(crate) const PROMPT: Duration = Duration::from_secs(2);
/// How long a process that is being ended may take, on a busy machine too.
pub(crate) const SOON: Duration = Duration::from_secs(10);
pub(crate) const HELPER: &str = env!("CARGO_BIN_EXE_muster-exec-helper");

pub(crate) fn launcher() -> Launcher {
    Launcher::with_program(HELPER, [LAUNCHER_ARG])
}

pub(crate) fn sh(script: &str) -> Command {
    Command::new(["sh", "-c", script])
}

pub(crate) fn within(seconds: f64) -> RunLimits {
    RunLimits { timeout: Duration::from_secs_f64(seconds), ..RunLimits::default() }
}

/// Runs a script without input, with the default limits.
pub(crate) async fn run_script(launcher: &Launcher, script: &str) -> CompletedRun {
    run(launcher, sh(script), None, RunLimits::default()).await
}

pub(crate) fn text(captured: &CapturedStream) -> &str {
    str::from_utf8(&captured.bytes).expect("the scripts write text")
}

/// The process ids that a script printed, one a line.
pub(crate) fn pids(text: &str) -> Vec<i32> {
    text.lines().map(|line| line.parse().expect("a process id")).collect()
}

/// Processes watched by pidfd, so that a reused process id is not mistaken for them.
pub(crate) struct Watched(Vec<(i32, OwnedFd)>);

impl Watched {
    /// Processes that have exited already are ignored.
    pub(crate) fn new(pids: &[i32]) -> Self {
        let open = |&pid: &i32| {
            let raw = Pid::from_raw(pid).expect("a process id");
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

    /// Waits until all have exited.
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
            let _count = poll(&mut polled, Some(&timeout)).expect("pidfds can be polled");
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
