//! Explains why a program that exists cannot be started, from the first bytes of its file.

use std::{fs::File, io::Read as _, path::Path};

use muster_core::text;
use muster_exec::lookup;

use super::{Finding, Hop, checks};

/// The number of bytes that are read of a program. A `#!` line is much shorter.
const HEAD: u64 = 512;
/// The offset of the processor in an ELF file.
const ELF_MACHINE: usize = 18;

/// Checks a program that can be found and is executable. `path` holds the directories of programs.
pub(super) fn check(subject: &str, program: &Path, path: Option<&str>) -> Option<Finding> {
    let mut head = Vec::new();
    File::open(program).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    match head.as_slice() {
        [b'#', b'!', line @ ..] => interpreter(subject, program, line, path),
        [0x7f, b'E', b'L', b'F', ..] => processor(subject, program, &head),
        _ if is_text(&head) => Some(without_interpreter(subject, program)),
        _ => None,
    }
}

fn is_text(head: &[u8]) -> bool {
    !head.is_empty() && !head.contains(&0) && head.is_ascii()
}

/// Checks the interpreter that the first line of a script names.
fn interpreter(subject: &str, program: &Path, line: &[u8], path: Option<&str>) -> Option<Finding> {
    let line = line.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let file = text::shell_quoted(&program.display().to_string());
    if line.ends_with('\r') {
        let message = format!(
            "`{}` has the line ends of Windows, so that its interpreter is not found",
            program.display()
        );
        return Some(
            Finding::bad(Hop::Programs, "script-line-ends", subject, message)
                .fix(format!("sed -i 's/\\r$//' {file}")),
        );
    }
    let mut words = line.split_whitespace();
    let first = words.next()?;
    // `env` searches for the program; its options and assignments come first.
    let wanted = match first.ends_with("/env") && Path::new(first).is_file() {
        true => words.find(|word| !word.starts_with('-') && !word.contains('='))?,
        false => first,
    };
    if lookup::exists(wanted, path) {
        return None;
    }
    let wanted = text::printable(wanted);
    let message = format!("`{}` needs `{wanted}`, which was not found", program.display());
    let install = match wanted.rsplit('/').next().unwrap_or_default() {
        name if wanted.contains('/') => {
            format!("install {name}, or correct the first line of the file: #!/usr/bin/env {name}")
        }
        name => checks::installation(name),
    };
    Some(Finding::bad(Hop::Programs, "interpreter-missing", subject, message).fix(install))
}

/// Checks that a program is built for the processor of this machine.
fn processor(subject: &str, program: &Path, head: &[u8]) -> Option<Finding> {
    let machine = [*head.get(ELF_MACHINE)?, *head.get(ELF_MACHINE + 1)?];
    let built = match u16::from_le_bytes(machine) {
        0x3e => "x86_64",
        0xb7 => "aarch64",
        0xf3 => "riscv64",
        _ => return None,
    };
    let here = std::env::consts::ARCH;
    if built == here {
        return None;
    }
    let message =
        format!("`{}` is built for {built}, and this machine is {here}", program.display());
    Some(
        Finding::bad(Hop::Programs, "program-architecture", subject, message)
            .fix(format!("install its build for {here}")),
    )
}

/// The finding for a script without a `#!` line, which only a shell can start.
fn without_interpreter(subject: &str, program: &Path) -> Finding {
    let file = program.display();
    let ending = program.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let runs = match ending {
        "py" => Some("python3"),
        "js" | "mjs" | "cjs" => Some("node"),
        "rb" => Some("ruby"),
        "sh" => Some("sh"),
        _ => None,
    };
    let fix = match runs {
        Some(runs) => format!("write `command: {runs}`, and put {file} first into `args`"),
        None => "begin the file with a line such as `#!/bin/sh`, or name what runs it in `command`"
            .to_owned(),
    };
    let message = format!("`{file}` does not begin with `#!` and an interpreter");
    Finding::bad(Hop::Programs, "script-without-interpreter", subject, message).fix(fix)
}
