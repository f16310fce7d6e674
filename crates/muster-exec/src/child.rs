//! A process that was started, and the whole tree below it.
//!
//! **Invariant:** a tree ends with its handle, unless the handle was released.

use std::sync::Arc;

use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::oneshot,
};

use crate::{link::Link, wire::End};

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
    pub(crate) link: Arc<Link>,
    pub(crate) id: u64,
    /// 0 until it is known.
    pub(crate) pid: i32,
    pub(crate) end: EndOf,
    pub(crate) hold: Hold,
}

/// The end of the first process: awaited or known.
#[derive(Debug)]
pub(crate) enum EndOf {
    Awaited(oneshot::Receiver<End>),
    Known(Exit),
}

/// What happens to the tree when its handle goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    Kept,
    Released,
}

impl Child {
    /// Waits until the process has ended. May be called again and dropped at any time.
    pub async fn exit(&mut self) -> Exit {
        self.tree.exit().await
    }
}

impl Tree {
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

    /// Lets go of what runs: it ends when it likes, or with the gateway.
    pub fn release(mut self) {
        self.hold = Hold::Released;
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if self.hold == Hold::Kept {
            self.link.kill(self.id, self.pid);
        }
    }
}
