//! The end of a gateway: what it finishes, what it cuts off, and what the next one resumes.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{client::Folder, serve::MUSTER};

/// A tool that waits until its pipe is written to.
const CLI: &str = "\
name: demo
command: sh -c
tools:
  - name: hold
    description: Waits
    args: [{name: script, positional: true, required: true}]
";

fn workflow(folder: &Folder) -> String {
    let script = format!("echo held >> {0}/log; cat {0}/pipe", folder.path().display());
    json!({"name": "twice", "steps": [
        {"id": "a", "tool": "cli_hold", "idempotent": true, "args": {"script": script}},
    ]})
    .to_string()
}

/// A gateway on a folder that outlives it.
struct Served {
    child: Child,
    port: u16,
    session: String,
}

fn folder(drain_timeout: u16) -> Folder {
    folder_with(&format!("port: 0, drainTimeout: {drain_timeout}"))
}

fn folder_with(aggregator: &str) -> Folder {
    let config = format!("aggregator: {{{aggregator}}}\nclis: {{bundled: none}}\n");
    let folder = Folder::new(&[("config.yaml", &config), ("log", "")]);
    for name in ["clis", "workflows"] {
        fs::create_dir(folder.file(name)).unwrap();
    }
    fs::write(folder.file("clis/demo.yaml"), CLI).unwrap();
    fs::write(folder.file("workflows/twice.yaml"), workflow(&folder)).unwrap();
    assert!(Command::new("mkfifo").arg(folder.file("pipe")).status().unwrap().success());
    folder
}

impl Served {
    fn start(folder: &Folder) -> Self {
        let mut child = Command::new(MUSTER)
            .args(["serve", "--config-path"])
            .arg(folder.path())
            .env("MUSTER_STATE_PATH", folder.file("state"))
            .env("MUSTER_ACCESS", "open")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        let said = lines.find(|line| line.contains(" listening on ")).unwrap();
        let port = said.rsplit_once(':').unwrap().1.trim_end_matches("/mcp").parse().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        let mut served = Self { child, port, session: String::new() };
        let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}});
        let answer = read(served.send(&initialize));
        let session = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        served.session = session.unwrap().to_owned();
        served
    }

    fn send(&self, message: &Value) -> TcpStream {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("mcp-session-id: {id}\r\n"),
        };
        let body = message.to_string();
        write!(
            stream,
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\nconnection: close\r\n{session}\
             content-length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        stream
    }

    fn begin(&self, tool: &str, arguments: &Value) -> TcpStream {
        let arguments = json!({"name": tool, "arguments": arguments});
        let params = json!({"name": "call_tool", "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}))
    }

    fn call(&self, tool: &str, arguments: &Value) -> String {
        read(self.begin(tool, arguments))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn exit_code(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits until the tool has been called so many times.
    fn until_held(&self, log: &Path, times: usize) {
        while fs::read_to_string(log).unwrap().lines().count() < times {
            self.call("core_stats", &json!({}));
        }
    }
}

fn read(mut stream: TcpStream) -> String {
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn held_script(folder: &Folder) -> Value {
    let script = format!("echo held >> {0}/log; cat {0}/pipe", folder.path().display());
    json!({"script": script})
}

#[test]
fn calls_in_flight_are_finished() {
    let folder = folder(600);
    let served = Served::start(&folder);
    let call = served.begin("cli_hold", &held_script(&folder));
    served.until_held(&folder.file("log"), 1);
    served.signal(Signal::TERM);
    fs::write(folder.file("pipe"), "the answer").unwrap();
    let answer = read(call);
    assert!(answer.contains("the answer"), "{answer}");
    assert_eq!(served.exit_code(), Some(0));
}

#[test]
fn a_second_signal_cuts_off_calls_and_they_are_answered() {
    for (first, second) in [
        (Signal::TERM, Signal::INT),
        (Signal::TERM, Signal::TERM),
        (Signal::INT, Signal::INT),
        (Signal::INT, Signal::TERM),
    ] {
        let folder = folder(600);
        let served = Served::start(&folder);
        let call = served.begin("cli_hold", &held_script(&folder));
        served.until_held(&folder.file("log"), 1);
        served.signal(first);
        // Two signals of one kind that are both pending are one.
        while TcpStream::connect(("127.0.0.1", served.port)).is_ok() {}
        served.signal(second);
        let answer = read(call);
        assert!(answer.contains("\"id\":2"), "{answer}");
        assert!(
            answer.contains("the gateway is shutting down and cut off this request"),
            "{answer}"
        );
        assert_eq!(served.exit_code(), Some(5), "{first:?}, {second:?}");
    }
}

#[test]
fn calls_that_outlast_the_drain_timeout_are_answered() {
    let folder = folder(0);
    let served = Served::start(&folder);
    let call = served.begin("cli_hold", &held_script(&folder));
    served.until_held(&folder.file("log"), 1);
    served.signal(Signal::TERM);
    let answer = read(call);
    assert!(answer.contains("the gateway is shutting down and cut off this request"), "{answer}");
    assert_eq!(served.exit_code(), Some(5));
}

#[test]
fn calls_over_pipes_are_finished_or_cut_off_and_answered() {
    let cut_off = "the gateway is shutting down and cut off this request";
    for (drain_timeout, signals, written, expected, code) in [
        (600, &[Signal::TERM][..], Some("the answer"), "the answer", 0),
        (600, &[Signal::TERM, Signal::INT], None, cut_off, 5),
        (0, &[Signal::TERM], None, cut_off, 5),
    ] {
        let folder = folder_with(&format!("transport: stdio, drainTimeout: {drain_timeout}"));
        let words = ["serve", "--silent", "--config-path", ".", "--state-path", "state"];
        let mut client = folder.serve_by(MUSTER, &words);
        client.initialize();
        let call = |tool: &str, arguments: Value| json!({"name": "call_tool", "arguments": {"name": tool, "arguments": arguments}});
        let held = client.send("tools/call", call("cli_hold", held_script(&folder)));
        while fs::read_to_string(folder.file("log")).unwrap().is_empty() {
            let asked = client.send("tools/call", call("core_stats", json!({})));
            client.receive_answer_line(asked);
        }
        for signal in signals {
            kill_process(Pid::from_child(&client.child), *signal).unwrap();
        }
        if let Some(text) = written {
            fs::write(folder.file("pipe"), text).unwrap();
        }
        let answer = client.receive_answer_line(held);
        assert!(answer.contains(expected), "{answer}");
        assert_eq!(client.child.wait().unwrap().code(), Some(code), "{drain_timeout}");
    }
}

#[test]
fn a_workflow_that_is_cut_off_is_resumed_by_the_next_gateway() {
    let folder = folder(0);
    let log = folder.file("log");
    let served = Served::start(&folder);
    let run = served.begin("workflow_twice", &json!({}));
    served.until_held(&log, 1);
    served.signal(Signal::TERM);
    let answer = read(run);
    assert!(answer.contains("the gateway is shutting down"), "{answer}");
    assert_eq!(served.exit_code(), Some(5));
    let executions = folder.file("state/workflow_executions");
    let records: Vec<_> = fs::read_dir(&executions)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "yaml"))
        .collect();
    let [record] = &records[..] else { panic!("{records:?}") };
    let text = fs::read_to_string(record).unwrap();
    assert!(text.contains("\"interrupted\"") && !text.contains("caller"), "{text}");
    let id = record.file_stem().unwrap().to_str().unwrap();

    let served = Served::start(&folder);
    served.until_held(&log, 2);
    let get = json!({"execution_id": id});
    let running = served.call("core_workflow_execution_get", &get);
    assert!(running.contains("inprogress"), "{running}");
    fs::write(folder.file("pipe"), "done").unwrap();
    while !served.call("core_workflow_execution_get", &get).contains("completed") {}
    assert_eq!(fs::read_to_string(log).unwrap(), "held\nheld\n");
    served.signal(Signal::TERM);
    assert_eq!(served.exit_code(), Some(0));
}
