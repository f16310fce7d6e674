//! Commands that cannot be started, and where programs are found.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

use muster_exec::{
    command::Command,
    launcher::StartStep,
    run::{Ending, RunLimits, run},
};
use rustix::io::Errno;

use crate::support::{launcher, text};

const fn refused(errno: Errno, step: StartStep) -> Ending {
    Ending::NotStarted { errno: errno.raw_os_error(), step }
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn in_directory(argv: &[&str], directory: &Path) -> Command {
    Command { working_dir: Some(directory.to_owned()), ..Command::new(argv.iter().copied()) }
}

fn with_path(argv: &[&str], path: &str) -> Command {
    let env = vec![("PATH".to_owned(), path.to_owned())];
    Command { env, ..Command::new(argv.iter().copied()) }
}

#[tokio::test]
async fn every_failed_start_names_its_reason() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    write(Path::new(&at("plain")), "#!/bin/sh\n", 0o644);
    write(Path::new(&at("garbage")), "\u{1}\u{2}\u{3}", 0o755);
    write(Path::new(&at("orphan")), "#!/no/such/interpreter\n", 0o755);
    let too_long = "x".repeat(128 * 1024);
    let cases = [
        (Command::new(["no-such-program-xyz"]), Ending::NotFound),
        (Command::new(["/no/such/program"]), Ending::NotFound),
        (Command::new([at("orphan")]), Ending::NotFound),
        (in_directory(&["true"], Path::new("/no/such/directory")), Ending::NotFound),
        (in_directory(&["true"], Path::new("")), Ending::NotFound),
        (
            in_directory(&["true"], Path::new(&at("plain"))),
            refused(Errno::NOTDIR, StartStep::Directory),
        ),
        (Command::new([at("plain")]), refused(Errno::ACCESS, StartStep::Program)),
        (Command::new([at("")]), refused(Errno::ACCESS, StartStep::Program)),
        (Command::new([""]), refused(Errno::ACCESS, StartStep::Program)),
        (with_path(&["plain"], &at("")), refused(Errno::ACCESS, StartStep::Program)),
        (with_path(&["true"], "/no/such/directory"), Ending::NotFound),
        (Command::new([at("garbage")]), refused(Errno::NOEXEC, StartStep::Program)),
        (Command::new(["true", &too_long]), refused(Errno::TOOBIG, StartStep::Program)),
        (Command::new(["true", &too_long.repeat(200)]), refused(Errno::TOOBIG, StartStep::Program)),
        (Command::new(["true", "a\0b"]), Ending::ContainsNul),
        (in_directory(&["true"], Path::new("a\0b")), Ending::ContainsNul),
        (with_path(&["true"], "a\0b"), Ending::ContainsNul),
        (Command::default(), Ending::NothingToRun),
        (Command::new(["true"]), Ending::Exited(0)),
    ];
    let launcher = launcher();
    for (command, expected) in cases {
        let shown: String = format!("{command:?}").chars().take(200).collect();
        let finished = run(&launcher, command, None, RunLimits::default()).await;
        assert_eq!(finished.ending, expected, "{shown}");
        assert_eq!(finished.pid.is_some(), expected == Ending::Exited(0));
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn path_lookup_skips_files_that_cannot_run() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in ["first", "second", "third"] {
        fs::create_dir(at(name)).unwrap();
    }
    write(&at("first/tool"), "#!/bin/sh\necho first", 0o644);
    write(&at("second/tool"), "#!/no/such/interpreter\n", 0o755);
    write(&at("third/tool"), "#!/bin/sh\necho third \"$0\" \"$@\"", 0o755);
    let path =
        ["first", "none", "second", "third"].map(|name| at(name).to_str().unwrap().to_owned());
    let launcher = launcher();
    let command = with_path(&["tool", "a b"], &path.join(":"));
    let finished = run(&launcher, command, None, RunLimits::default()).await;
    let expected = format!("third {}/tool a b\n", at("third").display());
    assert_eq!(text(&finished.stdout), expected);
    launcher.shut_down().await;
}

#[tokio::test]
async fn relative_programs_are_found_in_the_new_directory() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("bin")).unwrap();
    write(&directory.path().join("bin/tool"), "#!/bin/sh\necho \"$0\"", 0o755);
    symlink("bin/tool", directory.path().join("alias")).unwrap();
    let launcher = launcher();
    let relative_path = Command {
        env: vec![("PATH".to_owned(), "bin".to_owned())],
        ..in_directory(&["tool"], directory.path())
    };
    let empty_path = Command {
        env: vec![("PATH".to_owned(), String::new())],
        ..in_directory(&["alias"], directory.path())
    };
    let cases = [
        (in_directory(&["./bin/tool"], directory.path()), "./bin/tool\n"),
        (in_directory(&["bin/../alias"], directory.path()), "bin/../alias\n"),
        (relative_path, "bin/tool\n"),
        (empty_path, "./alias\n"),
    ];
    for (command, expected) in cases {
        let finished = run(&launcher, command, None, RunLimits::default()).await;
        assert_eq!(finished.ending, Ending::Exited(0));
        assert_eq!(text(&finished.stdout), expected);
    }
    launcher.shut_down().await;
}

#[tokio::test]
async fn argv_zero_is_passed_as_written() {
    let launcher = launcher();
    let command = Command::new(["sh", "-c", "tr '\\0' ' ' < /proc/$$/cmdline; true"]);
    let finished = run(&launcher, command, None, RunLimits::default()).await;
    assert!(text(&finished.stdout).starts_with("sh -c tr "), "{:?}", text(&finished.stdout));
    launcher.shut_down().await;
}
