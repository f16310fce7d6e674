//! What clients of either era see on the wire.

use expect_test::expect;
use serde_json::{Value, json};

use super::client::{Client, Folder};

const DEMO: &str = "\
name: demo
command: printf
category: test
tools:
  - name: show
    description: Prints a word
    command: '[%s]'
    args:
      - {name: word, positional: true, required: true}
      - {name: times, type: integer, flag: -n}
  - name: fail
    description: Prints nothing and fails
    command: ''
";

fn demo() -> (Folder, Client) {
    let folder = Folder::new(&[("demo.yaml", DEMO)]);
    let client = folder.serve(&["demo.yaml"]);
    (folder, client)
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    });
    params
}

#[test]
fn legacy_handshake_and_calls() {
    let (_folder, mut client) = demo();
    let answer = client.initialize();
    expect![[r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"demo","version":"0.1.0"},"instructions":"Find a tool and its input schema with climax_search {\"query\": words of the task}, then run it with climax_call {\"tool_name\", \"args\"}. Pass max_tokens to either to keep answers short: a longer result is kept and ends with a handle; read it with climax_call {\"tool_name\": \"get_output\", \"args\": {\"handle\", \"grep\" or \"path\" or \"line\" or \"tail\"}}."}"#]]
    .assert_eq(&answer["result"].to_string());
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    let tools = client.ask("tools/list", json!({}));
    let names: Vec<_> =
        tools["result"]["tools"].as_array().unwrap().iter().map(|t| &t["name"]).collect();
    assert_eq!(names, ["climax_search", "climax_call"]);
    assert_eq!(tools["result"].get("resultType"), None);
    let result = client.climax_call("show", json!({"word": "a b; $HOME"}));
    assert_eq!(
        result,
        json!({"content": [{"type": "text", "text": "[a b; $HOME]"}], "isError": false})
    );
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn modern_requests_need_no_handshake() {
    let (_folder, mut client) = demo();
    let discovered = client.ask("server/discover", modern(json!({})));
    expect![[r#"{"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"],"capabilities":{"tools":{"listChanged":false}},"instructions":"Find a tool and its input schema with climax_search {\"query\": words of the task}, then run it with climax_call {\"tool_name\", \"args\"}. Pass max_tokens to either to keep answers short: a longer result is kept and ends with a handle; read it with climax_call {\"tool_name\": \"get_output\", \"args\": {\"handle\", \"grep\" or \"path\" or \"line\" or \"tail\"}}.","resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"0.1.0"}}}"#]]
    .assert_eq(&discovered["result"].to_string());
    let tools = client.ask("tools/list", modern(json!({})));
    assert_eq!(tools["result"]["resultType"], "complete");
    assert_eq!(tools["result"]["cacheScope"], "private");
    let params = modern(
        json!({"name": "climax_call", "arguments": {"tool_name": "show", "args": {"word": "x"}}}),
    );
    let result = client.ask("tools/call", params)["result"].take();
    assert_eq!(result["content"][0]["text"], "[x]");
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result.get("ttlMs"), None);
}

#[test]
fn eras_may_alternate_on_one_connection() {
    let (_folder, mut client) = demo();
    client.ask("server/discover", modern(json!({})));
    client.initialize();
    let modern_list = client.ask("tools/list", modern(json!({})));
    let legacy_list = client.ask("tools/list", json!({}));
    assert_eq!(modern_list["result"]["tools"], legacy_list["result"]["tools"]);
}

#[test]
fn refusals_say_why() {
    let (_folder, mut client) = demo();
    let mut check = |method: &str, params: Value, code: i64, words: &str| {
        let answer = client.ask(method, params);
        assert_eq!(answer["error"]["code"], code, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(words), "{answer}");
    };
    check("nope", json!({}), -32601, "nope");
    check("ping", modern(json!({})), -32601, "ping");
    check("tools/call", json!({}), -32602, "`name`");
    check("tools/call", json!({"name": "climax_call", "arguments": []}), -32602, "`arguments`");
    check(
        "tools/list",
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}),
        -32602,
        "clientCapabilities",
    );
    check(
        "tools/list",
        json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}),
        -32022,
        "Unsupported protocol version",
    );
}

#[test]
fn what_is_no_message_is_answered_and_survived() {
    let (_folder, mut client) = demo();
    for (line, code) in [("nonsense", -32700), ("[]", -32600), (r#"{"id":1}"#, -32600)] {
        client.send_line(line);
        let answer = client.receive();
        assert_eq!(answer["error"]["code"], code);
        assert_eq!(answer["id"], Value::Null);
    }
    client.send_line("");
    client.send_line(r#"{"jsonrpc":"2.0","method":"notifications/what"}"#);
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn ids_come_back_as_they_were_sent() {
    let (_folder, mut client) = demo();
    for id in ["123456789012345678901234567890", r#""a\u0062""#, "-7"] {
        client.send_line(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
        assert_eq!(
            client.receive_line(),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n")
        );
    }
}

#[test]
fn a_wrong_call_can_be_put_right_in_one_turn() {
    let (_folder, mut client) = demo();
    client.initialize();
    let result = client.climax_call("shw", json!({}));
    assert_eq!(result["isError"], true);
    assert_eq!(result["content"][0]["text"], "Unknown tool: shw");
    assert_eq!(result["structuredContent"]["did_you_mean"], json!(["show"]));

    let result = client.climax_call("show", json!({"wrod": "x", "times": "many"}));
    expect![[r"
        Argument validation failed:
          - Missing required argument 'word'
          - Argument 'times': cannot convert 'many' to integer"]]
    .assert_eq(result["content"][0]["text"].as_str().unwrap());
    let help = &result["structuredContent"];
    assert_eq!(help["hint"], "there is no argument `wrod`; did you mean `word`?");
    assert_eq!(help["input_schema"]["required"], json!(["word"]));
}

#[test]
fn classic_mode_lists_and_calls_directly() {
    let folder = Folder::new(&[("demo.yaml", DEMO)]);
    let mut client = folder.serve(&["demo.yaml", "--classic"]);
    client.initialize();
    let tools = client.ask("tools/list", json!({}));
    expect![[r#"{"name":"show","description":"Prints a word","inputSchema":{"type":"object","properties":{"word":{"type":"string"},"times":{"type":"integer"}},"required":["word"]}}"#]]
    .assert_eq(&tools["result"]["tools"][0].to_string());
    assert_eq!(client.call("show", json!({"word": "x"}))["content"][0]["text"], "[x]");
    let refused = client.call("show", json!({"word": 5}));
    assert_eq!(refused["content"][0]["text"], "Input validation error: 5 is not of type 'string'");
    assert_eq!(refused["isError"], true);
}
