//! The first processes of the runs, by number.
//!
//! **Invariant:** a child is reaped and struck off the list under one lock, so a process number on
//! the list is that of our child and no other.

use std::collections::{BTreeMap, BTreeSet};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait},
};

use crate::{lock::Lock, wire::End};

#[derive(Debug, Default)]
pub(super) struct Children(Lock<BTreeMap<i32, u64>>);

/// What was found to have ended.
#[derive(Debug, Default)]
pub(super) struct Reaped {
    /// Runs and how they ended.
    pub(super) runs: Vec<(u64, End)>,
    /// Processes that were adopted after their parents had ended.
    pub(super) orphans: usize,
    /// There are children left, own or adopted.
    pub(super) more: bool,
}

impl Children {
    pub(super) fn add(&self, pid: i32, id: u64) {
        self.0.lock().insert(pid, id);
    }

    /// The process number of a run whose first process has not been reaped.
    pub(super) fn pid_of(&self, id: u64) -> Option<i32> {
        self.0.lock().iter().find_map(|(&pid, &run)| (run == id).then_some(pid))
    }

    /// Signals the group of a run, if its number is certain to be its own still.
    pub(super) fn signal_group(&self, id: u64, pid: i32, signal: Signal) -> bool {
        let running = self.0.lock();
        running.get(&pid) == Some(&id)
            && Pid::from_raw(pid).is_some_and(|pid| kill_process_group(pid, signal).is_ok())
    }

    /// Signals the groups of all runs. Returns their numbers.
    pub(super) fn signal_groups(&self, signal: Signal) -> BTreeSet<i32> {
        let running = self.0.lock();
        for pid in running.keys().filter_map(|&pid| Pid::from_raw(pid)) {
            let _sent = kill_process_group(pid, signal);
        }
        running.keys().copied().collect()
    }

    /// Reaps everything that has ended.
    pub(super) fn reap(&self) -> Reaped {
        let mut running = self.0.lock();
        let mut reaped = Reaped::default();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => match running.remove(&pid.as_raw_pid()) {
                    Some(id) => reaped.runs.push((id, end_of(status))),
                    None => reaped.orphans += 1,
                },
                Ok(None) => {
                    reaped.more = true;
                    return reaped;
                }
                Err(Errno::INTR) => {}
                Err(_) => return reaped,
            }
        }
    }
}

fn end_of(status: WaitStatus) -> End {
    match status.terminating_signal() {
        Some(signal) => End::Signal(signal),
        None => End::Code(status.exit_status().unwrap_or_default()),
    }
}
