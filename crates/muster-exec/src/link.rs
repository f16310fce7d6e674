//! The gateway's end of one launcher process: its requests, its replies, its death.
//!
//! A request is written at once where it is made, also from a destructor. Only what the socket does
//! not take waits for the writing task.
//!
//! **Invariant:** when the launcher is gone, every run has heard of it, and what it left has been
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
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    process::Signal,
};
use tokio::{
    io::{AsyncReadExt, Interest},
    net::unix::pipe::Receiver,
    sync::{Notify, oneshot},
    time::sleep,
};
use tokio_util::task::TaskTracker;

use crate::{
    launcher::Step,
    lock::Lock,
    tree::{self, Mark},
    wire::{End, REPLY_SIZE, Reply, kill_frame},
};

#[cfg(target_os = "linux")]
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(not(target_os = "linux"))]
const SEND: SendFlags = SendFlags::DONTWAIT;
/// Between two looks at a process that is about to end.
const RECHECK: Duration = Duration::from_millis(2);
/// Looks at what a dead launcher left, at most.
const SWEEPS: u32 = 100;

#[derive(Debug)]
pub(crate) struct Link {
    /// Carries requests. It is not watched, else each request that is taken in would wake us.
    requests: UnixStream,
    process: Lock<process::Child>,
    pid: u32,
    /// Waits for the socket. Bounded by the number of starts that may be under way, plus a few
    /// bytes for each tree to be ended.
    unsent: Lock<VecDeque<Outgoing>>,
    has_unsent: Notify,
    runs: Lock<Runs>,
}

/// A request and the descriptors that go with it.
#[derive(Debug)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
    descriptors: Vec<OwnedFd>,
}

/// Why a request was not sent.
#[derive(Debug)]
pub(crate) enum Unsent {
    /// There is nobody to send it to. Another launcher may have it.
    Gone(Outgoing),
    /// The kernel does not want to carry it.
    Refused(Errno),
}

#[derive(Debug, Default)]
struct Runs {
    gone: bool,
    waiting: BTreeMap<u64, Waiting>,
}

#[derive(Debug)]
struct Waiting {
    started: Option<oneshot::Sender<Started>>,
    ended: oneshot::Sender<End>,
    pid: i32,
}

/// What became of a start: the process number, or the error number and the step that failed.
pub(crate) type Started = Result<i32, (i32, Step)>;

/// A run that is about to be asked for.
#[derive(Debug)]
pub(crate) struct Ticket {
    pub(crate) started: oneshot::Receiver<Started>,
    pub(crate) ended: oneshot::Receiver<End>,
}

impl Link {
    /// Takes over a launcher that was just started, on tasks of `tracker`.
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
        let writer = tracker.spawn(Arc::clone(&link).write());
        let reader = Arc::clone(&link);
        tracker.spawn(async move {
            reader.read(replies).await;
            writer.abort();
            reader.bury().await;
        });
        Ok(link)
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.runs.lock().gone
    }

    /// Where the news of a run will come.
    pub(crate) fn ticket(&self, id: u64) -> Ticket {
        let (tell_started, started) = oneshot::channel();
        let (tell_ended, ended) = oneshot::channel();
        let mut runs = self.runs.lock();
        if !runs.gone {
            let waiting = Waiting { started: Some(tell_started), ended: tell_ended, pid: 0 };
            runs.waiting.insert(id, waiting);
        }
        Ticket { started, ended }
    }

    /// Has the tree of a run ended. If the launcher is gone, that has been done already.
    pub(crate) fn kill(&self, id: u64, pid: i32) {
        let _sent = self.send(Outgoing::new(kill_frame(id, pid), Vec::new()));
    }

    /// Tells the launcher to end everything and itself.
    pub(crate) fn close(&self) {
        let _closed = self.requests.shutdown(Shutdown::Write);
    }

    /// Ends a launcher that does not end by itself.
    pub(crate) fn kill_launcher(&self) {
        let _killed = self.process.lock().kill();
    }

    /// Sends a request, now or as soon as the socket takes it.
    pub(crate) fn send(&self, mut request: Outgoing) -> Result<(), Unsent> {
        let mut unsent = self.unsent.lock();
        if unsent.is_empty() {
            match request.send(&self.requests) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) => {}
                Err(Errno::PIPE | Errno::CONNRESET | Errno::NOTCONN) => {
                    drop(unsent);
                    self.runs.lock().gone = true;
                    return Err(Unsent::Gone(request));
                }
                Err(errno) => return Err(Unsent::Refused(errno)),
            }
        }
        unsent.push_back(request);
        self.has_unsent.notify_one();
        Ok(())
    }

    /// No news of this run will come.
    pub(crate) fn forget(&self, id: u64) {
        self.runs.lock().waiting.remove(&id);
    }

    async fn write(self: Arc<Self>) {
        loop {
            self.has_unsent.notified().await;
            let Ok(twin) = self.requests.try_clone() else { continue };
            let Ok(twin) = tokio::net::UnixStream::from_std(twin) else { continue };
            while twin.writable().await.is_ok() {
                match twin.try_io(Interest::WRITABLE, || self.send_first()) {
                    Ok(true) => {}
                    Err(err) if err.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(false) | Err(_) => break,
                }
            }
        }
    }

    /// Sends the first request that waits; tells whether there was one.
    fn send_first(&self) -> io::Result<bool> {
        let mut unsent = self.unsent.lock();
        let Some(first) = unsent.front_mut() else {
            return Ok(false);
        };
        first.send(&self.requests)?;
        unsent.pop_front();
        Ok(true)
    }

    /// Reads replies until there are no more.
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
                self.heard(*reply);
            }
            buffer.copy_within(whole..filled, 0);
            filled -= whole;
        }
    }

    fn heard(&self, reply: [u8; REPLY_SIZE]) {
        let waiting = &mut self.runs.lock().waiting;
        match Reply::decode(reply) {
            Some(Reply::Spawned { id, pid }) => {
                if let Some(run) = waiting.get_mut(&id) {
                    run.pid = pid;
                    let _told = run.started.take().map(|started| started.send(Ok(pid)));
                }
            }
            Some(Reply::Failed { id, errno, step }) => {
                let started = waiting.remove(&id).and_then(|run| run.started);
                let _told = started.map(|started| started.send(Err((errno, step))));
            }
            Some(Reply::Exited { id, end }) => {
                let _told = waiting.remove(&id).map(|run| run.ended.send(end));
            }
            None => {}
        }
    }

    /// The launcher has closed its end: tells everyone, reaps it, and ends what it may have left.
    async fn bury(&self) {
        let lost = {
            let mut runs = self.runs.lock();
            runs.gone = true;
            // Dropping the senders is the message.
            mem::take(&mut runs.waiting)
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
            sleep(RECHECK).await;
        };
        if !clean {
            self.sweep(&pids).await;
        }
    }

    /// Kills what carries a mark of the dead launcher, and what is in the groups of its runs.
    async fn sweep(&self, groups: &[i32]) {
        for _ in 0..SWEEPS {
            let left: Vec<_> = tree::all()
                .into_iter()
                .filter(|process| !process.ended)
                .filter(|process| {
                    groups.contains(&process.group)
                        || Mark::of(process.pid).is_some_and(|mark| mark.is_by(self.pid))
                })
                .collect();
            if left.is_empty() {
                return;
            }
            for process in &left {
                tree::send(process, Signal::KILL);
            }
            sleep(RECHECK).await;
        }
    }
}

impl Outgoing {
    pub(crate) const fn new(bytes: Vec<u8>, descriptors: Vec<OwnedFd>) -> Self {
        Self { bytes, sent: 0, descriptors }
    }

    /// Nothing of it has left.
    pub(crate) const fn is_whole(&self) -> bool {
        self.sent == 0
    }

    /// Sends as much as the socket takes; an error leaves the rest for later.
    fn send(&mut self, socket: &UnixStream) -> Result<(), Errno> {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            let descriptors: Vec<_> = self.descriptors.iter().map(AsFd::as_fd).collect();
            if !descriptors.is_empty() {
                beside.push(SendAncillaryMessage::ScmRights(&descriptors));
            }
            match sendmsg(socket, &[IoSlice::new(rest)], &mut beside, SEND) {
                Ok(size) => self.sent += size,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            // They went with the first byte.
            self.descriptors.clear();
        }
        Ok(())
    }
}
