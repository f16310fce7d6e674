//! A server that is a process of ours and speaks on its standard streams, a message a line.
//!
//! One task reads and outlives the others; when it ends, for whatever reason, so do the writer, the
//! reader of the error stream and the process with all it started.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_core::connect::ConnectionEvent;
use muster_exec::{
    child::{Child, Exit, ProcessTree},
    command::Command,
    launcher::{Launcher, StartError, StartStep},
};
use rustix::io::Errno;
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::Receiver,
    task::{AbortHandle, JoinHandle},
    time::timeout,
};
use tracing::debug;

use super::{
    failure::Failure,
    inbox::{Inbox, Outlet},
    lines::{self, Line, Lines},
    mouth::Mouth,
};
use crate::lock::Lock;

/// How long a server has to end by itself once its input has ended.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long the last words of a process that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How much of a line on the error stream is kept.
const ERROR_LINE: usize = 2000;
/// A longer line on the error stream is passed over.
const MOST_COMPLAINT: usize = 1024 * 1024;

/// A server behind a pair of pipes. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Pipe {
    mouth: Arc<Mouth>,
    main: Lock<Option<JoinHandle<()>>>,
    abort: AbortHandle,
    life: Arc<Life>,
}

/// What is told when the process ends.
#[derive(Debug, Default)]
struct Life {
    /// Whether its end is news: not before the introduction, not after the goodbye.
    announced: AtomicBool,
    last_error: Lock<String>,
}

impl Pipe {
    /// Starts a server.
    pub(super) async fn start(
        launcher: &Launcher,
        inbox: &Arc<Inbox>,
        command: Command,
    ) -> Result<Self, Failure> {
        let word = command.argv.first().cloned().unwrap_or_default();
        let child = launcher.start(command).await.map_err(|err| not_started(err, &word))?;
        debug!(server = &*inbox.name, "started `{word}` (pid {})", child.pid);
        let Child { stdin, stdout, stderr, tree, .. } = child;
        let (mouth, writing) = Mouth::new(Arc::clone(inbox), stdin);
        let mouth = Arc::new(mouth);
        let life = Arc::new(Life::default());
        let writer = inbox.tasks.spawn(writing).abort_handle();
        let complaints = complain(stderr, Arc::clone(inbox), Arc::clone(&life));
        let complaints = inbox.tasks.spawn(complaints);
        let outlet: Arc<dyn Outlet> = mouth.clone();
        let main = Main {
            inbox: Arc::clone(inbox),
            life: Arc::clone(&life),
            outlet,
            tree,
            _writer: Ends(writer),
            _complaints: Ends(complaints.abort_handle()),
        };
        let main = inbox.tasks.spawn(main.run(stdout, complaints));
        let abort = main.abort_handle();
        Ok(Self { mouth, main: Lock::new(Some(main)), abort, life })
    }

    /// The way for messages that nobody waits for.
    pub(super) fn outlet(&self) -> Arc<dyn Outlet> {
        self.mouth.clone()
    }

    /// Sends one message.
    pub(super) async fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        self.mouth.speak(message).await
    }

    /// From now on its end is news.
    pub(super) fn introduced(&self) {
        self.life.announced.store(true, Ordering::Relaxed);
    }

    /// Ends its input and waits until it is gone; what is left then is killed.
    pub(super) async fn close(&self) {
        self.life.announced.store(false, Ordering::Relaxed);
        let main = self.main.lock().take();
        let Some(mut main) = main else { return };
        let goodbye = async {
            self.mouth.close().await;
            drop((&mut main).await);
        };
        if timeout(GOODBYE, goodbye).await.is_err() {
            main.abort();
            drop(main.await);
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// A task that ends with its holder.
struct Ends(AbortHandle);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Main {
    inbox: Arc<Inbox>,
    life: Arc<Life>,
    outlet: Arc<dyn Outlet>,
    tree: ProcessTree,
    _writer: Ends,
    _complaints: Ends,
}

impl Main {
    async fn run(mut self, stdout: Receiver, complaints: JoinHandle<()>) {
        let exit = {
            let mut listening = Box::pin(listen(stdout, &self.inbox, &self.outlet));
            tokio::select! {
                () = &mut listening => None,
                exit = self.tree.exit() => {
                    // What it wrote before its end is still in the pipe.
                    drop(timeout(LAST_WORDS, listening).await);
                    Some(exit)
                }
            }
        };
        let exit = match exit {
            Some(exit) => Some(exit),
            None => timeout(LAST_WORDS, self.tree.exit()).await.ok(),
        };
        drop(timeout(LAST_WORDS, complaints).await);
        let reason = reason(exit, &self.life.last_error.lock());
        debug!(server = &*self.inbox.name, "{reason}");
        self.inbox.calls.close(&reason);
        if self.life.announced.load(Ordering::Relaxed) {
            self.inbox.events.on_event(ConnectionEvent::Closed { reason });
        }
    }
}

/// Takes messages in until there are no more.
async fn listen(mut stdout: Receiver, inbox: &Arc<Inbox>, outlet: &Arc<dyn Outlet>) {
    let mut lines = Lines::with_disk(Arc::clone(&inbox.disk));
    while let Ok(1..) = stdout.read_buf(lines.room()).await {
        while let Some(line) = lines.next() {
            take(line, inbox, outlet).await;
        }
    }
    take(lines.rest(), inbox, outlet).await;
}

/// Takes a message in. On a pipe every answer goes to whom waits for it.
async fn take(line: Line, inbox: &Arc<Inbox>, outlet: &Arc<dyn Outlet>) {
    match line {
        Line::Whole(line) if line.trim_ascii().is_empty() => (),
        Line::Whole(line) => drop(inbox.take(&lines::text(&line), None, outlet)),
        Line::Long(spill) => drop(inbox.take_long(spill, None, outlet).await),
        Line::TooLong(whose) => inbox.missed(whose),
    }
}

/// Logs the error stream, and keeps its last line for whoever asks why the process ended.
async fn complain(mut stderr: Receiver, inbox: Arc<Inbox>, life: Arc<Life>) {
    let mut lines = Lines::new(MOST_COMPLAINT);
    let take = |line: Line| {
        let Line::Whole(line) = line else { return };
        let line = line.trim_ascii();
        if !line.is_empty() {
            let line: String = lines::text(line).chars().take(ERROR_LINE).collect();
            debug!(server = &*inbox.name, "stderr: {line}");
            *life.last_error.lock() = line;
        }
    };
    while let Ok(1..) = stderr.read_buf(lines.room()).await {
        while let Some(line) = lines.next() {
            take(line);
        }
    }
    take(lines.rest());
}

fn reason(exit: Option<Exit>, last_error: &str) -> String {
    let end = match exit {
        Some(Exit::Code(code)) => format!("it exited with code {code}"),
        Some(Exit::Signal(signal)) => format!("it was ended by signal {signal}"),
        Some(Exit::Lost) => "its launcher died".to_owned(),
        None => "it closed its output".to_owned(),
    };
    match last_error.is_empty() {
        true => end,
        false => format!("{end}: {last_error}"),
    }
}

fn not_started(err: StartError, word: &str) -> Failure {
    let missing = Errno::NOENT.raw_os_error();
    match err {
        StartError::Refused { errno, step: StartStep::Directory | StartStep::Program }
            if errno == missing =>
        {
            Failure::Broken(format!("command `{word}` not found"))
        }
        StartError::Refused { .. } | StartError::ContainsNul | StartError::NothingToRun => {
            Failure::Broken(format!("command `{word}` cannot be started: {err}"))
        }
        StartError::Lost => Failure::Lost(err.to_string()),
    }
}
