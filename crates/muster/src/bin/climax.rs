//! The `climax` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    muster::climax::main()
}
