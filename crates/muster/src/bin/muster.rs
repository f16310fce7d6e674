//! The `muster` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster::cli::main()
}
