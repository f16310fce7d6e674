//! `climax show`.

use std::process::ExitCode;

use super::args::Show;
use crate::{bundled, error::CommandError, output::Printer};

pub(super) fn run(args: &Show) -> Result<ExitCode, CommandError> {
    let text = bundled::config(&args.name).ok_or_else(|| {
        CommandError::new(format!("there is no bundled config `{}`", args.name))
            .hint("see `climax list` for the bundled configs")
    })?;
    Printer::stdout().part(text)?;
    Ok(ExitCode::SUCCESS)
}
