//! The `climax` command: executes `muster` in the same directory, which contains the implementation.

use std::{
    io::{self, Write as _},
    path::PathBuf,
    process::ExitCode,
};

fn main() -> ExitCode {
    let error = match muster_beside() {
        Ok(program) => {
            let words = std::iter::once("climax".into()).chain(std::env::args_os().skip(1));
            let error = muster_exec::replace::replace_process(&program, words);
            format!("{}: {error}", program.display())
        }
        Err(error) => error.to_string(),
    };
    // Ignore errors: if standard error is closed, there is nowhere to report it.
    drop(writeln!(
        io::stderr(),
        "error: `climax` could not start `muster`, which must be in the same directory: {error}\n\n\
         hint: install both programs, or link `climax` to `muster`"
    ));
    ExitCode::FAILURE
}

/// The path of `muster` in the directory of this program.
fn muster_beside() -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.with_file_name("muster").with_extension(std::env::consts::EXE_EXTENSION))
}
