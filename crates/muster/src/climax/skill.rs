//! `climax skill`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use muster_client::env_vars;

use super::args::Skill;
use crate::{bundled, error::CommandError, output::Printer};

const INSTALLED: &str = ".claude/commands/climax-config.md";

pub(super) fn run(args: &Skill) -> Result<ExitCode, CommandError> {
    let printer = Printer::stdout();
    if args.install {
        let target = std::env::current_dir()?.join(INSTALLED);
        write(&target)?;
        printer.line(&format!("Installed to {}", target.display()))?;
    } else if args.path {
        let target = data_dir()?.join("climax").join("SKILL.md");
        if fs::read(&target).ok().as_deref() != Some(bundled::SKILL.as_bytes()) {
            write(&target)?;
        }
        printer.line(&target.display().to_string())?;
    } else {
        printer.line(bundled::SKILL.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn data_dir() -> Result<PathBuf, CommandError> {
    let from_home = || env_vars::get("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    env_vars::get("XDG_DATA_HOME").map(PathBuf::from).or_else(from_home).ok_or_else(|| {
        CommandError::new("there is no home directory to keep the skill file in")
            .hint("set HOME, or print the text with `climax skill`")
    })
}

fn write(target: &Path) -> Result<(), CommandError> {
    let written = || -> io::Result<()> {
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(target, bundled::SKILL)
    };
    written()
        .map_err(|err| CommandError::new(format!("cannot write `{}`: {err}", target.display())))
}
