//! `muster agent --mcp-server`: what passes, and what happens when the gateway goes away.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

use super::client::Folder;

const MUSTER: &str = env!("CARGO_BIN_EXE_muster");

const CLI: &str = "\
name: demo
command: sh -c
tools:
  - {name: run, description: Runs a script, args: [{name: script, positional: true, required: true}]}
";

/// A gateway on a port that stays the same when it is started again.
pub(crate) struct Gateway {
    child: Child,
    port: u16,
    folder: Folder,
}

impl Gateway {
    pub(crate) fn start() -> Self {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let config =
            format!("aggregator: {{host: 127.0.0.1, port: {port}}}\nclis: {{bundled: none}}\n");
        let folder = Folder::new(&[("config.yaml", &config)]);
        std::fs::create_dir(folder.file("clis")).unwrap();
        std::fs::write(folder.file("clis/demo.yaml"), CLI).unwrap();
        Self { child: launch(&folder), port, folder }
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.child = launch(&self.folder);
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    /// The body of the answer to a message, and the session that came with it.
    fn post(&self, headers: &[(&str, &str)], message: &str) -> (String, Option<String>) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut head =
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nconnection: close\r\n"
                .to_owned();
        for (name, value) in headers.iter().copied() {
            head.extend([name, ": ", value, "\r\n"]);
        }
        write!(stream, "{head}content-length: {}\r\n\r\n{message}", message.len()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let session = head.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        (body.to_owned(), session.map(str::to_owned))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn launch(folder: &Folder) -> Child {
    let mut child = Command::new(MUSTER)
        .args(["serve", "--config-path"])
        .arg(folder.path())
        .env("MUSTER_STATE_PATH", folder.file("state"))
        .env("MUSTER_ACCESS", "open")
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("/mcp"))));
    // What it logs later must not fill the pipe.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

/// A client behind the bridge.
pub(crate) struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Bridge {
    fn to(url: &str) -> Self {
        Self::of(&["agent", "--mcp-server", "--endpoint", url])
    }

    fn of(words: &[&str]) -> Self {
        let mut command = Command::new(MUSTER);
        command.args(words);
        Self::run(command)
    }

    pub(crate) fn run(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout }
    }

    pub(crate) fn send(&mut self, message: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        writeln!(stdin, "{message}").unwrap();
        stdin.flush().unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end_matches('\n').to_owned()
    }

    pub(crate) fn next(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|err| panic!("{err}: {line:?}"))
    }

    /// The answer to a request; what else is said on the way comes first.
    pub(crate) fn answer(&mut self, id: &Value) -> (Value, Vec<Value>) {
        let mut before = Vec::new();
        loop {
            let message = self.next();
            if message["id"] == *id && message.get("method").is_none() {
                return (message, before);
            }
            before.push(message);
        }
    }

    pub(crate) fn initialize(&mut self) {
        self.send(INITIALIZE);
        self.send(INITIALIZED);
        self.answer(&json!(0));
    }

    /// Hangs up and waits for the exit code.
    pub(crate) fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

pub(crate) const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"sampling":{}},"clientInfo":{"name":"t","version":"1"}}}"#;
pub(crate) const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
pub(crate) const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

fn run(id: &str, script: &str, more: &str) -> String {
    let arguments = json!({"name": "cli_run", "arguments": {"script": script}});
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"call_tool","arguments":{arguments}{more}}}}}"#
    )
}

#[test]
fn legacy_messages_pass_byte_by_byte() {
    let gateway = Gateway::start();
    let mut bridge = Bridge::to(&gateway.url());
    let (direct, session) = gateway.post(&[], INITIALIZE);
    // All at once, as a script does: what follows waits for the session.
    bridge.send(INITIALIZE);
    bridge.send(INITIALIZED);
    assert_eq!(bridge.line(), direct);
    let session = session.unwrap();
    for message in [
        r#"{"jsonrpc":"2.0","id":"\u0061","method":"ping"}"#.to_owned(),
        r#"{"jsonrpc": "2.0", "id": 12345678901234567890, "method": "tools/list"}"#.to_owned(),
        run("2", "printf 'ü\n€'", ""),
        run("3", "exit 3", ""),
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"nope"}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":5,"method":"no/such"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":6,"method":"resources/read","params":{"uri":"x://y"}}"#.to_owned(),
    ] {
        let headers =
            [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
        let (direct, _) = gateway.post(&headers, &message);
        bridge.send(&message);
        assert_eq!(bridge.line(), direct, "{message}");
    }
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn modern_messages_pass_byte_by_byte() {
    let gateway = Gateway::start();
    let mut bridge = Bridge::to(&gateway.url());
    let plain = |id: &str, method: &str, more: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{more}{META}}}}}"#)
    };
    for (method, name, message) in [
        ("server/discover", "", plain("1", "server/discover", "")),
        ("tools/list", "", plain("\"l\"", "tools/list", "")),
        ("tools/call", "call_tool", run("2", "printf ok", &format!(",{META}"))),
        ("resources/read", "x://é", plain("3", "resources/read", r#""uri":"x://é","#)),
        ("no/such", "", plain("4", "no/such", "")),
    ] {
        let name = if name.is_ascii() { name } else { "=?base64?eDovL8Op?=" };
        let mut headers = vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", method)];
        headers.extend((!name.is_empty()).then_some(("mcp-name", name)));
        let (direct, _) = gateway.post(&headers, &message);
        bridge.send(&message);
        assert_eq!(bridge.line(), direct, "{message}");
    }
    assert_eq!(bridge.leave(), Some(0));
}

#[test]
fn what_is_no_message_is_refused_on_the_spot() {
    let mut bridge = Bridge::to("http://127.0.0.1:9/mcp");
    bridge.send("nope");
    assert_eq!(bridge.next()["error"]["code"], -32700);
    bridge.send("[]");
    assert_eq!(bridge.next()["error"]["code"], -32600);
}

#[test]
fn requests_run_side_by_side_and_can_be_taken_back() {
    let gateway = Gateway::start();
    let mut bridge = Bridge::to(&gateway.url());
    bridge.initialize();
    let mark = gateway.folder.file("mark");
    let script = format!("sleep 60; touch {}", mark.display());
    bridge.send(&run("1", &script, ""));
    bridge.send(&run("\"m\"", &script, &format!(",{META}")));
    bridge.send(&run("2", "echo quick", ""));
    assert!(bridge.answer(&json!(2)).1.is_empty());
    for id in ["1", "\"m\""] {
        bridge.send(&format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#
        ));
    }
    bridge.send(r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#);
    assert!(bridge.answer(&json!(3)).1.is_empty(), "what was taken back is not answered");
    // The bridge does not wait for what was taken back.
    assert_eq!(bridge.leave(), Some(0));
    assert!(!mark.exists());
}

#[test]
fn a_restart_of_the_gateway_costs_only_the_calls_that_were_under_way() {
    let mut gateway = Gateway::start();
    let mut bridge = Bridge::to(&gateway.url());
    bridge.initialize();
    let count = gateway.folder.file("count");
    bridge.send(&run("1", &format!("echo x >> {}; sleep 60", count.display()), ""));
    // The file is there before what is written into it.
    while std::fs::read_to_string(&count).unwrap_or_default() != "x\n" {
        std::thread::yield_now();
    }
    gateway.kill();
    let (lost, _) = bridge.answer(&json!(1));
    let said = lost["error"]["message"].as_str().unwrap();
    assert!(said.contains("may have been carried out"), "{said}");
    // Said while nobody is there, done when the gateway is back.
    bridge.send(&run("2", "echo back", ""));
    gateway.start_again();
    let (answer, mut before) = bridge.answer(&json!(2));
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("back"), "{answer}");
    while before.len() < 3 {
        before.push(bridge.next());
    }
    let told: Vec<&str> = before.iter().filter_map(|notice| notice["method"].as_str()).collect();
    let lists = ["tools", "resources", "prompts"];
    assert_eq!(told, lists.map(|list| format!("notifications/{list}/list_changed")));
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n", "it was done once");
}

#[test]
fn a_silent_client_hears_of_a_restart_and_of_changes_after_it() {
    let mut gateway = Gateway::start();
    let mut bridge = Bridge::to(&gateway.url());
    bridge.initialize();
    gateway.kill();
    gateway.start_again();
    for list in ["tools", "resources", "prompts"] {
        assert_eq!(bridge.next()["method"], format!("notifications/{list}/list_changed"));
    }
}

/// Reads one HTTP request; its head and body.
fn read_request(stream: &mut BufReader<TcpStream>) -> Option<(String, String)> {
    let mut head = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        if line == "\r\n" {
            break;
        }
        head.push_str(&line.to_lowercase());
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    Some((head, String::from_utf8(body).unwrap()))
}

/// A server that asks its client something in the middle of a call, and closes every connection.
fn asking_server(listener: TcpListener) {
    let mut calling: Option<TcpStream> = None;
    for stream in listener.incoming() {
        let mut reader = BufReader::new(stream.unwrap());
        let Some((head, body)) = read_request(&mut reader) else { continue };
        let mut stream = reader.into_inner();
        let whole = |body: &str| {
            format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s1\r\n\
                 connection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let answer = if head.starts_with("get") || head.starts_with("delete") {
            "HTTP/1.1 405 No\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()
        } else if body.contains("initialize\"") {
            whole(
                r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}}"#,
            )
        } else if body.contains("tools/call") {
            assert!(head.contains("mcp-session-id: s1"), "{head}");
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n\
                 data: {{\"jsonrpc\":\"2.0\",\"id\":\"q\",\"method\":\"sampling/createMessage\",\"params\":{{\"n\":1.0}}}}\n\n"
            )
            .unwrap();
            calling = Some(stream);
            continue;
        } else {
            // The client's answer to the question ends the call.
            if body.contains("\"result\"") || body.contains("\"error\"") {
                let words = body.replace('"', "'");
                let mut call = calling.take().unwrap();
                write!(call, "data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{words}\"}}\n\n")
                    .unwrap();
            }
            "HTTP/1.1 202 Yes\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".to_owned()
        };
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

#[test]
fn questions_of_the_server_reach_the_client_and_its_answers_the_server() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("http://127.0.0.1:{}/mcp", listener.local_addr().unwrap().port());
    std::thread::spawn(move || asking_server(listener));
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    let question =
        r#"{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"n":1.0}}"#;

    let mut bridge = Bridge::to(&url);
    bridge.initialize();
    bridge.send(call);
    assert_eq!(bridge.line(), question);
    bridge.send(r#"{"jsonrpc":"2.0","id":"q","result":{"x":1}}"#);
    let (answer, _) = bridge.answer(&json!(1));
    assert_eq!(answer["result"], "{'jsonrpc':'2.0','id':'q','result':{'x':1}}");

    // A client that leaves has its questions refused, so that its call can end.
    bridge.send(call);
    assert_eq!(bridge.line(), question);
    drop(bridge.stdin.take());
    let (answer, _) = bridge.answer(&json!(1));
    assert!(answer["result"].as_str().unwrap().contains("the client left"), "{answer}");
    assert_eq!(bridge.leave(), Some(0));
}
