//! Replaces this process with another program.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, path::Path};

/// Replaces this program with another one, started with these arguments. Returns only on failure.
#[expect(
    clippy::disallowed_methods,
    reason = "nothing is started: this process goes on as another program"
)]
pub fn replace_process(program: &Path, args: impl IntoIterator<Item = OsString>) -> io::Error {
    std::process::Command::new(program).args(args).exec()
}
