//! What passes through is not altered: tool lists of real servers, and results nobody foresaw.

use std::{
    env, fs,
    io::{Write, stderr},
    path::{Path, PathBuf},
};

use muster_core::json::RawObject;
use serde_json::{json, value::RawValue};

use super::client::{Client, Folder};

/// A server that lists what a file holds, and answers a call with the argument `result` as written.
const REPLAY: &str = r#"
import json, sys
tools = open(sys.argv[1], encoding="utf-8").read().strip()
beside = sys.argv[2] if len(sys.argv) > 2 else ""
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    if method == "initialize":
        result = json.dumps({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "replay", "version": "1"}})
    elif method == "tools/list":
        result = '{"tools":' + tools + beside + '}'
    elif method == "tools/call":
        result = message["params"]["arguments"]["result"]
    else:
        error = json.dumps({"code": -32601, "message": "no such method"})
        print('{"jsonrpc":"2.0","id":%s,"error":%s}' % (json.dumps(message["id"]), error), flush=True)
        continue
    print('{"jsonrpc":"2.0","id":%s,"result":%s}' % (json.dumps(message["id"]), result), flush=True)
"#;

const ODD_TOOLS: &str = r#"[
{"name":"odd","inputSchema":{"type":"object","properties":{"result":{"type":"string"}},"x-vendor":[1.0,1e2]},"vendor":{"deep":[null,{}]},"annotations":{"category":"x","readOnlyHint":true}},
{"execution":{"taskSupport":"optional"},"name":"late name","description":"naïve \u00e9 \"quoted\"","inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","oneOf":[{"type":"object"}],"type":"object"}},
{"name":"numbers","inputSchema":{"type":"object","maximum":123456789012345678901234567890,"minimum":-0.0},"icons":[{"src":"x"}],"outputSchema":true}
]"#;

/// Results that a typed client would change or refuse.
const ODD_RESULTS: [&str; 7] = [
    r#"{"content":[{"type":"hologram","voxels":[1,2]},{"type":"text","text":"a","vendor":true}]}"#,
    r#"{"z":1,"a":2,"content":[]}"#,
    r#"{"content":[],"structuredContent":{"n":[12345678901234567890123,1.0,-0,0.1000000000000000055]}}"#,
    r#"{"content":[{"type":"resource_link","uri":"x"}],"_meta":{"v/x":{"deep":[[[]]]}}}"#,
    r#"{"content":[{"type":"text","text":"\u00e9\ud83d\ude00/\/"}],"isError":true}"#,
    r#"{"content":[{"type":"image","data":"AAAA","mimeType":"image/x-odd"},{"type":"audio","data":"","mimeType":""}]}"#,
    r#"{"content":[{"type":"resource","resource":{"uri":"a:b","blob":"AA==","annotations":{"priority":1}}}]}"#,
];

fn behind(list: &str, words: &[&str]) -> (Folder, Client) {
    let folder = Folder::new(&[("replay.py", REPLAY), ("tools.json", list)]);
    let entry = json!({"mcpServers": {"replay": {"command": "python3",
        "args": [folder.file("replay.py"), folder.file("tools.json")]}}});
    fs::write(folder.file("mcp.json"), entry.to_string()).unwrap();
    let words: Vec<&str> = ["run", "mcp.json"].iter().chain(words).copied().collect();
    let client = folder.serve(&words);
    (folder, client)
}

fn items(text: &str) -> Vec<Box<RawValue>> {
    serde_json::from_str(text).unwrap()
}

fn listed(client: &mut Client) -> Vec<String> {
    client.initialize();
    let id = client.send("tools/list", json!({}));
    let line: Box<RawValue> = serde_json::from_str(&client.receive_answer_line(id)).unwrap();
    let answer = RawObject::parse(&line).unwrap();
    let result = RawObject::parse(answer.get("result").unwrap()).unwrap();
    items(result.get("tools").unwrap().get()).iter().map(|tool| tool.get().to_owned()).collect()
}

#[track_caller]
fn check_list(name: &str, list: &str) {
    // The stand-in server writes one line, so its list must be one too.
    let list: String = list.lines().collect();
    let (_folder, mut client) = behind(&list, &["--classic"]);
    let expected: Vec<String> = items(&list).iter().map(|tool| tool.get().to_owned()).collect();
    assert_eq!(listed(&mut client), expected, "{name}");
}

#[test]
fn tools_are_listed_as_their_server_wrote_them() {
    check_list("odd", ODD_TOOLS);
}

#[test]
fn lists_of_real_servers_pass_unaltered() {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let corpus = env::var_os("MUSTER_SHARED").map_or_else(beside, PathBuf::from).join("corpus");
    if !corpus.exists() {
        // Past libtest's capture: `scripts/test` counts these lines.
        let test = "lists_of_real_servers_pass_unaltered";
        writeln!(stderr(), "skipped: {test}: {} does not exist", corpus.display()).unwrap();
        return;
    }
    let mut checked = 0;
    for file in fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|ext| ext == "json") {
            let text = fs::read_to_string(&file).unwrap();
            let document: Box<RawValue> = serde_json::from_str(&text).unwrap();
            let message = RawObject::parse(&document).unwrap();
            let result = RawObject::parse(message.get("result").unwrap()).unwrap();
            check_list(&file.display().to_string(), result.get("tools").unwrap().get());
            checked += 1;
        }
    }
    assert!(checked > 0, "the collection is empty");
}

#[test]
fn results_pass_byte_by_byte() {
    let (_folder, mut client) = behind(&ODD_TOOLS.replace('\n', ""), &["--classic"]);
    listed(&mut client);
    for result in ODD_RESULTS {
        let id = client.send("tools/call", json!({"name": "odd", "arguments": {"result": result}}));
        let line = client.receive_answer_line(id);
        assert_eq!(line, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"));
    }
}

/// The result of `tools/list` in classic mode, with servers that send these members beside their tools.
fn listed_beside(beside: &[&str]) -> String {
    let folder = Folder::new(&[("replay.py", REPLAY), ("tools.json", "[]")]);
    let servers = beside.iter().enumerate().map(|(number, beside)| {
        let tools = folder.file(&format!("{number}.json"));
        fs::write(&tools, format!(r#"[{{"name":"t{number}"}}]"#)).unwrap();
        let args = json!([folder.file("replay.py"), tools, beside]);
        (format!("s{number}"), json!({"command": "python3", "args": args}))
    });
    let servers: serde_json::Map<_, _> = servers.collect();
    fs::write(folder.file("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
    let mut client = folder.serve(&["run", "mcp.json", "--classic"]);
    client.initialize();
    let id = client.send("tools/list", json!({}));
    let line = client.receive_answer_line(id);
    let (_, after) = line.split_once(r#""tools":["#).unwrap();
    after.split_once(']').unwrap().1.trim_end().to_owned()
}

#[test]
fn members_beside_the_tools_pass_if_one_server_has_them() {
    let vendor = r#","_meta":{"v/x":[1.0,{"k":null}]},"vendor":{"z":1e2}"#;
    assert_eq!(listed_beside(&[vendor]), format!("{vendor}}}}}"));
    assert_eq!(listed_beside(&[vendor, ""]), format!("{vendor}}}}}"));
    assert_eq!(listed_beside(&[vendor, r#","other":1"#]), "}}");
}

/// A message of this size is not held in memory while it comes in.
#[test]
fn so_do_results_that_were_on_disk() {
    let (_folder, mut client) = behind(&ODD_TOOLS.replace('\n', ""), &["--classic"]);
    listed(&mut client);
    let text = r"é\ud83d\ude00\/\u00e9 ".repeat(100_000);
    let result = format!(r#"{{ "z":1.0,"content" : [{{"type":"text","text":"{text}"}}] }}"#);
    let id = client.send("tools/call", json!({"name": "odd", "arguments": {"result": result}}));
    let line = client.receive_answer_line(id);
    assert!(line == format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n"));
}
