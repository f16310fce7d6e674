//! Upstreams that run as child processes: one message per line on the standard streams.
//!
//! The task that reads standard output owns the others. When it ends, for whatever reason, so do the
//! writer, the reader of standard error, and the process with all its children.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_core::{
    backend::{BoxFuture, boxed},
    connect::{ConnectionEvent, OutputStream},
    lock::Lock,
};
use muster_exec::{
    child::{Child, Exit, ProcessTree},
    command::Command,
    launcher::{Launcher, StartError, StartStep},
};
use rustix::io::Errno;
use tokio::{
    io::AsyncReadExt as _,
    net::unix::pipe::{Receiver, Sender},
    runtime::Handle,
    task::{AbortHandle, JoinHandle},
    time::timeout,
};
use tracing::debug;

use crate::{
    error::TransportError,
    lines::{self, LineSplitter, SplitLine},
    router::{MessageRouter, MessageSink},
    spool::Payload,
    stdin_writer::StdinWriter,
    transport::DuplexTransport,
};

/// How long a process may take to exit after its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the remaining output of a process that has exited is read.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// How many characters of a line that is not a message are logged.
const MAX_LOGGED_LINE: usize = 2000;
/// A longer line on standard error is dropped.
const MAX_STDERR_LINE: usize = 1024 * 1024;

/// The transport to a child process. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct ProcessTransport {
    stdin: Arc<StdinWriter>,
    reader: Lock<Option<JoinHandle<()>>>,
    abort: AbortHandle,
    status: Arc<ProcessStatus>,
}

/// How the end of the process is reported.
#[derive(Debug, Default)]
struct ProcessStatus {
    /// Whether an exit is unexpected: not during the handshake, not after `close`.
    report_end: AtomicBool,
    last_stderr_line: Lock<String>,
}

impl ProcessTransport {
    /// Starts a process, whose messages `runtime` reads and writes.
    pub(crate) async fn start(
        launcher: &Launcher,
        router: &Arc<MessageRouter>,
        command: Command,
        runtime: &Handle,
    ) -> Result<Self, TransportError> {
        let program = command.argv.first().cloned().unwrap_or_default();
        let child = launcher.start(command).await.map_err(|err| start_error(err, &program))?;
        debug!(server = &*router.name, "started `{program}` (pid {})", child.pid);
        let Child { stdin, stdout, stderr, tree, .. } = child;
        let moved = move_pipes(runtime, stdin, stdout);
        let (stdin, stdout) = moved.map_err(|error| TransportError::Lost(error.to_string()))?;
        let (stdin, writing) = StdinWriter::new(Arc::clone(router), stdin);
        let stdin = Arc::new(stdin);
        let status = Arc::new(ProcessStatus::default());
        let writer = router.tasks.spawn_on(writing, runtime).abort_handle();
        let logging = log_stderr(stderr, Arc::clone(router), Arc::clone(&status));
        let logging = router.tasks.spawn(boxed(logging));
        let reader = OutputReader {
            router: Arc::clone(router),
            status: Arc::clone(&status),
            sink: stdin.clone(),
            tree,
            _writer: AbortOnDrop(writer),
            _logging: AbortOnDrop(logging.abort_handle()),
        };
        let reader = router.tasks.spawn_on(reader.run(stdout, logging), runtime);
        let abort = reader.abort_handle();
        Ok(Self { stdin, reader: Lock::new(Some(reader)), abort, status })
    }
}

impl DuplexTransport for ProcessTransport {
    fn sink(&self) -> Arc<dyn MessageSink> {
        self.stdin.clone()
    }

    fn report_end(&self) {
        self.status.report_end.store(true, Ordering::Relaxed);
    }

    /// Closes the input and waits for the process to exit; kills it after a timeout.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.status.report_end.store(false, Ordering::Relaxed);
            let reader = self.reader.lock().take();
            let Some(mut reader) = reader else { return };
            let exit = async {
                self.stdin.close().await;
                drop((&mut reader).await);
            };
            if timeout(EXIT_TIMEOUT, exit).await.is_err() {
                reader.abort();
                drop(reader.await);
            }
        })
    }
}

impl Drop for ProcessTransport {
    fn drop(&mut self) {
        self.abort.abort();
    }
}

/// Registers pipes with a runtime, which then wakes the tasks that wait for them.
fn move_pipes(
    runtime: &Handle,
    stdin: Option<Sender>,
    stdout: Receiver,
) -> io::Result<(Option<Sender>, Receiver)> {
    let stdin = stdin.map(Sender::into_nonblocking_fd).transpose()?;
    let stdout = stdout.into_nonblocking_fd()?;
    let _entered = runtime.enter();
    let stdin = stdin.map(Sender::from_owned_fd).transpose()?;
    Ok((stdin, Receiver::from_owned_fd(stdout)?))
}

/// Aborts a task when dropped.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Reads standard output until the process exits or closes it.
struct OutputReader {
    router: Arc<MessageRouter>,
    status: Arc<ProcessStatus>,
    sink: Arc<dyn MessageSink>,
    tree: ProcessTree,
    _writer: AbortOnDrop,
    _logging: AbortOnDrop,
}

impl OutputReader {
    async fn run(mut self, stdout: Receiver, logging: JoinHandle<()>) {
        let exit = {
            let mut reading = Box::pin(read_messages(stdout, &self.router, &self.sink));
            tokio::select! {
                () = &mut reading => None,
                exit = self.tree.exit() => {
                    // The pipe may still hold output that was written before the exit.
                    drop(timeout(DRAIN_TIMEOUT, reading).await);
                    Some(exit)
                }
            }
        };
        let exit = match exit {
            Some(exit) => Some(exit),
            None => timeout(DRAIN_TIMEOUT, self.tree.exit()).await.ok(),
        };
        drop(timeout(DRAIN_TIMEOUT, logging).await);
        let reason = exit_reason(exit, &self.status.last_stderr_line.lock());
        debug!(server = &*self.router.name, "{reason}");
        self.router.pending.close(&reason);
        if self.status.report_end.load(Ordering::Relaxed) {
            self.router.events.on_event(ConnectionEvent::Closed { reason });
        }
    }
}

/// Routes messages until the stream ends.
async fn read_messages(
    mut stdout: Receiver,
    router: &Arc<MessageRouter>,
    sink: &Arc<dyn MessageSink>,
) {
    let mut lines = LineSplitter::with_spool(Arc::clone(&router.spool));
    while let Ok(1..) = stdout.read_buf(lines.buffer()).await {
        while let Some(line) = lines.next() {
            route(line, router, sink).await;
        }
    }
    route(lines.rest(), router, sink).await;
}

async fn route(line: SplitLine, router: &Arc<MessageRouter>, sink: &Arc<dyn MessageSink>) {
    match line {
        SplitLine::Memory(line) => match line.trim_ascii() {
            [] => (),
            [b'{' | b'[', ..] => drop(router.route(&lines::text(&line), None, sink)),
            stray => {
                let stray = logged(stray);
                debug!(server = &*router.name, "stdout, not a message: {stray}");
                router.events.on_output(OutputStream::Stdout, &stray);
            }
        },
        SplitLine::Spooled(file) => {
            drop(router.route_payload(Payload::Spooled(file), None, sink).await);
        }
        SplitLine::Dropped(id, reason) => router.reject_dropped(id, &reason),
    }
}

/// The start of a line that is not a message.
fn logged(line: &[u8]) -> String {
    lines::text(line).chars().take(MAX_LOGGED_LINE).collect()
}

/// Logs standard error, and keeps its last line as the likely reason of an exit.
async fn log_stderr(mut stderr: Receiver, router: Arc<MessageRouter>, status: Arc<ProcessStatus>) {
    let mut lines = LineSplitter::new(MAX_STDERR_LINE);
    let log = |line: SplitLine| {
        let SplitLine::Memory(line) = line else { return };
        let line = line.trim_ascii();
        if !line.is_empty() {
            let line = logged(line);
            debug!(server = &*router.name, "stderr: {line}");
            router.events.on_output(OutputStream::Stderr, &line);
            *status.last_stderr_line.lock() = line;
        }
    };
    while let Ok(1..) = stderr.read_buf(lines.buffer()).await {
        while let Some(line) = lines.next() {
            log(line);
        }
    }
    log(lines.rest());
}

fn exit_reason(exit: Option<Exit>, last_line: &str) -> String {
    let end = match exit {
        Some(Exit::Code(code)) => format!("it exited with code {code}"),
        Some(Exit::Signal(signal)) => format!("it was ended by signal {signal}"),
        Some(Exit::Lost) => "its launcher died".to_owned(),
        None => "it closed its output".to_owned(),
    };
    match last_line.is_empty() {
        true => end,
        false => format!("{end}: {last_line}"),
    }
}

fn start_error(err: StartError, program: &str) -> TransportError {
    let missing = Errno::NOENT.raw_os_error();
    match err {
        StartError::Refused { errno, step: StartStep::Directory | StartStep::Program }
            if errno == missing =>
        {
            TransportError::Invalid(format!("command `{program}` not found"))
        }
        StartError::Refused { .. } | StartError::ContainsNul | StartError::NothingToRun => {
            TransportError::Invalid(format!("command `{program}` cannot be started: {err}"))
        }
        StartError::Lost => TransportError::Lost(err.to_string()),
    }
}
