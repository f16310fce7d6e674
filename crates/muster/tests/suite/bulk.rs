//! Results of MCP servers that are too long for memory, through the real binary.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{client::Folder, serve::Gateway};

/// A server whose results are long: on its pipes, or on a port of its own.
const SERVER: &str = r#"
import http.server, json, sys

LINE = "line %s \\u00e9\\\"quoted\\\"" + "." * 998 + "\\n"

def pieces(arguments):
    "The result in pieces; `size` is in blocks of 1 MiB."
    size, kind = arguments["size"], arguments["kind"]
    if kind == "text":
        # Lines of 1 KiB with escapes in each; the first of a block has its number.
        rest = LINE % "---------" * 1023
        yield '{"_meta":{"own":1},"content":[{"type":"text","text":"'
        for block in range(size):
            yield LINE % ("%09d" % block) + rest
        yield 'the end\\n"}],"isError":false}'
    elif kind == "image":
        block = "QUJD" * (1 << 18)
        yield '{"content":[{"mimeType":"image/png","type":"image","data":"'
        for _ in range(size):
            yield block
        yield '"}]}'
    elif kind == "media":
        yield '{"content":[{"type":"text","text":"{\\"n\\":%d}"},' % size
        yield '{"type":"image","data":"QUJD","mimeType":"image/png","_meta":{"n":%d}},' % size
        yield '{"type":"audio","data":"REVG","mimeType":"audio/wav"}]}'
    elif kind == "rows":
        block = '{"id":1,"x":[2]},' * (1 << 16)
        yield '{"isError":true,"content":[],"structuredContent":{"rows":['
        for _ in range(size):
            yield block
        yield '{"id":"last"}]}}'
    elif kind == "twice":
        block = '{"id":1,"x":[2]},' * (1 << 16)
        yield '{"structuredContent":{"rows":['
        for _ in range(size):
            yield block
        yield '3]},"content":[{"type":"text","text":"{\\n\\"rows\\": ['
        for _ in range(size):
            yield block.replace('"', '\\"')
        yield '3]}"}]}'

ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
         "serverInfo": {"name": "long", "version": "1"}}

def answer(message):
    "A whole message in pieces."
    method = message["method"]
    yield '{"jsonrpc":"2.0","id":%s,' % json.dumps(message["id"])
    if method == "initialize":
        yield '"result":' + json.dumps(ABOUT)
    elif method == "tools/list":
        schema = {"type": "object"}
        yield '"result":' + json.dumps({"tools": [{"name": "long", "inputSchema": schema}]})
    elif method == "tools/call":
        yield '"result":'
        yield from pieces(message["params"]["arguments"])
    else:
        yield '"error":{"code":-32601,"message":"no such method"}'
    yield '}'

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            self.send_response(202)
            self.send_header("content-length", "0")
            return self.end_headers()
        events = message.get("params", {}).get("arguments", {}).get("events")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if events else "application/json")
        self.end_headers()
        if events:
            self.wfile.write(b"id: 1\ndata: ")
        for piece in answer(message):
            self.wfile.write(piece.encode())
        if events:
            self.wfile.write(b"\n\n")

    def do_GET(self):
        self.send_error(405)

    def log_message(self, *args):
        pass

if len(sys.argv) > 1:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        for piece in answer(message):
            sys.stdout.write(piece)
        print(flush=True)
"#;

const MIB: u64 = 1 << 20;

/// Of its steps the first is visible, the second is not, and the third is the last.
const WORKFLOW: &str = "\
steps:
  - {id: a, tool: x_s_long, args: {kind: media, size: 1}, output: true}
  - {id: b, tool: x_s_long, args: {kind: media, size: 2}}
  - {id: c, tool: x_s_long, args: {kind: media, size: 3}}
";

/// A gateway with one server behind it that is called `s`.
struct World {
    gateway: Gateway,
    session: String,
    _folder: Folder,
    web: Option<Child>,
}

impl World {
    fn with_pipes() -> Self {
        let folder = Folder::new(&[("server.py", SERVER)]);
        let script = folder.file("server.py");
        let file = json!({"type": "stdio", "command": "python3", "args": [script]});
        Self::new(folder, file, None)
    }

    fn with_web() -> Self {
        let folder = Folder::new(&[("server.py", SERVER)]);
        let mut web = Command::new("python3");
        let mut web =
            web.arg(folder.file("server.py")).arg("web").stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(web.stdout.take().unwrap()).read_line(&mut port).unwrap();
        let url = format!("http://127.0.0.1:{}/mcp", port.trim());
        Self::new(folder, json!({"type": "streamable-http", "url": url}), Some(web))
    }

    fn new(folder: Folder, mut file: Value, web: Option<Child>) -> Self {
        file["autoStart"] = json!(false);
        let files = [("mcpservers/s.yaml", &*file.to_string()), ("workflows/media.yaml", WORKFLOW)];
        let gateway = Gateway::start(&files, &[]);
        let session = gateway.session();
        let started = gateway.call_tool(&session, "core_service_start", json!({"name": "s"}));
        assert_eq!(started["isError"], false, "{started}");
        Self { gateway, session, _folder: folder, web }
    }

    fn call(&self, arguments: Value) -> Value {
        self.gateway.call_tool(&self.session, "x_s_long", arguments)
    }

    /// What `get_output` gives of a kept answer.
    fn look(&self, answer: &Value, mut arguments: Value) -> String {
        arguments["handle"] = answer["_meta"]["muster/output"]["handle"].clone();
        let params = json!({"name": "get_output", "arguments": arguments});
        let answer = self.gateway.ask(&self.session, "tools/call", params);
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Fails if the gateway has ever had more in memory than it should.
    #[track_caller]
    fn check_memory(&self) {
        let most = self.gateway.peak_memory();
        assert!(most < 40 * 1024, "{most} kB");
    }

    /// Calls for a long text and looks at it in several ways.
    #[track_caller]
    fn check_text(&self, size: u64, events: bool) {
        let answer = self.call(json!({"kind": "text", "size": size, "events": events}));
        let about = &answer["_meta"]["muster/output"];
        assert_eq!(about["kind"], "text", "{answer}");
        assert_eq!(about["bytes"], size * MIB + 8);
        assert_eq!(answer["_meta"]["own"], 1, "{answer}");
        let shown = answer["content"][0]["text"].as_str().unwrap();
        assert!(shown.starts_with(&line("000000000")) && shown.contains("\nthe end"), "{shown}");
        assert_eq!(self.look(&answer, json!({"count": true})), (size * 1024 + 1).to_string());
        assert_eq!(self.look(&answer, json!({"tail": 2})), format!("{}the end", line("---------")));
        for block in [1, size / 2, size - 1] {
            let page = self.look(&answer, json!({"offset": block * MIB, "limit": 2}));
            let expect = format!("{}{}", line(&format!("{block:09}")), line("---------"));
            assert!(page.starts_with(&expect), "{page}");
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(web) = &mut self.web {
            drop(web.kill());
            drop(web.wait());
        }
    }
}

/// A line of the long text.
fn line(number: &str) -> String {
    format!("line {number} é\"quoted\"{}\n", ".".repeat(998))
}

#[test]
fn a_text_of_a_process_is_kept_and_hardly_touches_memory() {
    let world = World::with_pipes();
    world.check_text(191, false);
    world.check_memory();
}

#[test]
fn a_text_over_http_is_kept_and_hardly_touches_memory() {
    let world = World::with_web();
    world.check_text(96, false);
    world.check_text(96, true);
    world.check_memory();
}

#[test]
fn binary_data_and_structure_are_kept_as_what_they_are() {
    let world = World::with_pipes();
    let image = world.call(json!({"kind": "image", "size": 70}));
    let about = &image["_meta"]["muster/output"];
    assert_eq!((&about["kind"], &about["mimeType"]), (&json!("binary"), &json!("image/png")));
    assert_eq!(about["blocks"][0]["dataSize"], 70 * MIB);
    let refused = world.look(&image, json!({}));
    assert!(refused.contains("bytes, and a reply at most 64 MiB"), "{refused}");

    let rows = world.call(json!({"kind": "rows", "size": 8}));
    assert_eq!(rows["isError"], true, "{rows}");
    assert_eq!(rows["_meta"]["muster/output"]["kind"], "json");
    let shown = rows["content"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with(r#"{"rows":[{"id":1,"x":[2]},{"id":1,"x":[2]},"#), "{shown}");
    assert!(shown.contains(r#""… 524289 items in all, "#), "{shown}");
    let all = "$.rows";
    assert_eq!(world.look(&rows, json!({"path": all, "tail": 1})), "{\"id\":\"last\"}\n");
    let found = world.look(&rows, json!({"path": all, "grep": "last"}));
    assert_eq!(found, "524289: {\"id\":\"last\"}\n");
    assert_eq!(world.look(&rows, json!({"path": all, "count": true})), "524289");
    let last = format!("{all}[524288].id");
    assert!(world.look(&rows, json!({"path": last})).starts_with("last"));
    assert_eq!(
        world.look(&rows, json!({"path": "$.rows[*].id", "grep": "last"})),
        "524289: last\n"
    );

    // Structure that is also given as text is kept once.
    let twice = world.call(json!({"kind": "twice", "size": 3}));
    let about = &twice["_meta"]["muster/output"];
    assert_eq!((&about["kind"], &about["bytes"]), (&json!("json"), &json!(3 * 17 * 65536 + 14)));
    world.check_memory();
}

#[test]
fn pictures_and_sound_of_steps_are_blocks_of_the_workflows_result() {
    let world = World::with_pipes();
    let params = json!({"name": "call_tool", "arguments": {"name": "workflow_media"}});
    let answer = world.gateway.ask(&world.session, "tools/call", params);
    let content = answer["result"]["content"].as_array().unwrap();
    let kinds: Vec<&str> = content.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["text", "image", "audio", "image", "audio"], "{answer}");
    let picture = |n: u64| json!({"type": "image", "data": "QUJD", "mimeType": "image/png", "_meta": {"n": n}});
    assert_eq!((&content[1], &content[3]), (&picture(1), &picture(3)));
    // The envelope stays text, with the values of the steps and without the data of the blocks.
    let envelope = content[0]["text"].as_str().unwrap();
    let inner: Value = serde_json::from_str(envelope).unwrap();
    let value: Value = serde_json::from_str(inner["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(value["steps"][0]["result"], json!({"n": 1}));
    assert_eq!((&value["n"], value["execution_id"].is_string()), (&json!(3), true), "{value}");
    assert!(!envelope.contains("QUJD"), "{envelope}");
}
