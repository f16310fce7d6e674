//! Nothing is left behind: not by a timeout, a cancellation, a client that goes, or a server that dies.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::json;

use super::{
    client::{Client, Folder},
    serve::Gateway,
};

const SHELL: &str = "\
name: shell
command: sh
tools:
  - name: sh
    description: Runs a script
    command: -c
    args: [{name: script, positional: true, required: true}]
  - name: brief
    description: Runs a script for half a second
    command: -c
    timeout: 0.5
    args: [{name: script, positional: true, required: true}]
";

fn shell() -> (Folder, Client) {
    let folder = Folder::new(&[("shell.yaml", SHELL)]);
    let mut client = folder.serve(&["shell.yaml"]);
    client.initialize();
    (folder, client)
}

/// A script that makes a tree: itself, a child, and a grandchild in a session of its own that
/// ignores what it can. Each writes its process number.
fn tree(folder: &Folder) -> String {
    let dir = folder.path().display();
    format!(
        "trap '' TERM; echo $$ > {dir}/self.pid; \
         sh -c 'trap \"\" TERM; echo $$ > {dir}/child.pid; sleep 300' & \
         setsid sh -c 'trap \"\" TERM; echo $$ > {dir}/far.pid; sleep 300 & echo $! > {dir}/leaf.pid; wait' & \
         wait"
    )
}

const PIDS: [&str; 4] = ["self.pid", "child.pid", "far.pid", "leaf.pid"];

/// Looks again and again until something holds: the end of a process that is not our child gives no
/// event to wait for.
#[track_caller]
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(10), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pid(folder: &Folder, name: &str) -> Option<u32> {
    fs::read_to_string(folder.file(name)).ok()?.trim().parse().ok()
}

fn alive(pid: u32) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

fn wait_for_tree(folder: &Folder) -> Vec<u32> {
    eventually("the tree grew", || PIDS.iter().all(|name| pid(folder, name).is_some()));
    PIDS.iter().filter_map(|name| pid(folder, name)).collect()
}

#[track_caller]
fn gone(pids: &[u32]) {
    let start = Instant::now();
    eventually("the tree is gone", || !pids.iter().any(|pid| alive(*pid)));
    assert!(start.elapsed() < Duration::from_secs(2), "it took {:?}", start.elapsed());
}

#[test]
fn a_timeout_ends_the_whole_tree_and_keeps_what_was_printed() {
    let (folder, mut client) = shell();
    let script = format!("echo begun; echo so far >&2; {}", tree(&folder));
    let result = client.climax_call("brief", json!({"script": script}));
    assert_eq!(
        result["content"][0]["text"],
        "[stderr]\nCommand timed out after 0.5s\n\n[exit code: -1]"
    );
    assert_eq!(result["isError"], true);
    assert_eq!(result["structuredContent"]["stdout"], "begun\n");
    assert_eq!(result["structuredContent"]["stderr"], "so far\n");
    gone(&wait_for_tree(&folder));
}

#[test]
fn a_cancelled_call_ends_the_whole_tree_and_is_not_answered() {
    let (folder, mut client) = shell();
    let params = json!({"name": "climax_call", "arguments": {"tool_name": "sh", "args": {"script": tree(&folder)}}});
    let id = client.send("tools/call", params);
    let pids = wait_for_tree(&folder);
    client.notify("notifications/cancelled", json!({"requestId": id}));
    gone(&pids);
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn a_client_that_goes_takes_its_calls_along() {
    let (folder, mut client) = shell();
    let params = json!({"name": "climax_call", "arguments": {"tool_name": "sh", "args": {"script": tree(&folder)}}});
    client.send("tools/call", params);
    let pids = wait_for_tree(&folder);
    client.vanish();
    gone(&pids);
}

#[test]
fn what_a_call_leaves_running_ends_with_it_unless_its_cli_keeps_it() {
    let keeps = format!(
        "{SHELL}  - name: keep\n    description: Runs a script\n    command: -c\n    background_processes: keep\n    args: [{{name: script, positional: true, required: true}}]\n"
    );
    let folder = Folder::new(&[("shell.yaml", &keeps)]);
    let mut client = folder.serve(&["shell.yaml"]);
    client.initialize();
    let mut leave = |tool: &str, file: &str| {
        let path = folder.file(file).display().to_string();
        let script = format!(
            "(setsid sh -c 'trap \"\" TERM; echo $$ > {path}; sleep 300' >/dev/null 2>&1 &); \
             until [ -s {path} ]; do sleep 0.01; done; echo left"
        );
        let result = client.climax_call(tool, json!({ "script": script }));
        assert_eq!(result["content"][0]["text"], "left");
        pid(&folder, file).unwrap()
    };
    let kept = leave("keep", "kept.pid");
    let ended = leave("sh", "ended.pid");
    gone(&[ended]);
    assert!(alive(kept));
    assert_eq!(client.leave(), Some(0));
    gone(&[kept]);
}

#[test]
fn what_a_server_left_ends_with_it() {
    let script = "(setsid sh -c 'echo $$ > $0/far.pid; exec sleep 300' $0 >/dev/null 2>&1 &); \
                  until [ -s $0/far.pid ]; do sleep 0.01; done";
    let folder = Folder::new(&[]);
    let server = json!({
        "name": "leaver",
        "command": "sh",
        "args": ["-c", script, folder.path().display().to_string()],
        "autoStart": true,
    });
    let gateway = Gateway::start(&[("mcpservers/leaver.yaml", &server.to_string())], &[]);
    eventually("the server ran", || pid(&folder, "far.pid").is_some());
    gone(&[pid(&folder, "far.pid").unwrap()]);
    drop(gateway);
}

#[test]
fn a_server_killed_outright_leaves_nothing() {
    for _ in 0..5 {
        let (folder, mut client) = shell();
        let params = json!({"name": "climax_call", "arguments": {"tool_name": "sh", "args": {"script": tree(&folder)}}});
        client.send("tools/call", params);
        let pids = wait_for_tree(&folder);
        client.child.kill().unwrap();
        gone(&pids);
    }
}

#[test]
fn the_end_of_input_waits_for_answers() {
    let (_folder, mut client) = shell();
    let params = json!({"name": "climax_call", "arguments": {"tool_name": "sh", "args": {"script": "sleep 0.3; echo late"}}});
    client.send("tools/call", params);
    client.hang_up();
    assert_eq!(client.receive()["result"]["content"][0]["text"], "late");
    assert_eq!(client.child.wait().unwrap().code(), Some(0));
}

#[test]
fn one_slow_call_delays_no_other() {
    let (folder, mut client) = shell();
    let wait =
        format!("while [ ! -e {}/go ]; do sleep 0.01; done; echo slow", folder.path().display());
    let slow = client.send(
        "tools/call",
        json!({"name": "climax_call", "arguments": {"tool_name": "sh", "args": {"script": wait}}}),
    );
    assert_eq!(
        client.climax_call("sh", json!({"script": "echo quick"}))["content"][0]["text"],
        "quick"
    );
    fs::write(folder.file("go"), "").unwrap();
    let answer = client.receive();
    assert_eq!(answer["id"], slow);
    assert_eq!(answer["result"]["content"][0]["text"], "slow");
}

#[test]
fn output_beyond_the_limit_is_kept_in_a_file() {
    let (_folder, mut client) = shell();
    let bytes = 20 * 1024 * 1024;
    let script = format!("head -c {bytes} /dev/zero | tr '\\0' a; echo end");
    let result = client.climax_call("sh", json!({"script": script}));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.len() < 200_000, "{} bytes", text.len());
    let path = result["structuredContent"]["stdout_file"].as_str().unwrap();
    assert!(text.ends_with("until this server ends]"), "no note at the end");
    assert!(text.contains(path));
    let whole = fs::read(path).unwrap();
    assert_eq!(whole.len(), bytes + 4);
    assert!(whole.ends_with(b"aend\n"));
    let path = path.to_owned();
    assert_eq!(client.leave(), Some(0));
    assert!(!Path::new(&path).exists(), "the file goes with the server");
}

#[test]
fn standard_error_and_the_exit_code_stand_beside_output_beyond_the_limit() {
    let (_folder, mut client) = shell();
    let bytes = 20 * 1024 * 1024;
    let script =
        format!("head -c {bytes} /dev/zero | tr '\\0' a; echo disk is nearly full >&2; exit 3");
    let call = json!({"tool_name": "sh", "args": {"script": script}, "max_tokens": 1000});
    let answer = client.call("climax_call", call);
    let text = answer["content"].to_string();
    assert!(text.contains("out_"), "{text}");
    assert!(text.contains("[stderr]\\ndisk is nearly full"), "{text}");
    assert!(text.contains("[exit code: 3]"), "{text}");
    assert_eq!(answer["isError"], true);
}

#[test]
fn stored_outputs_are_removed_with_the_server_and_stale_ones_by_the_next() {
    let (folder, mut client) = shell();
    fs::create_dir(folder.file("muster-4194999-0123456789abcdef")).unwrap();
    let directories = || {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
        names.filter(|name| name.to_string_lossy().starts_with("muster-")).count()
    };
    let args = json!({"script": "seq 100000"});
    let call = json!({"tool_name": "sh", "args": args, "max_tokens": 300});
    let answer = client.call("climax_call", call);
    assert!(answer.to_string().contains("out_"), "{answer}");
    assert_eq!(directories(), 1, "only its own is left");
    client.leave();
    assert_eq!(directories(), 0);
}
