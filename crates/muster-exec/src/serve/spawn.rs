//! Finding a program and starting it.
//!
//! Everything that can be said without starting a process is said first, because `posix_spawn`, which
//! the standard library takes as long as no code of ours has to run in the child, reports a number and
//! not the step that failed.

use std::{
    collections::VecDeque,
    env,
    ffi::{OsStr, OsString},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{self, Stdio},
};

use rustix::{
    fs::{Access, FileType, access, stat},
    io::Errno,
};

use crate::{launcher::Step, tree::Marker, wire::Spawn};

/// Where programs are looked for if the environment does not say.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a program was not started.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused {
    pub(super) errno: i32,
    pub(super) step: Step,
}

impl Refused {
    const fn at(step: Step, errno: Errno) -> Self {
        Self { errno: errno.raw_os_error(), step }
    }
}

/// Starts a process with the descriptors that came with the request: standard input if it is piped,
/// standard output, standard error.
pub(super) fn spawn(
    request: &Spawn,
    descriptors: &mut VecDeque<OwnedFd>,
    marker: &Marker,
) -> Result<i32, Refused> {
    let stdin = if request.piped_stdin { descriptors.pop_front() } else { None };
    let (Some(stdout), Some(stderr)) = (descriptors.pop_front(), descriptors.pop_front()) else {
        return Err(Refused::at(Step::Prepare, Errno::BADF));
    };
    if let Some(directory) = &request.working_dir {
        check_directory(directory).map_err(|errno| Refused::at(Step::Directory, errno))?;
    }
    marker.mark(request.id);
    // As `execvp`: the first error other than "not there" is told, if nothing can be started.
    let mut told = Errno::NOENT;
    for program in candidates(request) {
        if let Err(Errno::NOENT | Errno::NOTDIR) =
            access(resolved(request, &program), Access::EXISTS)
        {
            continue;
        }
        let stdio = [stdin.as_ref(), Some(&stdout), Some(&stderr)];
        match attempt(request, &program, stdio) {
            Ok(pid) => return Ok(pid),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) if told == Errno::NOENT => told = errno,
            Err(_) => {}
        }
    }
    Err(Refused::at(Step::Program, told))
}

fn check_directory(directory: &OsStr) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat(directory)?.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    access(directory, Access::EXEC_OK)
}

/// The paths to try, in order. Relative ones are meant in the new working directory.
fn candidates(request: &Spawn) -> Vec<PathBuf> {
    let program = request.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    search_path(request)
        .as_bytes()
        .split(|&byte| byte == b':')
        // A bare name would be looked up again.
        .map(|directory| if directory.is_empty() { b".".as_slice() } else { directory })
        .map(|directory| Path::new(OsStr::from_bytes(directory)).join(program))
        .collect()
}

fn search_path(request: &Spawn) -> OsString {
    let told = request.env.iter().rev().find(|(key, _)| key == "PATH");
    #[expect(
        clippy::disallowed_methods,
        reason = "this process has no settings; children inherit this very environment"
    )]
    let inherited = || env::var_os("PATH");
    told.map(|(_, value)| value.clone()).or_else(inherited).unwrap_or(DEFAULT_PATH.into())
}

fn resolved(request: &Spawn, program: &Path) -> PathBuf {
    match &request.working_dir {
        Some(directory) => Path::new(directory).join(program),
        None => program.to_owned(),
    }
}

fn attempt(
    request: &Spawn,
    program: &Path,
    [stdin, stdout, stderr]: [Option<&OwnedFd>; 3],
) -> Result<i32, Errno> {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts programs")]
    let mut command = process::Command::new(program);
    if let [word, words @ ..] = request.argv.as_slice() {
        command.arg0(word).args(words);
    }
    if let Some(directory) = &request.working_dir {
        command.current_dir(directory);
    }
    command
        .envs(request.env.iter().map(|(key, value)| (key, value)))
        .process_group(0)
        .stdin(stdio(stdin)?)
        .stdout(stdio(stdout)?)
        .stderr(stdio(stderr)?);
    let child = command.spawn().map_err(|err| errno_of(&err))?;
    i32::try_from(child.id()).map_err(|_| Errno::SRCH)
}

fn stdio(descriptor: Option<&OwnedFd>) -> Result<Stdio, Errno> {
    match descriptor {
        Some(descriptor) => descriptor.try_clone().map(Stdio::from).map_err(|err| errno_of(&err)),
        None => Ok(Stdio::null()),
    }
}

fn errno_of(err: &io::Error) -> Errno {
    Errno::from_io_error(err).unwrap_or(Errno::INVAL)
}
