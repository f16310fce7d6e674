//! Clients that take all they can get: connections, sessions, time. Through the real binary.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::serve::Gateway;

/// How long an answer may take beside an attack.
const SOON: Duration = Duration::from_secs(5);

fn health(gateway: &Gateway) {
    let mut stream = TcpStream::connect(("127.0.0.1", gateway.port)).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

const HALF_A_HEAD: &str = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-";
const HALF_A_BODY: &str = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                           accept: application/json, text/event-stream\r\ncontent-length: 9\r\n\r\n{";
const STREAM: &str = "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";

/// Clients that send these and then nothing, more than a gateway with the limits of a shell script has descriptors.
fn crowd(script: &str, sent: &[&str]) -> Gateway {
    let gateway = Gateway::start_by(script, &[]);
    let session = gateway.session();
    let mut held = Vec::new();
    for text in sent.iter().cycle().take(600) {
        let mut stream = TcpStream::connect(("127.0.0.1", gateway.port)).unwrap();
        // The gateway may have closed it already, to make room.
        drop(stream.write_all(text.as_bytes()));
        held.push(stream);
    }
    health(&gateway);
    let answer = gateway.call_tool(&session, "core_service_list", json!({}));
    assert_eq!(answer["isError"], false, "{answer}");
    gateway
}

#[test]
fn half_sent_requests_and_idle_streams_keep_nobody_out() {
    let gateway = crowd("ulimit -Sn 256 && exec \"$0\" \"$@\"", &[HALF_A_HEAD, STREAM]);
    let limits = fs::read_to_string(format!("/proc/{}/limits", gateway.child.id())).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let numbers: Vec<&str> = line.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "the soft limit is raised to the hard one");
    // Where there are fewer descriptors than connections, idle ones make room.
    for sent in [&[HALF_A_HEAD, STREAM][..], &[HALF_A_BODY]] {
        crowd("ulimit -n 256 && exec \"$0\" \"$@\"", sent);
    }
}

#[test]
fn a_flood_of_sessions_does_not_end_those_in_use() {
    let gateway = Gateway::start(&[], &[]);
    let session = gateway.session();
    gateway.ask(&session, "ping", json!({}));
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "flood", "version": "1"}}});
    let body = body.to_string();
    let request = format!("{}\r\ncontent-length: {}\r\n\r\n{body}", gateway.head(None), body.len());
    let stream = TcpStream::connect(("127.0.0.1", gateway.port)).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let (mut writer, batch) = (stream, request.repeat(10));
    let mut opened = 0;
    // More than the gateway keeps.
    for _ in 0..1_010 {
        writer.write_all(batch.as_bytes()).unwrap();
        for _ in 0..10 {
            let mut length = 0;
            loop {
                let mut line = String::new();
                answers.read_line(&mut line).unwrap();
                let line = line.to_lowercase();
                opened += usize::from(line.starts_with("mcp-session-id:"));
                if let Some(value) = line.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            answers.read_exact(&mut vec![0; length]).unwrap();
        }
    }
    assert_eq!(opened, 10_100);
    gateway.ask(&session, "ping", json!({}));
}

#[test]
fn paths_and_patterns_end_in_time() {
    let items: Vec<Value> =
        (0..20_000).map(|id| json!({"id": id, "name": format!("item {id} ab")})).collect();
    let data = json!({"items": items}).to_string();
    let long = format!("[{}]", json!({"name": "ab".repeat(400_000)}));
    let cli = "name: demo\ncommand: cat\ntools:\n  \
               - {name: demo_read, description: Reads, effect: read, \
                  args: [{name: file, positional: true, required: true}]}\n";
    let files = [("clis/demo.yaml", cli), ("data.json", &data), ("long.json", &long)];
    let gateway = Gateway::start(&files, &[]);
    let session = gateway.session();
    let stored = |file: &str| {
        let file = gateway.folder.file(file);
        let params = json!({"name": "call_tool", "arguments": {"name": "cli_demo_read",
            "max_tokens": 500, "arguments": {"file": file}}});
        let answer = gateway.ask(&session, "tools/call", params).to_string();
        let at = answer.find("out_").unwrap_or_else(|| panic!("{answer}"));
        let handle = answer
            .get(at..)
            .unwrap_or_default()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_');
        handle.collect::<String>()
    };
    let (many, long) = (stored("data.json"), stored("long.json"));
    for (handle, arguments) in [
        (&many, json!({"path": "$.items[?$.items[?@.id==-1]]"})),
        (&many, json!({"path": "$.items[?count($..*) > 3]"})),
        (&many, json!({"path": "$..*..*..*..*..*"})),
        (&many, json!({"path": "$.items[*]..*..*..*..*..*", "grep": "x"})),
        (&many, json!({"path": "$.items[?match(@.name, '\\\\w{500}\\\\w{500}')]"})),
        (&many, json!({"path": "$.items[?match(@.name, @.name)]"})),
        (&many, json!({"path": "$.items[?search(@.name, '(a|b)*a(a|b){20}')]"})),
        (&long, json!({"path": "$[?search(@.name, '(a|b)*a(a|b){200}z')]"})),
        (&long, json!({"grep": "(a|b)*a(a|b){200}z"})),
        (&long, json!({"grep": "(?:(?:a|b|ab)*){50}z"})),
        (&many, json!({"grep": "(((a{100}){100}){100}){100}"})),
    ] {
        let mut arguments = arguments;
        arguments["handle"] = json!(handle);
        let params = json!({"name": "get_output", "arguments": arguments});
        let began = Instant::now();
        std::thread::scope(|scope| {
            let attack = scope.spawn(|| gateway.ask(&session, "tools/call", params.clone()));
            health(&gateway);
            attack.join().unwrap();
        });
        // Each has ten seconds of processor time, and the gateway is not alone.
        assert!(began.elapsed() < Duration::from_secs(90), "{params}: {:?}", began.elapsed());
    }
}
