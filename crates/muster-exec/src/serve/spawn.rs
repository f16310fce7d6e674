//! Finding a program and spawning it.
//!
//! Everything that can be checked before the spawn is checked first, because `posix_spawn` reports an error number but not
//! the step that failed. The standard library uses it as long as none of our code runs in the child.

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

use crate::{environment::is_basic, launcher::StartStep, protocol::Spawn, tree::Marker};

/// The search path if the environment has no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Why a program was not spawned.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpawnError {
    pub(super) errno: i32,
    pub(super) step: StartStep,
}

impl SpawnError {
    const fn at(step: StartStep, errno: Errno) -> Self {
        Self { errno: errno.raw_os_error(), step }
    }
}

/// Spawns a process with the file descriptors sent with the request: standard input if piped, standard
/// output, standard error.
pub(super) fn spawn(
    request: &Spawn,
    descriptors: &mut VecDeque<OwnedFd>,
    marker: &Marker,
) -> Result<i32, SpawnError> {
    let stdin = if request.piped_stdin { descriptors.pop_front() } else { None };
    let (Some(stdout), Some(stderr)) = (descriptors.pop_front(), descriptors.pop_front()) else {
        return Err(SpawnError::at(StartStep::Prepare, Errno::BADF));
    };
    if let Some(directory) = &request.working_dir {
        check_directory(directory).map_err(|errno| SpawnError::at(StartStep::Directory, errno))?;
    }
    marker.mark(request.id);
    // Like `execvp`: if no candidate starts, report the first error other than "not found".
    let mut first_error = Errno::NOENT;
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
            Err(errno) if first_error == Errno::NOENT => first_error = errno,
            Err(_) => {}
        }
    }
    Err(SpawnError::at(StartStep::Program, first_error))
}

fn check_directory(directory: &OsStr) -> Result<(), Errno> {
    if FileType::from_raw_mode(stat(directory)?.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    access(directory, Access::EXEC_OK)
}

/// The paths to try, in order. Relative ones are resolved in the new working directory.
fn candidates(request: &Spawn) -> Vec<PathBuf> {
    let program = request.argv.first().map_or(OsStr::new(""), OsString::as_os_str);
    if program.as_bytes().contains(&b'/') {
        return vec![program.into()];
    }
    search_path(request)
        .as_bytes()
        .split(|&byte| byte == b':')
        // Without a directory, the standard library would search PATH again.
        .map(|directory| if directory.is_empty() { b".".as_slice() } else { directory })
        .map(|directory| Path::new(OsStr::from_bytes(directory)).join(program))
        .collect()
}

fn search_path(request: &Spawn) -> OsString {
    let own = request.env.iter().rev().find(|(key, _)| key == "PATH");
    #[expect(
        clippy::disallowed_methods,
        reason = "this process has no settings; children inherit this very environment"
    )]
    let inherited = || env::var_os("PATH");
    own.map(|(_, value)| value.clone()).or_else(inherited).unwrap_or(DEFAULT_PATH.into())
}

/// The basic variables of this process, and those in `names`; `*` stands for all.
fn inherited(names: &[OsString]) -> Vec<(OsString, OsString)> {
    let wanted = |name: &OsString| {
        name.to_str().is_some_and(is_basic) || names.iter().any(|one| one == name || one == "*")
    };
    env::vars_os().filter(|(name, _)| wanted(name)).collect()
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
    if let [program, args @ ..] = request.argv.as_slice() {
        command.arg0(program).args(args);
    }
    if let Some(directory) = &request.working_dir {
        command.current_dir(directory);
    }
    if let Some(names) = &request.inherit {
        command.env_clear().envs(inherited(names));
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
