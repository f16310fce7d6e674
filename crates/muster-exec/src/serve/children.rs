//! The root processes of all runs, by process id.
//!
//! **Invariant:** a child is reaped and removed from the table under one lock, so a process id in the
//! table always belongs to our child and was not reused.

use std::collections::{BTreeMap, BTreeSet};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus, kill_process_group, wait},
};

use crate::{lock::Lock, platform, protocol::ExitStatus};

#[derive(Debug, Default)]
pub(super) struct Children(Lock<BTreeMap<i32, u64>>);

/// The result of reaping.
#[derive(Debug, Default)]
pub(super) struct Reaped {
    /// Runs whose root process exited, and how.
    pub(super) runs: Vec<(u64, ExitStatus)>,
    /// How many processes ended that had been re-parented to us.
    pub(super) orphans: usize,
    /// Whether children are left, own or adopted.
    pub(super) more: bool,
}

impl Children {
    pub(super) fn add(&self, pid: i32, id: u64) {
        self.0.lock().insert(pid, id);
    }

    /// The children that are not the root of a run: each is the topmost process of a tree whose root has ended. `None`
    /// if the platform cannot list children.
    pub(super) fn adopted(&self) -> Option<Vec<i32>> {
        let children = platform::children()?;
        let running = self.0.lock();
        Some(children.into_iter().filter(|pid| !running.contains_key(pid)).collect())
    }

    /// The process id of a run whose root process has not been reaped.
    pub(super) fn pid_of(&self, id: u64) -> Option<i32> {
        self.0.lock().iter().find_map(|(&pid, &run)| (run == id).then_some(pid))
    }

    /// Signals the process group of a run, unless its id may have been reused.
    pub(super) fn signal_group(&self, id: u64, pid: i32, signal: Signal) -> bool {
        let running = self.0.lock();
        running.get(&pid) == Some(&id)
            && Pid::from_raw(pid).is_some_and(|pid| kill_process_group(pid, signal).is_ok())
    }

    /// Signals the process groups of all runs; returns their ids.
    pub(super) fn signal_groups(&self, signal: Signal) -> BTreeSet<i32> {
        let running = self.0.lock();
        for pid in running.keys().filter_map(|&pid| Pid::from_raw(pid)) {
            let _sent = kill_process_group(pid, signal);
        }
        running.keys().copied().collect()
    }

    /// Reaps every child that has exited.
    pub(super) fn reap(&self) -> Reaped {
        let mut running = self.0.lock();
        let mut reaped = Reaped::default();
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => match running.remove(&pid.as_raw_pid()) {
                    Some(id) => reaped.runs.push((id, exit_of(status))),
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

fn exit_of(status: WaitStatus) -> ExitStatus {
    match status.terminating_signal() {
        Some(signal) => ExitStatus::Signal(signal),
        None => ExitStatus::Code(status.exit_status().unwrap_or_default()),
    }
}
