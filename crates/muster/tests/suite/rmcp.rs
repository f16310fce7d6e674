//! The Rust SDK as a client, which shares no code with our server: both eras, both ways to show tools.

use std::{
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

use rmcp::{
    ClientLifecycleMode, ClientServiceExt as _, RoleClient,
    model::{CallToolRequestParams, CallToolResult, ProtocolVersion},
    service::RunningService,
};
use serde_json::{Value, json};
use tokio::net::unix::pipe;

use super::client::{CLIMAX, Folder};

const CONFIG: &str = "\
name: demo
description: For tests
command: printf
category: test
tools:
  - name: show
    description: Prints a word
    command: '[%s]'
    args:
      - {name: word, positional: true, required: true}
      - {name: times, type: integer}
  - name: fail
    description: Fails
    command: '%d x'
";

const OLDEST: ProtocolVersion = ProtocolVersion::V_2024_11_05;
const LAST_WITH_HANDSHAKE: ProtocolVersion = ProtocolVersion::V_2025_11_25;
const STATELESS: ProtocolVersion = ProtocolVersion::V_2026_07_28;

/// The ways in which this client begins, and what it must have agreed on.
fn lifecycles() -> Vec<(ClientLifecycleMode, ProtocolVersion)> {
    let preferred_versions = vec![STATELESS];
    let legacy_version = Some(OLDEST);
    vec![
        (ClientLifecycleMode::Initialize, LAST_WITH_HANDSHAKE),
        (ClientLifecycleMode::Discover { preferred_versions: vec![STATELESS] }, STATELESS),
        (ClientLifecycleMode::Auto { preferred_versions, legacy_version }, STATELESS),
    ]
}

/// A connection in progress.
struct Session {
    client: RunningService<RoleClient, ()>,
    server: Child,
}

impl Session {
    async fn open(folder: &Folder, words: &[&str], lifecycle: ClientLifecycleMode) -> Self {
        let mut server = Command::new(CLIMAX)
            .args(words)
            .current_dir(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = OwnedFd::from(server.stdout.take().unwrap());
        let input = OwnedFd::from(server.stdin.take().unwrap());
        let output = pipe::Receiver::from_owned_fd(output).unwrap();
        let input = pipe::Sender::from_owned_fd(input).unwrap();
        let client = ().serve_with_lifecycle((output, input), lifecycle).await.unwrap();
        Self { client, server }
    }

    async fn tools(&self) -> Vec<String> {
        let tools = self.client.list_all_tools().await.unwrap();
        tools.into_iter().map(|tool| tool.name.into_owned()).collect()
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> CallToolResult {
        let arguments = arguments.as_object().unwrap().clone();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        self.client.call_tool(params).await.unwrap()
    }

    /// Calls a tool of the config, directly or not.
    async fn run(&self, mode: &str, tool: &'static str, args: Value) -> CallToolResult {
        match mode {
            "classic" => self.call(tool, args).await,
            _ => self.call("climax_call", json!({"tool_name": tool, "args": args})).await,
        }
    }

    /// Says goodbye, and waits for the server to go.
    async fn close(mut self) {
        self.client.close().await.unwrap();
        assert_eq!(self.server.wait().unwrap().code(), Some(0));
    }
}

#[track_caller]
fn check(result: &CallToolResult, failed: bool, words: &str) {
    assert_eq!(result.is_error, Some(failed), "{result:?}");
    let text = &result.content.first().unwrap().as_text().unwrap().text;
    assert!(text.contains(words), "{text}");
}

async fn talk(mode: &str, lifecycle: ClientLifecycleMode, version: ProtocolVersion) {
    let folder = Folder::new(&[("demo.yaml", CONFIG)]);
    let words: &[&str] =
        if mode == "classic" { &["demo.yaml", "--classic"] } else { &["demo.yaml"] };
    let session = Session::open(&folder, words, lifecycle).await;
    let server = session.client.peer_info().unwrap();
    assert_eq!(server.protocol_version, version);
    assert_eq!(server.server_info.as_ref().unwrap().name, "demo");

    let shown = session.tools().await;
    if mode == "classic" {
        assert_eq!(shown, ["show", "fail"]);
    } else {
        assert_eq!(shown, ["climax_search", "climax_call"]);
        check(&session.call("climax_search", json!({})).await, false, "\"tool_count\":2");
        let found = session.call("climax_search", json!({"query": "word"})).await;
        check(&found, false, "\"tool_name\":\"show\"");
        check(&session.call("show", json!({"word": "x"})).await, true, "Unknown tool: show");
    }

    check(&session.run(mode, "show", json!({"word": "a b; $HOME"})).await, false, "[a b; $HOME]");
    check(&session.run(mode, "fail", json!({})).await, true, "[exit code: 1]");
    check(&session.run(mode, "shw", json!({})).await, true, "Unknown tool: shw");
    let refused = session.run(mode, "show", json!({"times": "many"})).await;
    check(&refused, true, "word");
    let beside = refused.structured_content.unwrap();
    assert_eq!(beside["input_schema"]["required"], json!(["word"]));
    session.close().await;
}

#[test]
fn the_rust_sdk_in_both_eras_and_modes() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for mode in ["discovery", "classic"] {
            for (lifecycle, version) in lifecycles() {
                talk(mode, lifecycle, version).await;
            }
        }
    });
}

#[test]
fn calls_of_the_rust_sdk_run_side_by_side() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = Folder::new(&[("demo.yaml", CONFIG)]);
        for (lifecycle, _) in lifecycles() {
            let session = Session::open(&folder, &["demo.yaml"], lifecycle).await;
            let call = |word: &'static str| session.run("discovery", "show", json!({"word": word}));
            let (one, two, three) = tokio::join!(call("1"), call("2"), call("3"));
            check(&one, false, "[1]");
            check(&two, false, "[2]");
            check(&three, false, "[3]");
            session.close().await;
        }
    });
}
