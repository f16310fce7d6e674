//! The limit of open file descriptors: raised for this process, not for the programs it starts.

use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

/// The number of descriptors that suffices for any number of clients.
const ENOUGH: u64 = 65_536;

/// The limit before it was raised.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// Raises the soft limit as far as the hard limit allows. Call it before clients are served.
pub fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let possible = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if limit.current.is_none_or(|current| current >= possible) {
        return;
    }
    let raised = Rlimit { current: Some(possible), maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => drop(ORIGINAL.set(limit)),
        Err(error) => tracing::debug!("the limit of open files stays as it is: {error}"),
    }
}

/// Gives a new process, and all that it starts, the original limit: some programs fail with
/// descriptors above 1024.
pub(crate) fn restore_limit(process: u32) {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(original)) = (pid, ORIGINAL.get())
        && let Err(error) = prlimit(Some(pid), Resource::Nofile, *original)
    {
        tracing::debug!("the limit of open files of process {process} stays raised: {error}");
    }
}
