//! Running one command to its end.

use std::{
    future::poll_fn,
    os::fd::OwnedFd,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use rustix::io::Errno;
use tokio::{io::AsyncWriteExt, join, net::unix::pipe::Sender, time::timeout};
use tracing::{debug, error, warn};

use crate::{
    capture::Capture,
    child::Exit,
    command::{Command, Stdin},
    launcher::{Launcher, StartError, Starting, Step},
    wire::Announce,
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
    let announce;
    (command.stdin, announce) = match input {
        Some(_) => (Stdin::Piped, Announce::Now),
        None => (Stdin::Null, Announce::Soon),
    };
    let word = command.word().to_owned();
    debug!("Spawning: {word} (cwd={})", directory_text(&command));
    let mut stdout = Capture::new(launcher.spills(), limits.keep_bytes);
    let mut stderr = Capture::new(launcher.spills(), limits.keep_bytes);
    let ended = match timeout(START_LIMIT, launcher.begin(command, announce)).await {
        Ok(Ok(starting)) => {
            let input = input.unwrap_or_default();
            see_through(starting, input, limits.timeout, [&mut stdout, &mut stderr], &word).await
        }
        Ok(Err(err)) => Err(err),
        Err(_) => Err(StartError::Lost),
    };
    let (ending, pid) = match ended {
        Ok((ending, pid)) => (ending, Some(pid)),
        Err(err) => (not_started(err, &word), None),
    };
    let (stdout, stderr) = (stdout.finish(), stderr.finish());
    Finished { ending, stdout, stderr, pid, took: begin.elapsed() }
}

/// Sees a process through to its end. Its tree dies with the future, unless that came to its end.
async fn see_through(
    starting: Starting<'_>,
    input: Vec<u8>,
    limit: Duration,
    [stdout, stderr]: [&mut Capture<'_>; 2],
    word: &str,
) -> Result<(Ending, u32), StartError> {
    let Starting { turn, stdin, stdout: out, stderr: err, mut tree } = starting;
    // The pipes hold what a child writes until its start is known, which is a moment at most.
    let end = async {
        let pid = tree.pid().await?;
        drop(turn);
        debug!("Process started (pid={pid})");
        let (_, _, exit) = join!(stdout.drain(out), stderr.drain(err), tree.exit());
        Ok((ending_of(exit), pid))
    };
    if let Ok(ended) = timeout(limit, until(end, feed(stdin, input))).await {
        tree.release();
        return ended;
    }
    tree.kill();
    let Ok(pid) = timeout(START_LIMIT, tree.pid()).await else { return Err(StartError::Lost) };
    let (pid, seconds) = (pid?, limit.as_secs_f64());
    warn!("⏱ Timeout after {seconds:?}s (pid={pid}, cmd={word}) — killing process");
    Ok((Ending::TimedOut, pid))
}

const fn ending_of(exit: Exit) -> Ending {
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
async fn feed(stdin: Option<OwnedFd>, input: Vec<u8>) {
    if let Some(Ok(mut stdin)) = stdin.map(Sender::from_owned_fd_unchecked) {
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
