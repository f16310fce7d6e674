//! Starting processes through the launcher, and the launcher itself when it is needed.

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
    child::{Child, Tree},
    command::{Command, Stdin},
    link::{Link, Outgoing, Ticket, Unsent},
    lock::Lock,
    serve::LAUNCHER_ARG,
    spill::Spills,
    wire::{self, Announce},
};

/// Starts that may be under way at once. The launcher works on one at a time, and the kernel limits
/// the descriptors on their way to it.
const STARTS_AT_ONCE: usize = 64;
/// A launcher may die between two requests; three in a row are no accident.
const ATTEMPTS: u32 = 3;
const E2BIG: i32 = Errno::TOOBIG.raw_os_error();
/// The launcher gives up on unkillable processes before this.
const SHUT_DOWN_LIMIT: Duration = Duration::from_secs(8);

/// Starts processes. Cheap to clone; all clones share one launcher process, which is started with
/// the first command.
#[derive(Debug, Clone)]
pub struct Launcher {
    shared: Arc<Shared>,
}

/// Why a command was not started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// There are no words.
    #[error("there is nothing to run")]
    NothingToRun,
    /// A word, a variable or the directory holds a NUL.
    #[error("the command contains a NUL byte")]
    ContainsNul,
    /// The kernel refused.
    #[error("{}", io::Error::from_raw_os_error(*.errno))]
    Refused {
        /// Its error number.
        errno: i32,
        /// What it refused to do.
        step: Step,
    },
    /// The launcher died before it answered, or was shut down.
    #[error("the launcher is gone")]
    Lost,
}

/// The steps of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Making pipes, or starting the launcher.
    Prepare,
    /// Entering the working directory.
    Directory,
    /// Executing the program.
    Program,
}

#[derive(Debug)]
struct Shared {
    program: PathBuf,
    args: Vec<OsString>,
    state: Lock<State>,
    last_id: AtomicU64,
    turns: Semaphore,
    tasks: TaskTracker,
    spills: Spills,
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
    /// A launcher that is this very program, which has to call [`crate::serve::serve_if_asked`].
    pub fn new() -> Self {
        // The link leads to the program that runs, also after an upgrade has replaced its file.
        let program = Path::new("/proc/self/exe");
        let program = if program.exists() {
            program.to_owned()
        } else {
            std::env::current_exe().unwrap_or_default()
        };
        Self::with_program(program, [LAUNCHER_ARG])
    }

    /// A launcher that is another program, which has to call [`crate::serve::serve`].
    pub fn with_program(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let shared = Shared {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            state: Lock::default(),
            last_id: AtomicU64::new(0),
            turns: Semaphore::new(STARTS_AT_ONCE),
            tasks: TaskTracker::new(),
            spills: Spills::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Starts a command in a process group of its own.
    pub async fn start(&self, command: Command) -> Result<Child, StartError> {
        let mut starting = self.begin(command, Announce::Now).await?;
        let pid = starting.tree.pid().await?;
        let Starting { stdin, stdout, stderr, tree, .. } = starting;
        let watch = |pipe| Receiver::from_owned_fd_unchecked(pipe).map_err(prepare);
        let stdin = stdin.map(Sender::from_owned_fd_unchecked).transpose().map_err(prepare)?;
        Ok(Child { pid, stdin, stdout: watch(stdout)?, stderr: watch(stderr)?, tree })
    }

    /// Asks for a start and does not wait for it: output can be read, input be written already.
    pub(crate) async fn begin(
        &self,
        command: Command,
        announce: Announce,
    ) -> Result<Starting<'_>, StartError> {
        if command.argv.is_empty() {
            return Err(StartError::NothingToRun);
        }
        if command.contains_nul() {
            return Err(StartError::ContainsNul);
        }
        let id = self.shared.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let too_big = StartError::Refused { errno: E2BIG, step: Step::Program };
        let frame = wire::spawn_frame(id, &command, announce).ok_or(too_big)?;
        let turn = self.shared.turns.acquire().await.map_err(|_| StartError::Lost)?;
        let (ours, theirs) = pipes(command.stdin).map_err(prepare)?;
        let (link, ticket) = self.ask(id, Outgoing::new(frame, theirs))?;
        // From here on the tree is ours to end, whatever becomes of this future.
        let tree = Tree::new(link, id, ticket);
        let [stdout, stderr] = ours.outputs;
        Ok(Starting { turn, stdin: ours.input, stdout, stderr, tree })
    }

    /// Ends everything that runs, then the launcher, then removes spilled output. Nothing can be
    /// started afterwards.
    pub async fn shut_down(&self) {
        let state = std::mem::replace(&mut *self.shared.state.lock(), State::ShutDown);
        self.shared.turns.close();
        self.shared.tasks.close();
        if let State::Up(link) = state {
            link.close();
            if timeout(SHUT_DOWN_LIMIT, self.shared.tasks.wait()).await.is_err() {
                link.kill_launcher();
            }
        }
        self.shared.tasks.wait().await;
        self.shared.spills.remove();
    }

    pub(crate) fn spills(&self) -> &Spills {
        &self.shared.spills
    }

    /// Sends a request, to a new launcher if the old one turns out to be gone.
    fn ask(&self, id: u64, request: Outgoing) -> Result<(Arc<Link>, Ticket), StartError> {
        let mut request = request;
        for _ in 0..ATTEMPTS {
            let link = self.shared.link()?;
            let ticket = link.ticket(id);
            match link.send(request) {
                Ok(()) => return Ok((link, ticket)),
                Err(Unsent::Gone(unsent)) if unsent.is_whole() => request = unsent,
                Err(Unsent::Gone(_)) => break,
                Err(Unsent::Refused(errno)) => {
                    link.forget(id);
                    return Err(prepare(errno.into()));
                }
            }
        }
        Err(StartError::Lost)
    }
}

/// A process that was asked for. The pipes are non-blocking and not watched yet.
#[derive(Debug)]
pub(crate) struct Starting<'a> {
    /// To be given back once the launcher has answered.
    pub(crate) turn: SemaphorePermit<'a>,
    pub(crate) stdin: Option<OwnedFd>,
    pub(crate) stdout: OwnedFd,
    pub(crate) stderr: OwnedFd,
    pub(crate) tree: Tree,
}

impl Shared {
    /// The launcher, started if there is none.
    fn link(&self) -> Result<Arc<Link>, StartError> {
        let mut state = self.state.lock();
        match &*state {
            State::ShutDown => return Err(StartError::Lost),
            State::Up(link) if !link.is_gone() => return Ok(Arc::clone(link)),
            State::Up(_) | State::Idle => {}
        }
        let link = self.launch().map_err(prepare)?;
        *state = State::Up(Arc::clone(&link));
        Ok(link)
    }

    /// Requests go to its standard input, a socket because they carry descriptors; replies come from
    /// its standard output. It gets a process group of its own, so that Ctrl-C in a terminal reaches
    /// the gateway only.
    fn launch(&self) -> io::Result<Arc<Link>> {
        let (requests, stdin) = UnixStream::pair()?;
        let (replies, stdout) = io::pipe()?;
        #[expect(clippy::disallowed_methods, reason = "this is the process that starts all others")]
        let process = process::Command::new(&self.program)
            .args(&self.args)
            .process_group(0)
            .stdin(OwnedFd::from(stdin))
            .stdout(stdout)
            .spawn()?;
        Link::new(process, requests, Receiver::from_owned_fd(replies.into())?, &self.tasks)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let State::Up(link) = &*self.state.lock() {
            link.close();
        }
    }
}

/// Our ends of the pipes of a child.
struct Ours {
    input: Option<OwnedFd>,
    outputs: [OwnedFd; 2],
}

/// The pipes of a child: our ends, and its ends in the order the launcher expects. Only ours are
/// non-blocking: programs do not expect it of theirs.
fn pipes(stdin: Stdin) -> io::Result<(Ours, Vec<OwnedFd>)> {
    let mut theirs = Vec::with_capacity(3);
    let input = match stdin {
        Stdin::Null => None,
        Stdin::Piped => {
            let (read, write) = io::pipe()?;
            ioctl_fionbio(&write, true)?;
            theirs.push(read.into());
            Some(write.into())
        }
    };
    let mut output = || -> io::Result<OwnedFd> {
        let (read, write) = io::pipe()?;
        ioctl_fionbio(&read, true)?;
        theirs.push(write.into());
        Ok(read.into())
    };
    let outputs = [output()?, output()?];
    Ok((Ours { input, outputs }, theirs))
}

#[expect(clippy::needless_pass_by_value, reason = "this is what `map_err` hands over")]
fn prepare(err: io::Error) -> StartError {
    let errno = Errno::from_io_error(&err).unwrap_or(Errno::IO).raw_os_error();
    StartError::Refused { errno, step: Step::Prepare }
}
