//! The gateway's client of the launcher process, which it starts on demand.

use std::{
    ffi::OsString,
    io,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt},
    },
    path::{Path, PathBuf},
    process,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use rustix::io::{Errno, ioctl_fionbio};
use tokio::{
    net::unix::pipe::{Receiver, Sender},
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};
use tokio_util::task::TaskTracker;

use crate::{
    child::{Child, ProcessTree},
    command::{Command, Stdin},
    descriptors,
    link::{Link, Outgoing, PendingRun, SendError},
    lock::Lock,
    protocol::{self, StartReport},
    serve::LAUNCHER_ARG,
    spill::SpillStore,
};

/// The launcher handles one start at a time, and the kernel limits the file descriptors in flight.
const MAX_CONCURRENT_STARTS: usize = 64;
/// A launcher may die between two requests; three in a row are not a coincidence.
const MAX_ATTEMPTS: u32 = 3;
const E2BIG: i32 = Errno::TOOBIG.raw_os_error();
/// The launcher gives up on unkillable processes before this.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(8);

/// Starts processes. Cheap to clone; all clones share one launcher process, started with the first
/// command.
#[derive(Debug, Clone)]
pub struct Launcher {
    inner: Arc<Inner>,
}

/// Why a command was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The argument vector is empty.
    #[error("there is nothing to run")]
    NothingToRun,
    /// An argument, a variable or the directory holds a NUL byte.
    #[error("the command contains a NUL byte")]
    ContainsNul,
    /// The kernel refused.
    #[error("{}", io::Error::from_raw_os_error(*.errno))]
    Refused {
        /// The error number.
        errno: i32,
        /// The step that failed.
        step: StartStep,
    },
    /// The launcher died before it replied, or was shut down.
    #[error("the launcher is gone")]
    Lost,
}

/// The steps of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartStep {
    /// Creating pipes, or starting the launcher.
    Prepare,
    /// Entering the working directory.
    Directory,
    /// Executing the program.
    Program,
}

#[derive(Debug)]
struct Inner {
    program: PathBuf,
    args: Vec<OsString>,
    state: Lock<State>,
    last_id: AtomicU64,
    start_permits: Semaphore,
    tasks: TaskTracker,
    spill_store: SpillStore,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Up(Arc<Link>),
    ShutDown,
}

impl Default for Launcher {
    fn default() -> Self {
        Self::new()
    }
}

impl Launcher {
    /// A launcher that re-executes this program, which must call [`crate::serve::serve_if_launcher`].
    pub fn new() -> Self {
        // This link leads to the running binary even after an upgrade has replaced its file.
        let program = Path::new("/proc/self/exe");
        let program = if program.exists() {
            program.to_owned()
        } else {
            std::env::current_exe().unwrap_or_default()
        };
        Self::with_program(program, [LAUNCHER_ARG])
    }

    /// A launcher that executes another program, which must call [`crate::serve::serve`].
    pub fn with_program(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let inner = Inner {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            state: Lock::default(),
            last_id: AtomicU64::new(0),
            start_permits: Semaphore::new(MAX_CONCURRENT_STARTS),
            tasks: TaskTracker::new(),
            spill_store: SpillStore::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Starts a command in a process group of its own.
    pub async fn start(&self, command: Command) -> Result<Child, StartError> {
        let mut starting = self.begin(command, StartReport::Immediate).await?;
        let pid = starting.tree.pid().await?;
        let Starting { stdin, stdout, stderr, tree, .. } = starting;
        let receiver = |pipe| Receiver::from_owned_fd_unchecked(pipe).map_err(prepare_error);
        let stdin =
            stdin.map(Sender::from_owned_fd_unchecked).transpose().map_err(prepare_error)?;
        Ok(Child { pid, stdin, stdout: receiver(stdout)?, stderr: receiver(stderr)?, tree })
    }

    /// Requests a start without waiting for it: the pipes can be used already.
    pub(crate) async fn begin(
        &self,
        command: Command,
        announce: StartReport,
    ) -> Result<Starting<'_>, StartError> {
        if command.argv.is_empty() {
            return Err(StartError::NothingToRun);
        }
        if command.contains_nul() {
            return Err(StartError::ContainsNul);
        }
        let id = self.inner.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let too_big = StartError::Refused { errno: E2BIG, step: StartStep::Program };
        let frame = protocol::spawn_frame(id, &command, announce).ok_or(too_big)?;
        let permit = self.inner.start_permits.acquire().await.map_err(|_| StartError::Lost)?;
        let (parent_ends, child_ends) = pipes(command.stdin).map_err(prepare_error)?;
        let (link, pending) = self.send_request(id, Outgoing::new(frame, child_ends))?;
        // From here on dropping this future ends the tree.
        let tree = ProcessTree::new(link, id, pending);
        let [stdout, stderr] = parent_ends.outputs;
        Ok(Starting { permit, stdin: parent_ends.input, stdout, stderr, tree })
    }

    /// Ends every process, then the launcher, then removes spilled output. Nothing can be started
    /// afterwards.
    pub async fn shut_down(&self) {
        let state = std::mem::replace(&mut *self.inner.state.lock(), State::ShutDown);
        self.inner.start_permits.close();
        self.inner.tasks.close();
        if let State::Up(link) = state {
            link.close();
            if timeout(SHUTDOWN_TIMEOUT, self.inner.tasks.wait()).await.is_err() {
                link.kill_launcher();
            }
        }
        self.inner.tasks.wait().await;
        self.inner.spill_store.remove();
    }

    pub(crate) fn spill_store(&self) -> &SpillStore {
        &self.inner.spill_store
    }

    /// Sends a request, to a new launcher if the current one is gone.
    fn send_request(
        &self,
        id: u64,
        request: Outgoing,
    ) -> Result<(Arc<Link>, PendingRun), StartError> {
        let mut request = request;
        for _ in 0..MAX_ATTEMPTS {
            let link = self.inner.link()?;
            let pending = link.register(id);
            match link.send(request) {
                Ok(()) => return Ok((link, pending)),
                Err(SendError::Closed(unsent)) if unsent.is_whole() => request = unsent,
                Err(SendError::Closed(_)) => break,
                Err(SendError::Refused(errno)) => {
                    link.unregister(id);
                    return Err(prepare_error(errno.into()));
                }
            }
        }
        Err(StartError::Lost)
    }
}

/// A requested process. Its pipes are non-blocking and not registered with the reactor yet.
#[derive(Debug)]
pub(crate) struct Starting<'a> {
    /// Held until the launcher has replied.
    pub(crate) permit: SemaphorePermit<'a>,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) tree: ProcessTree,
}

impl Inner {
    /// The connection to the launcher, which is started if there is none.
    fn link(&self) -> Result<Arc<Link>, StartError> {
        let mut state = self.state.lock();
        match &*state {
            State::ShutDown => return Err(StartError::Lost),
            State::Up(link) if !link.is_closed() => return Ok(Arc::clone(link)),
            State::Up(_) | State::Idle => {}
        }
        let link = self.start_launcher().map_err(prepare_error)?;
        *state = State::Up(Arc::clone(&link));
        Ok(link)
    }

    /// Starts the launcher. Requests go to its standard input, a socket because they carry file
    /// descriptors; replies come from its standard output. It gets its own process group, so that Ctrl-C
    /// in a terminal reaches the gateway only.
    fn start_launcher(&self) -> io::Result<Arc<Link>> {
        let (requests, stdin) = UnixStream::pair()?;
        let (replies, stdout) = io::pipe()?;
        #[expect(clippy::disallowed_methods, reason = "this is the process that starts all others")]
        let process = process::Command::new(&self.program)
            .args(&self.args)
            .process_group(0)
            .stdin(OwnedFd::from(stdin))
            .stdout(stdout)
            .spawn()?;
        descriptors::restore_limit(process.id());
        Link::new(process, requests, Receiver::from_owned_fd(replies.into())?, &self.tasks)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let State::Up(link) = &*self.state.lock() {
            link.close();
        }
    }
}

/// The gateway's ends of a child's pipes.
struct ParentEnds {
    input: Option<OwnedFd>,
    outputs: [OwnedFd; 2],
}

/// Creates a child's pipes: the gateway's ends, and the child's in the order the launcher expects. Only the gateway's
/// ends are non-blocking, because programs expect blocking pipes.
fn pipes(stdin: Stdin) -> io::Result<(ParentEnds, Vec<OwnedFd>)> {
    let mut child_ends = Vec::with_capacity(3);
    let input = match stdin {
        Stdin::Null => None,
        Stdin::Piped => {
            let (read, write) = io::pipe()?;
            ioctl_fionbio(&write, true)?;
            child_ends.push(read.into());
            Some(write.into())
        }
    };
    let mut output = || -> io::Result<OwnedFd> {
        let (read, write) = io::pipe()?;
        ioctl_fionbio(&read, true)?;
        child_ends.push(write.into());
        Ok(read.into())
    };
    let outputs = [output()?, output()?];
    Ok((ParentEnds { input, outputs }, child_ends))
}

#[expect(clippy::needless_pass_by_value, reason = "this is what `map_err` hands over")]
fn prepare_error(err: io::Error) -> StartError {
    let errno = Errno::from_io_error(&err).unwrap_or(Errno::IO).raw_os_error();
    StartError::Refused { errno, step: StartStep::Prepare }
}
