//! Starts this program as a detached process, which outlives the process that starts it.

use std::{
    env,
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
};

use crate::platform::InheritedMark;

/// A longer log is rotated when a process is started, and replaces the previous rotated log.
const LONGEST_LOG: u64 = 8 * 1024 * 1024;

/// A started process. It keeps running when this handle is dropped.
#[derive(Debug)]
pub struct DetachedProcess {
    child: Child,
    log: File,
    /// The length of the log before the process wrote to it.
    start: u64,
}

impl DetachedProcess {
    /// Starts this program with `arguments` in `directory`. Its output is appended to the file `log`, which only its user
    /// can read.
    pub fn start(arguments: &[OsString], directory: &Path, log: &Path) -> io::Result<Self> {
        if fs::metadata(log).is_ok_and(|metadata| metadata.len() > LONGEST_LOG) {
            fs::rename(log, log.with_extension("log.1"))?;
        }
        let mut options = OpenOptions::new();
        let log = options.create(true).append(true).read(true).mode(0o600).open(log)?;
        let start = log.metadata()?.len();
        #[expect(
            clippy::disallowed_methods,
            reason = "the launcher ends what it starts, and this must go on"
        )]
        let child = Command::new(env::current_exe()?)
            .args(arguments)
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .spawn()?;
        Ok(Self { child, log, start })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// The output so far.
    pub fn said(&mut self) -> io::Result<String> {
        self.log.seek(SeekFrom::Start(self.start))?;
        let mut bytes = Vec::new();
        self.log.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Makes this process the leader of a new session, so that it does not end with the terminal or the process group of
/// the process that started it.
pub fn lead_session() {
    // It fails for a process that already leads a group, which is fine.
    let _session = rustix::process::setsid();
    // If a tool call of another gateway started this process, that gateway would end it with the call.
    InheritedMark::new().clear();
}
