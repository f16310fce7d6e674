//! Ends processes that earlier launchers left behind.
//!
//! A launcher that is killed together with its gateway, as by `killall -9 muster` or by the kernel when memory runs
//! out, cannot end its processes. They carry its mark, by which the user's next launcher recognizes them.

use std::{collections::BTreeMap, iter::successors, process, thread, time::Duration};

use rustix::process::Signal;

use crate::tree::{self, Process, RunMark};

/// The stack of the thread: it walks `/proc` once and little more.
const STACK_SIZE: usize = 128 * 1024;
/// Between `SIGTERM` and `SIGKILL`.
const GRACE_PERIOD: Duration = Duration::from_millis(300);

/// Ends orphans on a thread of its own, so that no command waits for it.
pub(super) fn terminate_in_background() {
    let thread = thread::Builder::new().name("orphans".to_owned()).stack_size(STACK_SIZE);
    // If no thread can be started, the next launcher does it.
    drop(thread.spawn(terminate));
}

#[expect(
    clippy::disallowed_methods,
    reason = "the launcher has no runtime, and this thread nothing else to do"
)]
fn terminate() {
    let mut orphans = orphans();
    for signal in [Signal::TERM, Signal::KILL] {
        for process in &orphans {
            tree::send_signal(process, signal);
        }
        if !orphans.is_empty() {
            thread::sleep(GRACE_PERIOD);
        }
        orphans.retain(tree::is_running);
    }
}

/// The processes of this user whose launcher is not running any more.
fn orphans() -> Vec<Process> {
    let all: BTreeMap<i32, Process> =
        tree::all_processes().into_iter().map(|process| (process.pid, process)).collect();
    // This process may have been started by an orphan, and must not end itself.
    let parent = |pid: &i32| all.get(pid).map(|process| process.parent);
    let ancestors: Vec<i32> = successors(Some(process::id().cast_signed()), parent).collect();
    let has_lost_launcher = |process: &Process| {
        let launcher = RunMark::of(process.pid).and_then(RunMark::launcher);
        // A process that began later only has the launcher's id because the id was reused.
        let is_launcher = |now: &Process| !now.ended && now.started <= process.started;
        launcher.is_some_and(|id| !all.get(&id).is_some_and(is_launcher))
    };
    let is_orphan = |process: &&Process| {
        !process.ended
            && !ancestors.contains(&process.pid)
            && tree::is_of_this_user(process.pid)
            && has_lost_launcher(process)
    };
    all.values().filter(is_orphan).copied().collect()
}
