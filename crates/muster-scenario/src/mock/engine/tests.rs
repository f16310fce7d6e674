//! Responses, faults and changes of a mock.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};

use super::{MockChange, MockServer};
use crate::{
    load,
    mock::{
        MockConfig,
        config::tool_from_json,
        fault::{Fault, FaultKind},
    },
    wire::Message,
};

const TOOLS: &str = r#"
name: m
category: behavioral
concept: mcpserver
steps: [{id: a, tool: b}]
pre_configuration:
  mcp_servers:
    - name: m
      config:
        tools:
          - name: scale
            description: Change replica count
            input_schema:
              type: object
              properties:
                app: {type: string}
                count: {type: integer, default: 2}
            responses:
              - condition: {app: broken}
                error: "cannot scale {{ .app }}"
              - condition: {app: slow, count: 3}
                delay: 300ms
                response: {ok: true}
              - condition: {app: lost}
                response: {b: "{{ gone }}"}
              - condition: {app: bad-error}
                error: "no {{ gone }}"
              - condition: {app: flaky}
                fault: {kind: reset, times: 1}
                response: fine
              - response: {z: 1.0, app: "{{ .app }}", count: "{{ count }}", note: [x, 5]}
          - name: plain
            responses: [{response: "hello {{ who }}"}]
          - name: only-conditions
            responses: [{condition: {a: 1}, response: first}, {condition: {a: 2}, response: second}]
          - name: empty
            responses: [{}]
          - name: number
            responses: [{response: 5}]
          - name: rich
            responses:
              - condition: {how: failed}
                is_error: true
                response: "no {{ what }}"
              - content: [{type: text, text: "a {{ what }}"}, {type: image, mimeType: image/png, data: aGk=}]
                structured_content: {what: "{{ what }}", parts: 2}
          - name: silent
        resources:
          - {uri: "memo://today", name: today, mimeType: text/plain, text: water the plants}
        resource_templates: [{uriTemplate: "memo://{day}", name: memo}]
        prompts:
          - name: greet
            description: Say hello
            arguments: [{name: who, required: true}]
            messages: [{role: user, content: {type: text, text: "hello {{ who }}"}}]
"#;

fn config() -> MockConfig {
    let loaded = load::parse(Path::new("m.yaml"), TOOLS);
    let scenario = loaded.scenario.unwrap_or_else(|| panic!("{:?}", loaded.problems));
    scenario.setup.mcp_servers[0].mock().unwrap().clone()
}

#[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
fn call(mock: &MockServer, tool: &str, args: Value) -> super::PlannedReply {
    let params = json!({"name": tool, "arguments": args});
    let message = Message::Request { id: json!(1), method: "tools/call".to_owned(), params };
    mock.handle(message).unwrap().1
}

#[track_caller]
fn check(tool: &str, args: Value, expect: &str) {
    let plan = call(&MockServer::new("m", &config()), tool, args);
    let got = match plan.outcome {
        Ok(result) => result["content"][0]["text"].as_str().unwrap().to_owned(),
        Err(err) => format!("{}: {}", err.code, err.message),
    };
    assert_eq!(got, expect);
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
fn ask(method: &str, params: Value, expect: Value) {
    let mock = MockServer::new("m", &config());
    let message = Message::Request { id: json!(1), method: method.to_owned(), params };
    let got = match mock.handle(message).unwrap().1.outcome {
        Ok(result) => result,
        Err(err) => json!(format!("{}: {}", err.code, err.message)),
    };
    assert_eq!(got, expect);
}

#[test]
fn responses_may_have_other_content() {
    let params = json!({"name": "rich", "arguments": {"what": "dot"}});
    ask(
        "tools/call",
        params,
        json!({
            "content": [
                {"type": "text", "text": "a dot"},
                {"type": "image", "mimeType": "image/png", "data": "aGk="},
            ],
            "structuredContent": {"what": "dot", "parts": 2},
        }),
    );
    let params = json!({"name": "rich", "arguments": {"what": "ink", "how": "failed"}});
    let failed = json!({"content": [{"type": "text", "text": "no ink"}], "isError": true});
    ask("tools/call", params, failed);
}

#[test]
fn resources_and_prompts() {
    let today = json!({"uri": "memo://today", "name": "today", "mimeType": "text/plain"});
    ask("resources/list", json!({}), json!({"resources": [today]}));
    let templates = json!({"resourceTemplates": [{"uriTemplate": "memo://{day}", "name": "memo"}]});
    ask("resources/templates/list", json!({}), templates);
    let text = "water the plants";
    let contents = json!([{"uri": "memo://today", "mimeType": "text/plain", "text": text}]);
    ask("resources/read", json!({"uri": "memo://today"}), json!({"contents": contents}));
    let missing = json!("-32002: Resource not found: memo://x");
    ask("resources/read", json!({"uri": "memo://x"}), missing);
    let arguments = json!([{"name": "who", "required": true}]);
    let greet = json!({"name": "greet", "description": "Say hello", "arguments": arguments});
    ask("prompts/list", json!({}), json!({"prompts": [greet]}));
    let message = json!({"role": "user", "content": {"type": "text", "text": "hello you"}});
    let said = json!({"messages": [message], "description": "Say hello"});
    ask("prompts/get", json!({"name": "greet", "arguments": {"who": "you"}}), said);
    let wrong = "-32602: error at index 0: error in key 'content': error in key 'text': missing template variables: who";
    ask("prompts/get", json!({"name": "greet"}), json!(wrong));
    ask("prompts/get", json!({"name": "x"}), json!("-32602: prompt 'x' not found"));
    let bare = MockServer::new("m", &MockConfig::default());
    let method = "resources/list".to_owned();
    let message = Message::Request { id: json!(1), method, params: json!({}) };
    assert!(bare.handle(message).unwrap().1.outcome.is_err(), "a mock without resources");
}

#[test]
fn the_first_matching_response_is_rendered() {
    check("scale", json!({"app": "web"}), r#"{"app":"web","count":"2","note":["x",5],"z":1}"#);
    check(
        "scale",
        json!({"app": "web", "count": 7}),
        r#"{"app":"web","count":"7.000000","note":["x",5],"z":1}"#,
    );
    check("scale", json!({"app": "broken"}), "-32603: cannot scale broken");
    check(
        "scale",
        json!({"app": "lost"}),
        "-32603: failed to render response: error in key 'b': missing template variables: gone",
    );
    check(
        "scale",
        json!({"app": "bad-error"}),
        "-32603: failed to render error message: missing template variables: gone",
    );
    check("plain", json!({"who": "you"}), "hello you");
    check("only-conditions", json!({"a": 2}), "second");
    check("only-conditions", json!({"a": "2"}), "second");
    check("only-conditions", json!({"a": 9}), "first");
    check("empty", json!(null), "");
    check("number", json!({}), "5");
    check("silent", json!({}), "-32603: no response configured for tool silent");
    check("nope", json!({}), "-32602: tool 'nope' not found: tool not found");
}

#[test]
fn delays_and_faults_are_planned() {
    let mock = MockServer::new("m", &config());
    let slow = call(&mock, "scale", json!({"app": "slow", "count": 3}));
    assert_eq!(slow.delay, Duration::from_millis(300));
    let flaky = || call(&mock, "scale", json!({"app": "flaky"})).fault;
    assert_eq!(flaky(), Some(FaultKind::Reset));
    assert_eq!(flaky(), None);
    let fault = Some(Fault { kind: FaultKind::Garbage, times: Some(2) });
    mock.change(MockChange::Fault { tool: Some("number".to_owned()), fault });
    let number = || call(&mock, "number", json!({})).fault;
    assert_eq!(
        [number(), number(), number()],
        [Some(FaultKind::Garbage), Some(FaultKind::Garbage), None]
    );
    assert_eq!(call(&mock, "empty", json!({})).fault, None);
    mock.change(MockChange::Fault {
        tool: None,
        fault: Some(Fault { kind: FaultKind::Hang, times: None }),
    });
    assert_eq!(call(&mock, "empty", json!({})).fault, Some(FaultKind::Hang));
    mock.change(MockChange::Fault { tool: None, fault: None });
    assert_eq!(call(&mock, "empty", json!({})).fault, None);
}

#[test]
fn tools_are_added_and_removed() {
    let mock = MockServer::new("m", &config());
    let added =
        tool_from_json(&json!({"name": "new", "responses": [{"response": "here"}]})).unwrap();
    assert!(mock.change(MockChange::AddTool(Box::new(added))));
    assert_eq!(call(&mock, "new", json!({})).outcome.unwrap()["content"][0]["text"], "here");
    assert!(mock.change(MockChange::RemoveTool("new".to_owned())));
    assert!(!mock.change(MockChange::RemoveTool("new".to_owned())));
    assert!(call(&mock, "new", json!({})).outcome.is_err());
    assert_eq!(tool_from_json(&json!({"description": "x"})).unwrap_err(), "tool name is required");
}

#[test]
fn the_other_methods() {
    let mock = MockServer::new("m", &config());
    let ask = |method: &str, params: Value| {
        let message = Message::Request { id: json!("i"), method: method.to_owned(), params };
        mock.handle(message).unwrap().1.outcome
    };
    let hello = ask("initialize", json!({"protocolVersion": "2024-11-05"})).unwrap();
    assert_eq!(hello["protocolVersion"], "2024-11-05");
    assert_eq!(hello["serverInfo"], json!({"name": "mock-m", "version": "1.0.0"}));
    let tools = ask("tools/list", json!({})).unwrap();
    assert_eq!(tools["tools"][0]["name"], "scale");
    let shown = &tools["tools"][0]["inputSchema"]["properties"];
    assert_eq!(shown["count"], json!({"type": "integer", "default": 2}));
    assert_eq!(tools["tools"][1]["inputSchema"], json!({"type": "object", "properties": {}}));
    assert_eq!(ask("server/discover", json!({})).unwrap_err().code, -32601);
    let note = Message::Notification {
        method: "notifications/initialized".to_owned(),
        params: Value::Null,
    };
    assert!(mock.handle(note).is_none());
}
