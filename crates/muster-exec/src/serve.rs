//! The launcher process: spawns commands, reports their exits, and ends what is left.
//!
//! It is synchronous and does nothing else, so it stays small and has few ways to fail. One thread does everything,
//! because each command would pay for a context switch to another one. Only process trees are ended on a second thread,
//! because finding their members in `/proc` takes time. It is started on the first kill request.
//!
//! **Invariant:** this process is the subreaper of all its descendants, and it does not exit before the
//! last of them is gone or has proved unkillable.

mod children;
mod orphans;
mod spawn;
mod terminate;
mod watch;

use std::{
    collections::VecDeque, env, fs, io::IoSliceMut, mem::MaybeUninit, os::fd::OwnedFd,
    process::ExitCode, sync::Arc,
};

use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, recvmsg},
    stdio::stdin,
};

use crate::{
    pages, platform,
    protocol::{Malformed, Reply, Request, next_request},
    tree::Marker,
};
use children::Children;
use spawn::SpawnError;
use terminate::Terminator;
use watch::ChildWatch;

/// The first argument that starts one of our programs as the launcher.
pub const LAUNCHER_ARG: &str = "__launcher";

const CHUNK_SIZE: usize = 16 * 1024;

/// Runs the launcher if this process was started as one. Call it before anything else in `main`.
pub fn serve_if_launcher() -> Option<ExitCode> {
    env::args_os().nth(1).is_some_and(|word| word == LAUNCHER_ARG).then(serve)
}

/// Serves the gateway on standard input and output until it is gone, then ends every process.
pub fn serve() -> ExitCode {
    // Started as `/proc/self/exe`, the process would show up as `exe`.
    let _named = fs::write("/proc/self/comm", "muster-launcher");
    platform::adopt_orphans();
    pages::release_code_pages();
    orphans::terminate_in_background();
    let children = Arc::new(Children::default());
    let mut terminator = Terminator::new(Arc::clone(&children));
    let mut watch = ChildWatch::new(Arc::clone(&children));
    let mut inbox = Inbox::default();
    let marker = Marker::new();
    while let Some(request) = inbox.next(&mut watch) {
        match request {
            Request::Spawn(request) => {
                match spawn::spawn(&request, &mut inbox.descriptors, &marker) {
                    Ok(pid) => watch.started(request.id, pid, request.report),
                    Err(SpawnError { errno, step }) => {
                        watch::send_replies(&[Reply::Failed { id: request.id, errno, step }]);
                    }
                }
            }
            Request::Kill { id, pid } => {
                watch.report_start(id);
                terminator.terminate(id, pid);
            }
        }
    }
    terminate::terminate_all(&children, &mut watch);
    ExitCode::SUCCESS
}

/// The receive buffer: request bytes and the file descriptors sent with them, in the same order.
#[derive(Default)]
struct Inbox {
    bytes: Vec<u8>,
    consumed: usize,
    descriptors: VecDeque<OwnedFd>,
}

impl Inbox {
    /// The next request; `None` once the gateway is gone.
    fn next(&mut self, watch: &mut ChildWatch) -> Option<Request> {
        loop {
            match next_request(self.bytes.get(self.consumed..)?) {
                Ok(Some((request, size))) => {
                    self.consumed += size;
                    return Some(request);
                }
                Ok(None) => {
                    watch.wait_for_request();
                    self.receive()?;
                }
                Err(Malformed) => return None,
            }
        }
    }

    fn receive(&mut self) -> Option<()> {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        if self.bytes.is_empty() {
            self.bytes.shrink_to(CHUNK_SIZE);
        }
        let mut chunk = [0; CHUNK_SIZE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let size = loop {
            let buffers = &mut [IoSliceMut::new(&mut chunk)];
            match recvmsg(stdin(), buffers, &mut ancillary, platform::RECEIVE) {
                Ok(message) => break message.bytes,
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors.inspect(platform::set_cloexec));
            }
        }
        self.bytes.extend_from_slice(chunk.get(..size)?);
        (size > 0).then_some(())
    }
}
