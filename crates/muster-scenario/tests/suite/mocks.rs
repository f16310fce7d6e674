//! Mock servers over every transport, with raw HTTP where details matter.

use std::{path::Path, time::Duration};

use muster_exec::{
    child::Child,
    command::{Command, Stdin},
};
use muster_scenario::{
    load,
    mock::{MockConfig, remote::RemoteMock},
    scenario::MockTransport,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    time::timeout,
};

use crate::support::{HELPER, block_on, launcher};

const TOOLS: &str = r#"
tools:
  - name: echo
    responses:
      - {condition: {how: half}, fault: half, response: "0123456789012345678901234567890123456789"}
      - {condition: {how: reset}, fault: reset}
      - {condition: {how: garbage}, fault: garbage}
      - {condition: {how: hang}, fault: hang}
      - {condition: {how: status}, fault: {kind: status, status: 503}}
      - {condition: {how: error}, error: "bad {{ text }}"}
      - {response: {text: "{{ text }}"}}
"#;

const SOON: Duration = Duration::from_secs(5);

fn config() -> MockConfig {
    let text = format!(
        "name: m\ncategory: c\nconcept: c\nsteps: [{{id: a, tool: b}}]\npre_configuration:\n  mcp_servers:\n    - name: m\n      config:\n{}",
        TOOLS.lines().map(|line| format!("        {line}\n")).collect::<String>()
    );
    let loaded = load::parse(Path::new("m"), &text);
    let scenario = loaded.scenario.unwrap_or_else(|| panic!("{:?}", loaded.problems));
    scenario.setup.mcp_servers[0].mock().unwrap().clone()
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
fn call(id: u64, args: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": args}})
        .to_string()
}

/// Sends a message to the streamable mock and reads the raw response.
async fn post(port: u16, path: &str, extra: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let length = body.len();
    let request = format!(
        "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n{extra}content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = Vec::new();
    match timeout(SOON, stream.read_to_end(&mut text)).await {
        Ok(Ok(_)) => String::from_utf8_lossy(&text).into_owned(),
        Ok(Err(err)) => format!("{:?} after {:?}", err.kind(), String::from_utf8_lossy(&text)),
        Err(_) => "nothing".to_owned(),
    }
}

#[test]
fn streamable_http() {
    block_on(async {
        let mock = RemoteMock::start("m", &config(), MockTransport::StreamableHttp).await.unwrap();
        assert_eq!(mock.url(), format!("http://localhost:{}/mcp", mock.port()));
        let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}"#;
        let hello = post(mock.port(), "/mcp", "", hello).await;
        assert!(hello.contains("\"name\":\"mock-m\""), "{hello}");
        let session = hello.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
        let head = format!("mcp-session-id: {session}\r\n");
        let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        assert!(post(mock.port(), "/mcp", &head, note).await.starts_with("HTTP/1.1 202"));
        let answer = post(mock.port(), "/mcp", &head, &call(2, json!({"text": "hi"}))).await;
        assert!(answer.ends_with(r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"{\"text\":\"hi\"}"}]}}"#), "{answer}");
        let error =
            post(mock.port(), "/mcp", &head, &call(3, json!({"how": "error", "text": "x"}))).await;
        assert!(error.contains(r#""error":{"code":-32603,"message":"bad x"}"#), "{error}");
        let stranger = post(mock.port(), "/mcp", "mcp-session-id: other\r\n", note).await;
        assert!(stranger.starts_with("HTTP/1.1 404"), "{stranger}");
    });
}

#[test]
fn streamable_faults() {
    block_on(async {
        let mock = RemoteMock::start("m", &config(), MockTransport::StreamableHttp).await.unwrap();
        let fault =
            async |how: &str| post(mock.port(), "/mcp", "", &call(1, json!({"how": how}))).await;
        assert_eq!(fault("reset").await, "ConnectionReset after \"\"");
        let garbage = fault("garbage").await;
        assert!(garbage.starts_with("HTTP/1.1 200") && garbage.contains("%PDF"), "{garbage}");
        let half = fault("half").await;
        assert!(half.contains("content-length: ") && !half.ends_with('}'), "{half}");
        assert!(fault("status").await.starts_with("HTTP/1.1 503"));
        assert!(timeout(Duration::from_millis(300), fault("hang")).await.is_err());
    });
}

#[test]
fn killed_and_revived() {
    block_on(async {
        let mut mock =
            RemoteMock::start("m", &config(), MockTransport::StreamableHttp).await.unwrap();
        let port = mock.port();
        assert!(mock.kill());
        assert!(!mock.kill());
        tokio::task::yield_now().await;
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
        mock.revive().await.unwrap();
        assert_eq!(mock.port(), port);
        assert!(post(port, "/mcp", "", &call(1, json!({"text": "hi"}))).await.contains("hi"));
    });
}

#[test]
fn server_sent_events() {
    block_on(async {
        let mock = RemoteMock::start("m", &config(), MockTransport::Sse).await.unwrap();
        let port = mock.port();
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        let request = "GET /sse HTTP/1.1\r\nhost: x\r\naccept: text/event-stream\r\n\r\n";
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut data = async || {
            loop {
                let mut line = String::new();
                let read = timeout(SOON, stream.read_line(&mut line)).await.unwrap();
                match read {
                    Ok(1..) => {}
                    end => return format!("end {:?}", end.map_err(|err| err.kind())),
                }
                if let Some(data) = line.trim_end().strip_prefix("data: ") {
                    return data.to_owned();
                }
            }
        };
        let address = data().await;
        assert!(address.starts_with("/message?sessionId="), "{address}");
        let accepted = post(port, &address, "", &call(1, json!({"text": "hi"}))).await;
        assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
        assert!(data().await.contains(r#"\"text\":\"hi\""#));
        let lost = post(port, "/message?sessionId=x", "", &call(2, json!({}))).await;
        assert!(lost.starts_with("HTTP/1.1 404"), "{lost}");
        post(port, &address, "", &call(3, json!({"how": "garbage"}))).await;
        assert!(data().await.contains("%PDF"));
        assert!(post(port, &address, "", &call(4, json!({"how": "status"}))).await.contains("503"));
        post(port, &address, "", &call(5, json!({"how": "reset"}))).await;
        assert!(data().await.starts_with("end"));
    });
}

#[test]
fn stdio() {
    block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tools-of-mine.yaml");
        std::fs::write(&file, TOOLS).unwrap();
        let launcher = launcher();
        let words = [HELPER, "test", "--mock-mcp-server", "--mock-config", file.to_str().unwrap()];
        let command = Command { stdin: Stdin::Piped, ..Command::new(words) };
        let mut child = launcher.start(command).await.unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let Child { stdout, mut tree, .. } = child;
        let mut lines = BufReader::new(stdout).lines();
        let mut ask = async |line: String| {
            stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
            timeout(SOON, lines.next_line()).await.unwrap().unwrap().unwrap_or_default()
        };
        let hello =
            ask(r#"{"jsonrpc":"2.0","id":"a","method":"initialize","params":{}}"#.to_owned()).await;
        assert!(hello.contains("mock-tools-of-mine") && hello.contains(r#""id":"a""#), "{hello}");
        let answer = ask(call(2, json!({"text": "hi"}))).await;
        assert!(answer.contains(r#"{\"text\":\"hi\"}"#), "{answer}");
        let error = ask(call(3, json!({"how": "error", "text": "x"}))).await;
        assert!(error.contains(r#""error":{"code":-32603,"message":"bad x"}"#), "{error}");
        assert!(ask(call(4, json!({"how": "garbage"}))).await.contains("%PDF"));
        let half = ask(call(5, json!({"how": "half"}))).await;
        assert!(half.starts_with('{') && !half.ends_with('}'), "{half}");
        let exit = timeout(SOON, tree.exit()).await.unwrap();
        assert_eq!(exit, muster_exec::child::Exit::Signal(9));
        launcher.shut_down().await;
    });
}
