//! One trace from the client through the gateway and a workflow to a server, as a collector receives it.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    sync::mpsc,
};

use serde_json::{Value, json};

use super::serve::Gateway;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CLIENT_SPAN: &str = "b7ad6b7169203331";

/// A server whose tool returns the trace context that it receives.
const ECHO: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "echo", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "context", "inputSchema": {"type": "object"}}]}
    else:
        text = (params.get("_meta") or {}).get("traceparent", "none")
        result = {"content": [{"type": "text", "text": text}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

/// A CLI whose tool fails.
const NOPE: &str =
    "name: nope\ncommand: 'false'\ntools: [{name: nope, description: Fails, command: ''}]\n";
const WORKFLOW: &str = "name: outer\nsteps: [{id: one, tool: workflow_inner, store: true}]\n";
const INNER: &str = "name: inner\nsteps: [{id: ask, tool: x_echo_context, store: true}]\n";

/// Receives what a gateway exports, and refuses what is not OTLP.
fn collector() -> (u16, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (spans, received) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
            }
            assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
            let header = |name: &str| {
                let line = head.lines().find_map(|line| line.strip_prefix(name));
                line.unwrap_or_else(|| panic!("no {name}: {head}")).trim().to_owned()
            };
            assert_eq!(header("content-type:"), "application/json");
            let mut body = vec![0; header("content-length:").parse().unwrap()];
            reader.read_exact(&mut body).unwrap();
            for span in spans_of(&serde_json::from_slice(&body).unwrap()) {
                drop(spans.send(span));
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (port, received)
}

/// The spans of an export, each of which must be complete.
fn spans_of(body: &Value) -> Vec<Value> {
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(body), ["resourceSpans"]);
    let resource = &body["resourceSpans"][0];
    assert_eq!(attributes(&resource["resource"])["service.name"], "muster");
    let scope = &resource["scopeSpans"][0];
    assert_eq!(scope["scope"]["name"], "muster");
    let spans = scope["spans"].as_array().unwrap().clone();
    for span in &spans {
        let is_hex = |key: &str, length: usize| {
            let text = span[key].as_str().unwrap();
            text.len() == length
                && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        };
        assert!(is_hex("traceId", 32) && is_hex("spanId", 16), "{span}");
        assert!(span["parentSpanId"].is_null() || is_hex("parentSpanId", 16), "{span}");
        let nanos = |key: &str| -> u64 { span[key].as_str().unwrap().parse().unwrap() };
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span}");
        assert!((1..=3).contains(&span["kind"].as_u64().unwrap()), "{span}");
        assert!(span["status"].is_object(), "{span}");
        let attributes = attributes(span);
        assert_eq!(attributes["mcp.method.name"], "tools/call", "{span}");
        assert_eq!(attributes["gen_ai.operation.name"], "execute_tool", "{span}");
        let name = format!("tools/call {}", attributes["gen_ai.tool.name"].as_str().unwrap());
        assert_eq!(span["name"], json!(name));
    }
    spans
}

fn attributes(of: &Value) -> BTreeMap<String, Value> {
    let list = of["attributes"].as_array().unwrap().iter();
    let pair = |attribute: &Value| {
        let value = attribute["value"].as_object().unwrap();
        assert_eq!(value.len(), 1, "{attribute}");
        let (kind, value) = value.iter().next().unwrap();
        // Whole numbers are texts in OTLP's JSON.
        assert!(["stringValue", "intValue"].contains(&kind.as_str()) && value.is_string());
        (attribute["key"].as_str().unwrap().to_owned(), value.clone())
    };
    list.map(pair).collect()
}

fn gateway(settings: &str) -> Gateway {
    logging_gateway(settings, &[]).0
}

/// The same with words of the command line, and what it logs.
fn logging_gateway(settings: &str, words: &[&str]) -> (Gateway, mpsc::Receiver<String>) {
    let script = serde_json::to_string(ECHO).unwrap();
    let server = format!("name: echo\ntype: stdio\ncommand: python3\nargs: [-c, {script}]\n");
    let config = format!("aggregator: {{port: 0}}\nclis: {{bundled: none}}\n{settings}");
    let files = [
        ("config.yaml", config.as_str()),
        ("mcpservers/echo.yaml", &server),
        ("clis/nope.yaml", NOPE),
        ("workflows/outer.yaml", WORKFLOW),
        ("workflows/inner.yaml", INNER),
    ];
    let (gateway, log) = Gateway::start_logging(&files, words);
    let session = gateway.session();
    // It returns when the server is up.
    gateway.call_tool(&session, "core_service_start", json!({"name": "echo"}));
    (gateway, log)
}

/// The gateway's answer to a call of `call_tool` with this `_meta`.
fn call(gateway: &Gateway, tool: &str, meta: Value) -> String {
    let session = gateway.session();
    let params =
        json!({"name": "call_tool", "arguments": {"name": tool, "arguments": {}}, "_meta": meta});
    gateway.ask(&session, "tools/call", params).to_string()
}

#[test]
fn a_trace_leads_from_the_client_to_the_server() {
    let (port, received) = collector();
    let gateway = gateway(&format!("traces: {{endpoint: 'http://127.0.0.1:{port}'}}\n"));
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let answer = call(&gateway, "workflow_outer", json!({"traceparent": parent, "own": 1}));
    let mut spans: BTreeMap<String, Value> = BTreeMap::new();
    while spans.len() < 4 {
        let span = received.recv().unwrap();
        if span["traceId"] == TRACE {
            spans.insert(span["name"].as_str().unwrap().to_owned(), span);
        }
    }
    let mut above = json!(CLIENT_SPAN);
    for (name, kind) in [
        ("tools/call call_tool", 2),
        ("tools/call workflow_outer", 1),
        ("tools/call workflow_inner", 1),
        ("tools/call x_echo_context", 3),
    ] {
        let span = &spans[name];
        assert_eq!((&span["parentSpanId"], &span["kind"]), (&above, &json!(kind)), "{name}");
        above = span["spanId"].clone();
    }
    // The client speaks HTTP in a session, and the server is a process.
    let [request, sent] = ["call_tool", "x_echo_context"]
        .map(|tool| attributes(&spans[&format!("tools/call {tool}")]));
    for (key, value) in [
        ("jsonrpc.request.id", "2"),
        ("mcp.protocol.version", "2025-11-25"),
        ("network.transport", "tcp"),
        ("network.protocol.name", "http"),
    ] {
        assert_eq!(request.get(key), Some(&json!(value)), "{key}");
    }
    assert_eq!(request["mcp.session.id"].as_str().unwrap().len(), 8, "no secret is exported");
    assert_eq!(sent["mcp.protocol.version"], "2025-11-25");
    assert_eq!(sent["network.transport"], "pipe");
    assert!(sent.contains_key("jsonrpc.request.id") && !sent.contains_key("server.address"));
    let nested = attributes(&spans["tools/call workflow_inner"]);
    assert!(!nested.contains_key("network.transport"), "a workflow is no request: {nested:?}");
    // The server was told the span of its own call.
    let told = format!("00-{TRACE}-{}-01", above.as_str().unwrap());
    assert!(answer.contains(&told), "{told}: {answer}");

    // A client that does not record its trace decides for the gateway; a failure is one in the next trace.
    call(&gateway, "x_echo_context", json!({"traceparent": parent.replace("-01", "-00")}));
    call(&gateway, "core_service_get", json!({}));
    let failed = loop {
        let span = received.recv().unwrap();
        assert_ne!(span["name"], "tools/call x_echo_context");
        if span["name"] == "tools/call core_service_get" {
            break span;
        }
    };
    assert_eq!(attributes(&failed)["error.type"], "tool_error");
    assert_eq!(failed["status"]["code"], 2);
}

#[test]
fn a_log_of_json_names_the_trace_of_a_call() {
    let (port, received) = collector();
    let settings = format!("traces: {{endpoint: 'http://127.0.0.1:{port}'}}\n");
    let (gateway, log) = logging_gateway(&settings, &["--log-format", "json"]);
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    call(&gateway, "x_echo_context", json!({"traceparent": parent}));
    let line = loop {
        let line: Value = serde_json::from_str(&log.recv().unwrap()).unwrap();
        let known = ["timestamp", "level", "target", "message"];
        assert!(known.iter().all(|key| line[key].is_string()), "{line}");
        if line["tool"] == "x_echo_context" {
            break line;
        }
    };
    assert_eq!(
        (&line["level"], &line["message"], &line["outcome"], &line["trace_id"]),
        (&json!("info"), &json!("call"), &json!("ok"), &json!(TRACE))
    );
    assert!(line["duration_ms"].is_u64(), "{line}");
    let span = loop {
        let span = received.recv().unwrap();
        if span["name"] == "tools/call x_echo_context" {
            break span;
        }
    };
    assert_eq!(line["span_id"], span["spanId"]);
}

#[test]
fn every_line_of_a_traced_call_names_its_trace() {
    let (port, received) = collector();
    let settings = format!("traces: {{endpoint: 'http://127.0.0.1:{port}'}}\n");
    let (gateway, log) = logging_gateway(&settings, &["--log-format", "json"]);
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    call(&gateway, "cli_nope", json!({"traceparent": parent}));
    // The line of the backend, not the one about the call.
    let line = loop {
        let line: Value = serde_json::from_str(&log.recv().unwrap()).unwrap();
        if line["message"].as_str().unwrap().contains("nope failed") {
            break line;
        }
    };
    let span = loop {
        let span = received.recv().unwrap();
        if span["name"] == "tools/call cli_nope" {
            break span;
        }
    };
    assert_eq!((&line["trace_id"], &line["span_id"]), (&json!(TRACE), &span["spanId"]));
}

#[test]
fn contexts_are_passed_on_without_a_collector() {
    let gateway = gateway("");
    let parent = format!("00-{TRACE}-{CLIENT_SPAN}-01");
    let answer = call(&gateway, "x_echo_context", json!({"traceparent": parent}));
    assert!(answer.contains(&parent), "{answer}");
    // The header of HTTP is the fallback.
    let session = gateway.session();
    let params =
        json!({"name": "call_tool", "arguments": {"name": "x_echo_context", "arguments": {}}});
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost:{}\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\nmcp-session-id: {session}\r\ntraceparent: {parent}",
        gateway.port
    );
    let (_, _, body) = gateway.request(&head, &message.to_string());
    assert!(body.contains(&parent), "{body}");
}
