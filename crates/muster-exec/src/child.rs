//! A process that was started, and the whole tree below it.
//!
//! **Invariant:** a tree ends with its handle, unless the handle was released.

use std::sync::Arc;

use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::oneshot,
};

use crate::{
    launcher::StartError,
    link::{Link, Started, Ticket},
    wire::End,
};

/// A running process. Dropping it ends the process and everything it has started.
#[derive(Debug)]
pub struct Child {
    /// Its process number, which is also that of its process group.
    pub pid: u32,
    /// Its standard input, if that is piped. Dropping it is the end of input.
    pub stdin: Option<Sender>,
    /// Its standard output.
    pub stdout: Receiver,
    /// Its standard error.
    pub stderr: Receiver,
    /// The life of it and of all it started.
    pub tree: Tree,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// Its launcher died, and it was killed for that.
    Lost,
}

/// The life of a process and of all it started. Dropping it ends them.
#[derive(Debug)]
pub struct Tree {
    link: Arc<Link>,
    id: u64,
    start: StartOf,
    end: EndOf,
    hold: Hold,
}

/// The start of the first process: awaited or known.
#[derive(Debug)]
enum StartOf {
    Awaited(oneshot::Receiver<Started>),
    Known(Result<i32, StartError>),
}

/// The end of the first process: awaited or known.
#[derive(Debug)]
enum EndOf {
    Awaited(oneshot::Receiver<End>),
    Known(Exit),
}

/// What happens to the tree when its handle goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hold {
    Kept,
    /// It was let go, or is being ended already.
    Released,
}

impl Child {
    /// Waits until the process has ended. May be called again and dropped at any time.
    pub async fn exit(&mut self) -> Exit {
        self.tree.exit().await
    }
}

impl Tree {
    pub(crate) fn new(link: Arc<Link>, id: u64, ticket: Ticket) -> Self {
        let Ticket { started, ended } = ticket;
        let (start, end) = (StartOf::Awaited(started), EndOf::Awaited(ended));
        Self { link, id, start, end, hold: Hold::Kept }
    }

    /// Waits until the first process was started. Its number, or why it was not.
    pub(crate) async fn pid(&mut self) -> Result<u32, StartError> {
        let started = match &mut self.start {
            StartOf::Known(started) => *started,
            StartOf::Awaited(started) => match started.await {
                Ok(Ok(pid)) => Ok(pid),
                Ok(Err((errno, step))) => Err(StartError::Refused { errno, step }),
                Err(_) => Err(StartError::Lost),
            },
        };
        self.start = StartOf::Known(started);
        started.map(i32::cast_unsigned)
    }

    /// Waits until the first process has ended. May be called again and dropped at any time.
    pub async fn exit(&mut self) -> Exit {
        let exit = match &mut self.end {
            EndOf::Known(exit) => return *exit,
            EndOf::Awaited(end) => match end.await {
                Ok(End::Code(code)) => Exit::Code(code),
                Ok(End::Signal(signal)) => Exit::Signal(signal),
                Err(_) => Exit::Lost,
            },
        };
        self.end = EndOf::Known(exit);
        exit
    }

    /// Ends everything that runs, without waiting for it: asks first, and insists a moment later.
    pub fn kill(&mut self) {
        if self.hold == Hold::Kept {
            self.hold = Hold::Released;
            match self.start {
                StartOf::Known(Ok(pid)) => self.link.kill(self.id, pid),
                StartOf::Known(Err(_)) => {}
                StartOf::Awaited(_) => self.link.kill(self.id, 0),
            }
        }
    }

    /// Lets go of what runs: it ends when it likes, or with the gateway.
    pub fn release(mut self) {
        self.hold = Hold::Released;
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        self.kill();
    }
}
