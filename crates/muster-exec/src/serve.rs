//! The launcher process: starts what it is asked to, reports how it ends, and ends what is left.
//!
//! It is synchronous and does nothing else, so it stays small and has few ways to fail. One thread
//! reads requests and spawns, one waits for children, and one ends trees once that was asked for.
//!
//! **Invariant:** this process is the reaper of all its descendants, and it does not exit before the
//! last of them is gone or has proved unkillable.

mod children;
mod end;
mod spawn;

use std::{
    collections::VecDeque, env, fs, io::IoSliceMut, mem::MaybeUninit, os::fd::OwnedFd,
    process::ExitCode, sync::Arc, thread,
};

use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    stdio::stdin,
};

use crate::wire::{Malformed, Request, Spawn, next_request};
use children::Children;
use end::Ender;

/// The first argument that turns a program of ours into the launcher.
pub const LAUNCHER_ARG: &str = "__launcher";

/// Stacks of the helper threads: they walk `/proc` and little more.
const STACK_SIZE: usize = 128 * 1024;
const CHUNK_SIZE: usize = 16 * 1024;

/// Serves if this process was started to be the launcher. To be called before anything else.
pub fn serve_if_asked() -> Option<ExitCode> {
    env::args_os().nth(1).is_some_and(|word| word == LAUNCHER_ARG).then(serve)
}

/// Serves the gateway at the other end of standard input until it is gone, then ends all that runs.
pub fn serve() -> ExitCode {
    // As `/proc/self/exe` the process would be shown as `exe`.
    let _named = fs::write("/proc/self/comm", "muster-launcher");
    #[cfg(target_os = "linux")]
    let _adopting = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let children = Arc::new(Children::default());
    let reaped = Arc::clone(&children);
    let reaper = thread::Builder::new()
        .name("reap".to_owned())
        .stack_size(STACK_SIZE)
        .spawn(move || reaped.reap());
    if reaper.is_err() {
        return ExitCode::FAILURE;
    }
    let mut ender = Ender::new(Arc::clone(&children));
    let mut inbox = Inbox::default();
    while let Some(request) = inbox.next() {
        match request {
            Request::Spawn(spawn) => start(&children, &spawn, &mut inbox.descriptors),
            Request::Kill { id, pid } => ender.end(id, pid),
        }
    }
    end::end_all(&children);
    ExitCode::SUCCESS
}

fn start(children: &Children, request: &Spawn, descriptors: &mut VecDeque<OwnedFd>) {
    children.expect_one();
    match spawn::spawn(request, descriptors) {
        Ok(pid) => children.started(request.id, pid),
        Err(refused) => children.refused(request.id, refused),
    }
}

/// Requests as they come in, and the descriptors that came with them, in the same order.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    taken: usize,
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// The next request; `None` once there is no gateway to serve.
    fn next(&mut self) -> Option<Request> {
        loop {
            match next_request(self.bytes.get(self.taken..)?) {
                Ok(Some((request, size))) => {
                    self.taken += size;
                    return Some(request);
                }
                Ok(None) => self.receive()?,
                Err(Malformed) => return None,
            }
        }
    }

    fn receive(&mut self) -> Option<()> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(CHUNK_SIZE);
        }
        let mut chunk = [0; CHUNK_SIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let size = loop {
            let buffers = &mut [IoSliceMut::new(&mut chunk)];
            match recvmsg(stdin(), buffers, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Ok(message) => break message.bytes,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.bytes.extend_from_slice(chunk.get(..size)?);
        (size > 0).then_some(())
    }
}
