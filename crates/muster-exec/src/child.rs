//! A started process and the process tree below it.
//!
//! **Invariant:** a process tree ends when its handle is dropped, unless the processes that its root process left are
//! to be kept.

use std::sync::Arc;

use muster_core::cli::BackgroundProcesses;
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::oneshot,
};

use crate::{
    launcher::StartError,
    link::{Link, PendingRun, StartOutcome},
    protocol::{ExitReport, ExitStatus},
};

/// A running process. Dropping it ends the process and everything it has started.
#[derive(Debug)]
pub struct Child {
    /// Its process id, which is also that of its process group.
    pub pid: u32,
    /// Its standard input, if piped. Dropping it closes the pipe.
    pub stdin: Option<Sender>,
    /// Its standard output.
    pub stdout: Receiver,
    /// Its standard error.
    pub stderr: Receiver,
    /// The handle to it and everything it started.
    pub tree: ProcessTree,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    /// A signal killed it.
    Signal(i32),
    /// The launcher died, and the process was killed as a consequence.
    Lost,
}

/// A handle to a process and everything it started. Dropping it ends them.
#[derive(Debug)]
pub struct ProcessTree {
    link: Arc<Link>,
    id: u64,
    start: StartState,
    end: ExitState,
    /// Whether other processes may be running after the exit of the root process.
    has_leftovers: bool,
    ownership: Ownership,
}

/// The start of the root process: pending or known.
#[derive(Debug)]
enum StartState {
    Pending(oneshot::Receiver<StartOutcome>),
    Known(Result<i32, StartError>),
}

/// The exit of the root process: pending or known.
#[derive(Debug)]
enum ExitState {
    Pending(oneshot::Receiver<ExitReport>),
    Known(Exit),
}

/// Whether dropping the handle ends the process tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ownership {
    Owned,
    /// It is kept, nothing is left of it, or it is being ended already.
    Released,
}

impl Child {
    /// Waits until the process has exited. Cancel-safe, and may be called again.
    pub async fn exit(&mut self) -> Exit {
        self.tree.exit().await
    }
}

impl ProcessTree {
    pub(crate) fn new(link: Arc<Link>, id: u64, pending: PendingRun) -> Self {
        let PendingRun { started, ended } = pending;
        let (start, end) = (StartState::Pending(started), ExitState::Pending(ended));
        Self { link, id, start, end, has_leftovers: true, ownership: Ownership::Owned }
    }

    /// Waits until the root process has started; returns its process id.
    pub(crate) async fn pid(&mut self) -> Result<u32, StartError> {
        let started = match &mut self.start {
            StartState::Known(started) => *started,
            StartState::Pending(started) => match started.await {
                Ok(Ok(pid)) => Ok(pid),
                Ok(Err((errno, step))) => Err(StartError::Refused { errno, step }),
                Err(_) => Err(StartError::Lost),
            },
        };
        self.start = StartState::Known(started);
        started.map(i32::cast_unsigned)
    }

    /// Waits until the root process has exited. Cancel-safe, and may be called again.
    pub async fn exit(&mut self) -> Exit {
        let exit = match &mut self.end {
            ExitState::Known(exit) => return *exit,
            ExitState::Pending(end) => match end.await {
                Ok(ExitReport { status, has_leftovers }) => {
                    self.has_leftovers = has_leftovers;
                    match status {
                        ExitStatus::Code(code) => Exit::Code(code),
                        ExitStatus::Signal(signal) => Exit::Signal(signal),
                    }
                }
                Err(_) => Exit::Lost,
            },
        };
        self.end = ExitState::Known(exit);
        exit
    }

    /// Keeps or ends the processes that the root process, which has exited, left running. Does not wait for them.
    pub(crate) fn settle(mut self, leftovers: BackgroundProcesses) {
        if leftovers == BackgroundProcesses::Keep || !self.has_leftovers {
            self.ownership = Ownership::Released;
        }
    }

    /// Ends the whole tree without waiting for it: `SIGTERM`, then `SIGKILL` after a grace period.
    pub fn kill(&mut self) {
        if self.ownership == Ownership::Owned {
            self.ownership = Ownership::Released;
            match self.start {
                StartState::Known(Ok(pid)) => self.link.kill(self.id, pid),
                StartState::Known(Err(_)) => {}
                StartState::Pending(_) => self.link.kill(self.id, 0),
            }
        }
    }
}

impl Drop for ProcessTree {
    fn drop(&mut self) {
        self.kill();
    }
}
