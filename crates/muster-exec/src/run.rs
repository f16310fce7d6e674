//! Runs one command to completion, with its output captured.

use std::{
    future::poll_fn,
    os::fd::OwnedFd,
    path::PathBuf,
    pin::pin,
    time::{Duration, Instant},
};

use muster_core::cli::BackgroundProcesses;
use rustix::io::Errno;
use tokio::{io::AsyncWriteExt, join, net::unix::pipe::Sender, time::timeout};
use tracing::{debug, error, warn};

use crate::{
    capture::Capture,
    child::Exit,
    command::{Command, Stdin},
    launcher::{Launcher, StartError, StartStep, Starting},
    protocol::StartReport,
};

/// A start takes a millisecond. One that takes this long is stuck, whatever the command's own timeout.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// The timeout, from the start of the command to the end of its output.
    pub timeout: Duration,
    /// How much of each output stream is held in memory; the rest spills to disk.
    pub max_captured_bytes: usize,
    /// What happens to processes that are left when the command has exited and its output is closed.
    pub background_processes: BackgroundProcesses,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            max_captured_bytes: 16 << 20,
            background_processes: BackgroundProcesses::End,
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct CompletedRun {
    /// How it ended.
    pub ending: Ending,
    /// Its standard output.
    pub stdout: CapturedStream,
    /// Its standard error.
    pub stderr: CapturedStream,
    /// Its process id, if it was started.
    pub pid: Option<u32>,
    /// How long it took.
    pub took: Duration,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this code.
    Exited(i32),
    /// A signal killed it.
    Signalled(i32),
    /// The program, its interpreter or the working directory does not exist.
    NotFound,
    /// The kernel refused to start it.
    NotStarted {
        /// The kernel's error number.
        errno: i32,
        /// The step that failed.
        step: StartStep,
    },
    /// An argument, a variable or the directory holds a NUL byte.
    ContainsNul,
    /// The argument vector is empty.
    NothingToRun,
    /// It exceeded its timeout, and its process tree was killed.
    TimedOut,
    /// The launcher died, and every process was killed as a consequence.
    Lost,
}

/// A captured output stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CapturedStream {
    /// All of it, or its first [`RunLimits::max_captured_bytes`].
    pub bytes: Vec<u8>,
    /// Its full length.
    pub total: u64,
    /// The file that holds all of it, if it exceeded the limit.
    pub spill: Option<PathBuf>,
    /// How much of it the file holds: less than `total` if it exceeded the disk limit as well.
    pub spilled: u64,
}

impl CapturedStream {
    /// How many bytes are not in `bytes`.
    pub fn missing(&self) -> u64 {
        self.total - self.bytes.len() as u64
    }
}

/// Runs a command until it has exited and its output is closed, which a process it left in the background
/// may delay. Dropping the future ends the command's process tree.
pub async fn run(
    launcher: &Launcher,
    mut command: Command,
    input: Option<Vec<u8>>,
    limits: RunLimits,
) -> CompletedRun {
    let begin = Instant::now();
    let input = input.filter(|input| !input.is_empty());
    let report;
    (command.stdin, report) = match input {
        Some(_) => (Stdin::Piped, StartReport::Immediate),
        None => (Stdin::Null, StartReport::Deferred),
    };
    let program = command.program().to_owned();
    debug!("Spawning: {program} (cwd={})", directory_text(&command));
    let mut stdout = Capture::new(launcher.spill_store(), limits.max_captured_bytes);
    let mut stderr = Capture::new(launcher.spill_store(), limits.max_captured_bytes);
    let ended = match timeout(START_TIMEOUT, launcher.begin(command, report)).await {
        Ok(Ok(starting)) => {
            let input = input.unwrap_or_default();
            drive(starting, input, limits, [&mut stdout, &mut stderr], &program).await
        }
        Ok(Err(err)) => Err(err),
        Err(_) => Err(StartError::Lost),
    };
    let (ending, pid) = match ended {
        Ok((ending, pid)) => (ending, Some(pid)),
        Err(err) => (ending_of_start_error(err, &program), None),
    };
    let (stdout, stderr) = (stdout.finish(), stderr.finish());
    CompletedRun { ending, stdout, stderr, pid, took: begin.elapsed() }
}

/// Awaits a process and its output. Dropping the future before it completes kills the tree.
async fn drive(
    starting: Starting<'_>,
    input: Vec<u8>,
    limits: RunLimits,
    [stdout, stderr]: [&mut Capture<'_>; 2],
    program: &str,
) -> Result<(Ending, u32), StartError> {
    let Starting { permit, stdin, stdout: out, stderr: err, mut tree } = starting;
    // The pipes buffer what a child writes until its start is reported.
    let end = async {
        let pid = tree.pid().await?;
        drop(permit);
        debug!("Process started (pid={pid})");
        let (_, _, exit) = join!(stdout.drain(out), stderr.drain(err), tree.exit());
        Ok((ending_of_exit(exit), pid))
    };
    if let Ok(ended) = timeout(limits.timeout, poll_alongside(end, write_stdin(stdin, input))).await
    {
        tree.settle(limits.background_processes);
        return ended;
    }
    tree.kill();
    let Ok(pid) = timeout(START_TIMEOUT, tree.pid()).await else { return Err(StartError::Lost) };
    let (pid, seconds) = (pid?, limits.timeout.as_secs_f64());
    warn!("⏱ Timeout after {seconds:?}s (pid={pid}, cmd={program}) — killing process");
    Ok((Ending::TimedOut, pid))
}

const fn ending_of_exit(exit: Exit) -> Ending {
    match exit {
        Exit::Code(code) => Ending::Exited(code),
        Exit::Signal(signal) => Ending::Signalled(signal),
        Exit::Lost => Ending::Lost,
    }
}

/// Awaits `end` while also polling `background`, without waiting for `background`: unread input must not delay the end.
async fn poll_alongside<T>(
    end: impl Future<Output = T>,
    background: impl Future<Output = ()>,
) -> T {
    let mut end = pin!(end);
    let mut background = pin!(background);
    let mut done = false;
    poll_fn(|cx| {
        if !done {
            done = background.as_mut().poll(cx).is_ready();
        }
        end.as_mut().poll(cx)
    })
    .await
}

/// Writes the input. A child that does not read all of it is not an error.
async fn write_stdin(stdin: Option<OwnedFd>, input: Vec<u8>) {
    if let Some(Ok(mut stdin)) = stdin.map(Sender::from_owned_fd_unchecked) {
        let _written = stdin.write_all(&input).await;
    }
}

fn ending_of_start_error(err: StartError, program: &str) -> Ending {
    match err {
        StartError::NothingToRun => Ending::NothingToRun,
        StartError::ContainsNul => Ending::ContainsNul,
        StartError::Refused { errno, step: StartStep::Directory | StartStep::Program }
            if errno == Errno::NOENT.raw_os_error() =>
        {
            error!("Command not found: {program}");
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
