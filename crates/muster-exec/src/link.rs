//! The gateway's connection to one launcher process.
//!
//! A request is written synchronously where it is made, even from a destructor. Only bytes that the socket does not
//! accept wait for the writer task.
//!
//! **Invariant:** when the launcher is gone, every pending run is notified and every process it left is
//! killed.

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, IoSlice},
    mem::{self, MaybeUninit},
    net::Shutdown,
    os::{
        fd::{AsFd, OwnedFd},
        unix::net::UnixStream,
    },
    process,
    sync::Arc,
    time::Duration,
};

use rustix::{
    io::Errno,
    net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg},
    process::Signal,
};
use tokio::{
    io::{AsyncReadExt, Interest},
    net::unix::pipe::Receiver,
    sync::{Notify, oneshot},
    time::sleep,
};
use tokio_util::task::TaskTracker;

use muster_core::backend::boxed;

use crate::{
    launcher::StartStep,
    lock::Lock,
    platform,
    protocol::{ExitReport, REPLY_SIZE, Reply, kill_frame},
    tree::{self, RunMark},
};

/// The interval between two checks of a process that is about to end.
const RECHECK_INTERVAL: Duration = Duration::from_millis(2);
/// The maximum number of searches for the orphans of a dead launcher.
const MAX_SWEEPS: u32 = 100;

#[derive(Debug)]
pub(crate) struct Link {
    /// Not registered with the reactor: otherwise each request the launcher reads would wake us.
    requests: UnixStream,
    process: Lock<process::Child>,
    pid: u32,
    /// Requests the socket did not accept. Bounded by the number of concurrent starts, plus a few bytes
    /// for each kill.
    unsent: Lock<VecDeque<Outgoing>>,
    has_unsent: Notify,
    runs: Lock<Runs>,
}

/// A request and the file descriptors sent with it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

/// Why a request was not sent.
#[derive(Debug)]
pub(crate) enum SendError {
    /// The launcher is gone. The request may be sent to another one.
    Closed(Outgoing),
    /// The kernel refuses to send it.
    Refused(Errno),
}

#[derive(Debug, Default)]
struct Runs {
    closed: bool,
    listeners: BTreeMap<u64, RunListener>,
}

#[derive(Debug)]
struct RunListener {
    started: Option<oneshot::Sender<StartOutcome>>,
    ended: oneshot::Sender<ExitReport>,
    pid: i32,
}

/// The result of a start: the process id, or the error number and the step that failed.
pub(crate) type StartOutcome = Result<i32, (i32, StartStep)>;

/// The receivers for the start and the exit of a run.
#[derive(Debug)]
pub(crate) struct PendingRun {
    pub(crate) started: oneshot::Receiver<StartOutcome>,
    pub(crate) ended: oneshot::Receiver<ExitReport>,
}

impl Link {
    /// Connects to a launcher that was just started; its tasks run on `tracker`.
    pub(crate) fn new(
        process: process::Child,
        requests: UnixStream,
        replies: Receiver,
        tracker: &TaskTracker,
    ) -> io::Result<Arc<Self>> {
        requests.set_nonblocking(true)?;
        let link = Arc::new(Self {
            requests,
            pid: process.id(),
            process: Lock::new(process),
            unsent: Lock::default(),
            has_unsent: Notify::new(),
            runs: Lock::default(),
        });
        let writer = tracker.spawn(boxed(Arc::clone(&link).write()));
        let reader = Arc::clone(&link);
        tracker.spawn(boxed(async move {
            reader.read(replies).await;
            writer.abort();
            reader.clean_up().await;
        }));
        Ok(link)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.runs.lock().closed
    }

    /// Registers a run, whose start and exit the returned receivers will report.
    pub(crate) fn register(&self, id: u64) -> PendingRun {
        let (started_sender, started) = oneshot::channel();
        let (exited_sender, ended) = oneshot::channel();
        let mut runs = self.runs.lock();
        if !runs.closed {
            let listeners =
                RunListener { started: Some(started_sender), ended: exited_sender, pid: 0 };
            runs.listeners.insert(id, listeners);
        }
        PendingRun { started, ended }
    }

    /// Ends the process tree of a run. If the launcher is gone, that has happened already.
    pub(crate) fn kill(&self, id: u64, pid: i32) {
        let _sent = self.send(Outgoing::new(kill_frame(id, pid), Vec::new()));
    }

    /// Makes the launcher end every process and then itself.
    pub(crate) fn close(&self) {
        let _closed = self.requests.shutdown(Shutdown::Write);
    }

    /// Kills a launcher that does not end by itself.
    pub(crate) fn kill_launcher(&self) {
        let _killed = self.process.lock().kill();
    }

    /// Sends a request, now or as soon as the socket accepts it.
    pub(crate) fn send(&self, mut request: Outgoing) -> Result<(), SendError> {
        let mut unsent = self.unsent.lock();
        if unsent.is_empty() {
            match request.send(&self.requests) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    drop(unsent);
                    self.runs.lock().closed = true;
                    return Err(SendError::Closed(request));
                }
                Err(errno) => return Err(SendError::Refused(errno)),
            }
        }
        unsent.push_back(request);
        self.has_unsent.notify_one();
        Ok(())
    }

    /// Removes a run that was never sent.
    pub(crate) fn unregister(&self, id: u64) {
        self.runs.lock().listeners.remove(&id);
    }

    async fn write(self: Arc<Self>) {
        loop {
            self.has_unsent.notified().await;
            let Ok(socket) = self.requests.try_clone() else { continue };
            let Ok(socket) = tokio::net::UnixStream::from_std(socket) else { continue };
            while socket.writable().await.is_ok() {
                match socket.try_io(Interest::WRITABLE, || self.send_first()) {
                    Ok(true) => {}
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(false) | Err(_) => break,
                }
            }
        }
    }

    /// Sends the first queued request; returns whether there was one.
    fn send_first(&self) -> io::Result<bool> {
        let mut unsent = self.unsent.lock();
        let Some(first) = unsent.front_mut() else {
            return Ok(false);
        };
        first.send(&self.requests)?;
        unsent.pop_front();
        Ok(true)
    }

    /// Reads replies until the pipe is closed.
    async fn read(&self, mut replies: Receiver) {
        let mut buffer = [0; REPLY_SIZE * 32];
        let mut filled = 0;
        while let Some(room) = buffer.get_mut(filled..)
            && let Ok(size @ 1..) = replies.read(room).await
        {
            filled += size;
            let whole = filled - filled % REPLY_SIZE;
            let (read, _) = buffer.get(..whole).unwrap_or_default().as_chunks();
            for reply in read {
                self.handle_reply(*reply);
            }
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
        }
    }

    fn handle_reply(&self, reply: [u8; REPLY_SIZE]) {
        let listeners = &mut self.runs.lock().listeners;
        match Reply::decode(reply) {
            Some(Reply::Spawned { id, pid }) => {
                if let Some(run) = listeners.get_mut(&id) {
                    run.pid = pid;
                    let _delivered = run.started.take().map(|started| started.send(Ok(pid)));
                }
            }
            Some(Reply::Failed { id, errno, step }) => {
                let started = listeners.remove(&id).and_then(|run| run.started);
                let _delivered = started.map(|started| started.send(Err((errno, step))));
            }
            Some(Reply::Exited { id, end }) => {
                let _delivered = listeners.remove(&id).map(|run| run.ended.send(end));
            }
            None => {}
        }
    }

    /// Runs once the launcher is gone: notifies pending runs, reaps it, and kills its orphans.
    async fn clean_up(&self) {
        let lost = {
            let mut runs = self.runs.lock();
            runs.closed = true;
            // Dropping the senders notifies the receivers.
            mem::take(&mut runs.listeners)
        };
        self.unsent.lock().clear();
        let pids: Vec<i32> = lost.values().map(|run| run.pid).filter(|&pid| pid > 0).collect();
        drop(lost);
        self.kill_launcher();
        let clean = loop {
            match self.process.lock().try_wait() {
                Ok(Some(status)) => break status.success(),
                Ok(None) => {}
                Err(_) => break false,
            }
            sleep(RECHECK_INTERVAL).await;
        };
        if !clean {
            self.kill_orphans(&pids).await;
        }
    }

    /// Kills every process with a mark of the dead launcher or in a process group of its runs.
    async fn kill_orphans(&self, groups: &[i32]) {
        for _ in 0..MAX_SWEEPS {
            let left: Vec<_> = tree::all_processes()
                .into_iter()
                .filter(|process| !process.ended)
                .filter(|process| {
                    groups.contains(&process.group)
                        || RunMark::of(process.pid).is_some_and(|mark| mark.is_from(self.pid))
                })
                .collect();
            if left.is_empty() {
                return;
            }
            for process in &left {
                tree::send_signal(process, Signal::KILL);
            }
            sleep(RECHECK_INTERVAL).await;
        }
    }
}

impl Outgoing {
    pub(crate) const fn new(bytes: Vec<u8>, descriptors: Vec<OwnedFd>) -> Self {
        Self { bytes, sent: 0, descriptors }
    }

    /// Whether no byte of it has been sent.
    pub(crate) const fn is_whole(&self) -> bool {
        self.sent == 0
    }

    /// Sends as much as the socket accepts; after an error the rest can be sent later.
    fn send(&mut self, socket: &UnixStream) -> Result<(), Errno> {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            let descriptors: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
            if !descriptors.is_empty() {
                ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
            }
            match sendmsg(socket, &[IoSlice::new(rest)], &mut ancillary, platform::SEND) {
                Ok(size) => self.sent += size,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            // The descriptors were sent with the first byte.
            self.descriptors.clear();
        }
        Ok(())
    }
}
