//! The program that runs the targets. As an integration test this also builds it, with the features of all other tests.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests, which run the program")]

use std::process::{Command, Output};

fn run(argument: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_muster-fuzz")).arg(argument).output().unwrap()
}

#[test]
fn every_target_is_run_and_counted() {
    let output = run("1");
    let text = String::from_utf8(output.stdout).unwrap();
    let targets = muster_fuzz::targets::TARGETS.len();
    assert!(text.ends_with(&format!("{targets} passed, 0 failed\n")), "{text}");
    assert!(output.status.success());
}

#[test]
fn an_unknown_target_is_a_failure() {
    let output = run("nonsense");
    assert_eq!(output.stdout, b"0 passed, 0 failed\n");
    assert!(!output.status.success());
}
