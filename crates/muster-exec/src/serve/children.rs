//! The children of the launcher: who runs, and who has ended.
//!
//! **Invariant:** a child is reaped and struck off the list under one lock, so a process number on
//! the list is that of our child and no other; and the gateway hears of a start before its end.

use std::{collections::BTreeMap, sync::Condvar, time::Duration};

use rustix::{
    io::Errno,
    net::{SendFlags, send},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus, kill_process_group, wait,
        waitid,
    },
    stdio::stdin,
};

use super::spawn::Refused;
use crate::{
    lock::{self, Lock},
    wire::{End, Reply},
};

#[derive(Debug, Default)]
pub(super) struct Children {
    state: Lock<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Runs by the process number of their first process.
    running: BTreeMap<i32, u64>,
    /// A spawn is under way, so an unknown child may be one we shall hear of.
    expecting: bool,
    /// Unknown children that ended meanwhile.
    early: Vec<(i32, End)>,
    /// Counts starts, so that the reaper can tell whether it missed one.
    starts: u64,
    /// There are no children, adopted ones included.
    idle: bool,
}

impl Children {
    /// A child is about to be started.
    pub(super) fn expect_one(&self) {
        self.state.lock().expecting = true;
    }

    pub(super) fn started(&self, id: u64, pid: i32) {
        let mut state = self.state.lock();
        reply(Reply::Spawned { id, pid });
        match state.early.iter().find(|(early, _)| *early == pid) {
            Some(&(_, end)) => reply(Reply::Exited { id, end }),
            None => _ = state.running.insert(pid, id),
        }
        state.settle();
        self.changed.notify_all();
    }

    pub(super) fn refused(&self, id: u64, refused: Refused) {
        let mut state = self.state.lock();
        reply(Reply::Failed { id, errno: refused.errno, step: refused.step });
        state.settle();
        self.changed.notify_all();
    }

    /// The process number of a run whose first process has not been reaped.
    pub(super) fn pid_of(&self, id: u64) -> Option<i32> {
        self.state.lock().running.iter().find_map(|(&pid, &run)| (run == id).then_some(pid))
    }

    /// Signals the group of a run, if its number is certain to be its own still.
    pub(super) fn signal_group(&self, id: u64, pid: i32, signal: Signal) -> bool {
        let state = self.state.lock();
        state.running.get(&pid) == Some(&id)
            && Pid::from_raw(pid).is_some_and(|pid| kill_process_group(pid, signal).is_ok())
    }

    /// Reaps children, own and adopted, for as long as this process lives.
    pub(super) fn reap(&self) {
        let mut starts = 0;
        loop {
            // Only looks, so that the number stays taken until it is struck off below.
            let seen = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut state = self.state.lock();
            let left = match seen {
                Ok(_) => state.reap_ended(),
                Err(errno) => errno == Errno::INTR,
            };
            // A start since the look has a child to wait for, whatever the look said.
            while !left && state.starts == starts {
                state.idle = !state.expecting;
                self.changed.notify_all();
                state = lock::wait(&self.changed, state);
            }
            starts = state.starts;
        }
    }

    /// Waits until no children are left, at most for `limit`.
    pub(super) fn wait_until_idle(&self, limit: Duration) -> bool {
        let state = self.state.lock();
        let waited = self.changed.wait_timeout_while(state, limit, |state| !state.idle);
        waited.map_or_else(|poisoned| poisoned.into_inner().0.idle, |(state, _)| state.idle)
    }
}

impl State {
    fn settle(&mut self) {
        self.expecting = false;
        self.early.clear();
        self.starts += 1;
        self.idle = false;
    }

    /// Reaps what has ended; tells whether there are children left.
    fn reap_ended(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid.as_raw_pid(), end_of(status)),
                Ok(None) | Err(Errno::INTR) => return true,
                Err(_) => return false,
            }
        }
    }

    fn ended(&mut self, pid: i32, end: End) {
        match self.running.remove(&pid) {
            Some(id) => reply(Reply::Exited { id, end }),
            None if self.expecting => self.early.push((pid, end)),
            None => {}
        }
    }
}

fn end_of(status: WaitStatus) -> End {
    match status.terminating_signal() {
        Some(signal) => End::Signal(signal),
        None => End::Code(status.exit_status().unwrap_or_default()),
    }
}

/// A gateway that is gone needs no reply, and the reader of requests notices.
fn reply(reply: Reply) {
    let _sent = send(stdin(), &reply.encode(), SendFlags::NOSIGNAL);
}
