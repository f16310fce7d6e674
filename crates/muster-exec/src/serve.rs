//! The launcher process: starts what it is asked to, reports how it ends, and ends what is left.
//!
//! It is synchronous and does nothing else, so it stays small and has few ways to fail. One thread
//! does everything, because each switch between threads would be paid with every command; a second
//! one ends trees, once that was asked for, because looking for them takes time.
//!
//! **Invariant:** this process is the reaper of all its descendants, and it does not exit before the
//! last of them is gone or has proved unkillable.

mod children;
mod end;
mod spawn;
mod watch;

use std::{
    collections::VecDeque, env, fs, io::IoSliceMut, mem::MaybeUninit, os::fd::OwnedFd,
    process::ExitCode, sync::Arc,
};

use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    stdio::stdin,
};

use crate::{
    pages,
    tree::Marker,
    wire::{Malformed, Reply, Request, next_request},
};
use children::Children;
use end::Ender;
use spawn::Refused;
use watch::Watch;

/// The first argument that turns a program of ours into the launcher.
pub const LAUNCHER_ARG: &str = "__launcher";

const CHUNK_SIZE: usize = 16 * 1024;

#[cfg(target_os = "linux")]
const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE: RecvFlags = RecvFlags::empty();

/// Serves if this process was started to be the launcher. To be called before anything else.
pub fn serve_if_asked() -> Option<ExitCode> {
    env::args_os().nth(1).is_some_and(|word| word == LAUNCHER_ARG).then(serve)
}

/// Serves the gateway at the other end of standard input and output until it is gone, then ends all
/// that runs.
pub fn serve() -> ExitCode {
    // As `/proc/self/exe` the process would be shown as `exe`.
    let _named = fs::write("/proc/self/comm", "muster-launcher");
    #[cfg(target_os = "linux")]
    let _adopting = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    pages::give_back();
    let children = Arc::new(Children::default());
    let mut ender = Ender::new(Arc::clone(&children));
    let mut watch = Watch::new(Arc::clone(&children));
    let mut inbox = Inbox::default();
    let marker = Marker::new();
    while let Some(request) = inbox.next(&mut watch) {
        match request {
            Request::Spawn(request) => {
                match spawn::spawn(&request, &mut inbox.descriptors, &marker) {
                    Ok(pid) => watch.started(request.id, pid, request.announce),
                    Err(Refused { errno, step }) => {
                        watch::tell(&[Reply::Failed { id: request.id, errno, step }]);
                    }
                }
            }
            Request::Kill { id, pid } => {
                watch.announce(id);
                ender.end(id, pid);
            }
        }
    }
    end::end_all(&children, &mut watch);
    ExitCode::SUCCESS
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
    fn next(&mut self, watch: &mut Watch) -> Option<Request> {
        loop {
            match next_request(self.bytes.get(self.taken..)?) {
                Ok(Some((request, size))) => {
                    self.taken += size;
                    return Some(request);
                }
                Ok(None) => {
                    watch.until_asked();
                    self.receive()?;
                }
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
            match recvmsg(stdin(), buffers, &mut beside, RECEIVE) {
                Ok(message) => break message.bytes,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.inspect(keep_from_children));
            }
        }
        self.bytes.extend_from_slice(chunk.get(..size)?);
        (size > 0).then_some(())
    }
}

#[cfg(target_os = "linux")]
const fn keep_from_children(_descriptor: &OwnedFd) {}

#[cfg(not(target_os = "linux"))]
fn keep_from_children(descriptor: &OwnedFd) {
    let _kept = rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC);
}
