//! Events as they happen.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Stdio},
};

use serde_json::Value;

use super::desk::Desk;

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

/// Ends a command as a person does; that is no error.
fn interrupt(mut child: Child) {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
