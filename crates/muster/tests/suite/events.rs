//! Events as they happen.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use super::{bridge::Gateway, client::Folder, desk::Desk, serve::MUSTER};

#[test]
fn events_as_they_happen() {
    let desk = Desk::new();
    let mut child = desk
        .command()
        .args(["events", "--follow", "--resource-name", "github"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line == "--- Following new events ---"));
    desk.run(&["start", "service", "github"]);
    assert!(lines.any(|line| line.contains("MCPServerStarting")));
    interrupt(child);
}

#[test]
fn each_event_is_a_document_for_programs() {
    let desk = Desk::new();
    desk.run(&["start", "service", "github"]);
    let words = ["events", "--follow", "--output", "json", "--resource-name", "github"];
    let mut child =
        desk.command().args(words).args(["--limit", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let first: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!(first.as_array().map(Vec::len), Some(1), "{first}");
    let calls = || {
        let top = desk.command().args(["top", "--once", "--output", "json"]).output().unwrap();
        let top: Value = serde_json::from_slice(&top.stdout).unwrap();
        let all = top["backends"].as_array().unwrap();
        let own = all.iter().find(|row| row["name"] == "core").unwrap_or_else(|| panic!("{top}"));
        own["calls"].as_u64().unwrap()
    };
    let before = calls();
    desk.run(&["stop", "service", "github"]);
    let event = lines.find(|line| line.contains("Stopp")).unwrap();
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!(event["resource_name"], "github", "{event}");
    // It was told, not asked for: only what this test asked was asked.
    assert_eq!(calls() - before, 2);
    interrupt(child);
}

#[test]
fn a_restart_of_the_gateway_is_waited_for() {
    let mut gateway = Gateway::start();
    let home = Folder::new(&[]);
    let url = gateway.url();
    let muster = |words: &[&str]| {
        let mut command = Command::new(MUSTER);
        command.args(words).args(["--endpoint", &url, "--output", "json"]);
        command.env("HOME", home.path()).stdin(Stdio::null());
        command
    };
    let mut follow = muster(&["events", "--follow"]);
    let mut child = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut events = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(events.next().unwrap().starts_with('['));
    gateway.kill();
    assert!(said.any(|line| line.contains("the gateway is gone")));
    gateway.start_again();
    assert!(said.any(|line| line.contains("connected again")));
    let words = ["create", "mcpserver", "files", "--type", "stdio", "--command", "x"];
    assert!(muster(&words).output().unwrap().status.success());
    assert!(events.any(|line| line.contains("files")));
    interrupt(child);
}

/// Ends a command as a person does; that is no error.
fn interrupt(mut child: Child) {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
