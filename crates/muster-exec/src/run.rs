//! Running one command to its end.

use std::{
    future::poll_fn,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tokio::{io::AsyncWriteExt, join, net::unix::pipe::Sender, time::timeout};
use tracing::{debug, error, warn};

use crate::{
    capture::Capture,
    child::{Child, Exit},
    command::{Command, Stdin},
    launcher::{Launcher, StartError, Step},
};

/// A start takes a millisecond. One that takes this long is stuck, whatever the command's own limit.
const START_LIMIT: Duration = Duration::from_secs(10);

/// What one run may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How long it may take from its start to the end of its output.
    pub timeout: Duration,
    /// How much of each output stream is kept in memory.
    pub keep_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), keep_bytes: 16 << 20 }
    }
}

/// What is left of a run.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub ending: Ending,
    /// What it wrote to standard output.
    pub stdout: Captured,
    /// What it wrote to standard error.
    pub stderr: Captured,
    /// Its process number, if it was started.
    pub pid: Option<u32>,
    /// How long it took.
    pub took: Duration,
}

/// How a run ended. Every case is one a caller may want to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// The program, its interpreter or the working directory does not exist.
    NotFound,
    /// The kernel refused to start it.
    NotStarted {
        /// The kernel's error number.
        errno: i32,
        /// What it refused to do.
        step: Step,
    },
    /// A word, a variable or the directory holds a NUL.
    ContainsNul,
    /// There are no words.
    NothingToRun,
    /// It took too long, and everything it started was killed.
    TimedOut,
    /// The launcher died, and everything was killed for that.
    Lost,
}

/// One output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// All of it, or its first [`Limits::keep_bytes`].
    pub bytes: Vec<u8>,
    /// How long it was.
    pub total: u64,
    /// The file that holds all of it from the first byte on, if it did not fit.
    pub spill: Option<PathBuf>,
    /// How much of it the file holds: less than `total` if it is too much for the disk too.
    pub spilled: u64,
}

impl Captured {
    /// How much is missing from `bytes`.
    pub fn cut(&self) -> u64 {
        self.total - self.bytes.len() as u64
    }
}

/// Runs a command until it has ended and its output too, which a process it left in the background
/// may delay. Dropping the future ends the command and everything it started.
pub async fn run(
    launcher: &Launcher,
    mut command: Command,
    input: Option<Vec<u8>>,
    limits: Limits,
) -> Finished {
    let begin = Instant::now();
    let input = input.filter(|input| !input.is_empty());
    command.stdin = if input.is_some() { Stdin::Piped } else { Stdin::Null };
    let word = command.word().to_owned();
    debug!("Spawning: {word} (cwd={})", directory_text(&command));
    let mut stdout = Capture::new(launcher.spills(), limits.keep_bytes);
    let mut stderr = Capture::new(launcher.spills(), limits.keep_bytes);
    let start = timeout(limits.timeout.max(START_LIMIT), launcher.start(command));
    let (ending, pid) = match start.await {
        Ok(Ok(child)) => {
            let pid = child.pid;
            debug!("Process started (pid={pid})");
            let end = finish(child, input.unwrap_or_default(), [&mut stdout, &mut stderr]);
            let ending = timeout(limits.timeout, end).await.unwrap_or_else(|_| {
                let seconds = limits.timeout.as_secs_f64();
                warn!("⏱ Timeout after {seconds:?}s (pid={pid}, cmd={word}) — killing process");
                Ending::TimedOut
            });
            (ending, Some(pid))
        }
        Ok(Err(err)) => (not_started(err, &word), None),
        Err(_) => (Ending::TimedOut, None),
    };
    let (stdout, stderr) = (stdout.finish(), stderr.finish());
    Finished { ending, stdout, stderr, pid, took: begin.elapsed() }
}

/// Sees a child through to its end. The tree dies with the future, unless it came to its end.
async fn finish(child: Child, input: Vec<u8>, [stdout, stderr]: [&mut Capture<'_>; 2]) -> Ending {
    let Child { stdin, stdout: out, stderr: err, mut tree, .. } = child;
    let ending = async { join!(stdout.drain(out), stderr.drain(err), tree.exit()) };
    let (_, _, exit) = until(ending, feed(stdin, input)).await;
    tree.release();
    match exit {
        Exit::Code(code) => Ending::Exited(code),
        Exit::Signal(signal) => Ending::Signalled(signal),
        Exit::Lost => Ending::Lost,
    }
}

/// Waits for `end` while `beside` goes on, and does not wait for that: input that nobody reads does
/// not delay the end.
async fn until<T>(end: impl Future<Output = T>, beside: impl Future<Output = ()>) -> T {
    let mut end = pin!(end);
    let mut beside = pin!(beside);
    let mut done = false;
    poll_fn(|cx| {
        if !done {
            done = beside.as_mut().poll(cx).is_ready();
        }
        end.as_mut().poll(cx)
    })
    .await
}

/// A child that does not read its input, or not all of it, is no error.
async fn feed(stdin: Option<Sender>, input: Vec<u8>) {
    if let Some(mut stdin) = stdin {
        let _written = stdin.write_all(&input).await;
    }
}

fn not_started(err: StartError, word: &str) -> Ending {
    match err {
        StartError::NothingToRun => Ending::NothingToRun,
        StartError::ContainsNul => Ending::ContainsNul,
        StartError::Refused { errno, step: Step::Directory | Step::Program }
            if errno == Errno::NOENT.raw_os_error() =>
        {
            error!("Command not found: {word}");
            Ending::NotFound
        }
        StartError::Refused { errno, step } => Ending::NotStarted { errno, step },
        StartError::Lost => Ending::Lost,
    }
}

fn directory_text(command: &Command) -> String {
    let directory = command.working_dir.as_ref();
    directory.map_or_else(|| "<inherited>".to_owned(), |dir| dir.display().to_string())
}
