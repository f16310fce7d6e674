//! Valid scenario files, and the problems reported for invalid ones.

use std::path::Path;

use expect_test::{Expect, expect};
use serde_json::json;

use super::parse;
use crate::scenario::{MockTransport, Presence, Scenario, ServerKind};

const HEAD: &str = "name: n\ncategory: behavioral\nconcept: mcpserver\n";

#[track_caller]
fn load(text: &str) -> Scenario {
    let loaded = parse(Path::new("n.yaml"), text);
    let errors: Vec<String> = loaded.errors().collect();
    loaded.scenario.unwrap_or_else(|| panic!("{errors:?}"))
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "this is how snapshots are written")]
fn problems(text: &str, expect: Expect) {
    let loaded = parse(Path::new("n.yaml"), text);
    let lines = loaded.errors().map(|line| format!("error: {line}\n"));
    let lines = lines.chain(loaded.warnings().map(|line| format!("warning: {line}\n")));
    expect.assert_eq(&lines.collect::<String>());
}

#[test]
fn every_key_of_a_scenario_is_read() {
    let scenario = load(
        r#"
name: "full"
category: "integration"
concept: "anything"
description: |
  Two
  lines
tags: [a, 5, yes]
timeout: 2m30s
skip: true
prerequisites: [x]
steps:
  - id: one
    tool: core_x
    description: d
    timeout: 500ms
    as_user: alice
    retry: {count: 3, delay: 1s, backoff_multiplier: 1.5}
    args: {text: yes, on: true, n: 010, when: 2024-01-02, ratio: 1.5, none: ~, clock: 1:30, list: [no]}
    expected:
      success: true
      contains: [a, 5]
      not_contains: single
      error_contains: []
      json_path: {steps.0.id: x, 0: 1, ok: false}
      wait_for_state: 30s
      status_code: 200
      max_bytes: 1_000
      max_tokens: 10
      max_duration: 1s
      notifications:
        - {method: a, contains: [x], within: 2s}
        - {method: b, absent: true}
  - {id: bare, tool: t}
cleanup:
  - {id: c, tool: t, args: null, expected: null}
"#
        .replace("1_000", "1000")
        .as_str(),
    );
    assert_eq!(scenario.name, "full");
    assert_eq!(scenario.tags, ["a", "5", "yes"]);
    assert_eq!(scenario.timeout.unwrap().as_secs(), 150);
    assert!(scenario.skip);
    let [one, bare] = scenario.steps.as_slice() else { panic!("{:?}", scenario.steps) };
    assert_eq!(
        json!(one.args),
        json!({
            "text": "yes", "on": true, "n": 8, "when": "2024-01-02", "ratio": 1.5, "none": null,
            "clock": "1:30", "list": ["no"],
        })
    );
    assert_eq!((one.line, one.as_user.as_deref()), (13, Some("alice")));
    let expected = &one.expected;
    assert!(expected.success);
    assert_eq!(expected.contains, ["a", "5"]);
    assert_eq!(expected.not_contains, ["single"]);
    let paths: Vec<&str> = expected.json_path.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["steps.0.id", "0", "ok"]);
    assert_eq!(expected.wait_for_state.unwrap().as_secs(), 30);
    assert_eq!(expected.budget.max_bytes, Some(1000));
    assert_eq!(expected.notifications[0].within.as_secs(), 2);
    assert_eq!(expected.notifications[1].presence, Presence::Absent);
    assert!(scenario.listens());
    assert!(!bare.expected.success && bare.args.is_none());
    assert_eq!(scenario.cleanup.len(), 1);
}

#[test]
fn every_key_of_the_setup_is_read() {
    let scenario = load(&format!(
        "{HEAD}steps: [{{id: a, tool: t}}]\n{}",
        r#"
pre_configuration:
  mcp_servers:
    - {name: stdio, config: {tools: [{name: t, responses: [{response: x}]}]}}
    - {name: named-stdio, config: {type: stdio, tools: []}}
    - {name: http, config: {type: streamable-http, oauth: {required: true, mock_oauth_server_ref: idp}, tools: [{name: t}]}}
    - {name: sse, config: {type: sse, tools: [{name: t}]}}
    - {name: plain, config: {type: stdio, command: echo, args: [a]}}
  workflows: [{name: w, config: {name: w, steps: []}}]
  service_classes: [{name: c, serviceConfig: {lifecycleTools: {start: {tool: t}}}}]
  services: [{name: s, config: {a: 1}}]
  main_config: {config: {namespace: x}}
  mock_oauth_servers: [{name: idp, scopes: [openid], token_lifetime: 1h, use_tls: true}]
  files: {a/b.yaml: text}
  env: {A: b, N: 5}
  serve_args: [--yolo]
"#
    ));
    let before = &scenario.setup;
    let kinds: Vec<&str> = before
        .mcp_servers
        .iter()
        .map(|server| match &server.kind {
            ServerKind::Stdio(_) => "stdio",
            ServerKind::Remote { transport: MockTransport::StreamableHttp, .. } => "http",
            ServerKind::Remote { transport: MockTransport::Sse, .. } => "sse",
            ServerKind::Plain(_) => "plain",
        })
        .collect();
    assert_eq!(kinds, ["stdio", "stdio", "http", "sse", "plain"]);
    let protected: Vec<bool> = before.mcp_servers.iter().map(|s| s.is_protected()).collect();
    assert_eq!(protected, [false, false, true, false, false]);
    let objects: Vec<&str> = before.objects.iter().map(|object| object.name.as_str()).collect();
    assert_eq!(objects, ["w", "c", "s"]);
    assert_eq!(json!(before.objects[0].spec), json!({"steps": []}));
    assert_eq!(json!(before.main_config), json!({"namespace": "x"}));
    assert_eq!(before.oauth_servers.len(), 1);
    assert_eq!(before.files, [("a/b.yaml".to_owned(), "text".to_owned())]);
    let env = [("A".to_owned(), "b".to_owned()), ("N".to_owned(), "5".to_owned())];
    assert_eq!(before.env, env);
    assert_eq!(before.serve_args, ["--yolo"]);
    assert!(!scenario.listens());
}

#[test]
fn every_problem_has_a_line_and_a_field() {
    problems(
        "",
        expect![[r#"
        error: n.yaml: line 1: name: scenario name is required
        error: n.yaml: line 1: category: scenario category is required
        error: n.yaml: line 1: concept: scenario concept is required
        error: n.yaml: line 1: steps: scenario must have at least one step
    "#]],
    );
    problems(
        "name: [",
        expect![[r#"
        error: n.yaml: line 2: while parsing a node, did not find expected node content; the `[` of line 1 is not closed
    "#]],
    );
    problems(
        &format!(
            "{HEAD}{}",
            r#"
timeout: soon
skip: maybe
stepz: []
steps:
  - tool: t
    expected: {success: 1, contain: [a], json_path: [x], max_bytes: -1}
  - {id: b, args: [1], retry: {count: -1}, continue_on_failure: true, cleanup: []}
  - nonsense
pre_configuration:
  mcp_servers:
    - {config: {tools: [{responses: [{delay: soon, fault: explode}]}]}}
    - {name: x}
    - {name: y, config: {type: pigeon, tools: []}}
  workflows: {}
"#
        ),
        expect![[r#"
            error: n.yaml: line 5: timeout: `soon` is not a duration such as `30s` or `1m30s`
            error: n.yaml: line 6: skip: expected true or false, found text
            error: n.yaml: line 9: steps[0].id: step id is required
            error: n.yaml: line 10: steps[0].expected.json_path: expected a mapping, found a list
            error: n.yaml: line 10: steps[0].expected.success: expected true or false, found a number
            error: n.yaml: line 10: steps[0].expected.max_bytes: expected a whole number of at least 0
            error: n.yaml: line 11: steps[1].tool: step tool is required
            error: n.yaml: line 11: steps[1].args: expected a mapping, found a list
            error: n.yaml: line 11: steps[1].retry.count: must not be negative
            error: n.yaml: line 12: steps[2]: expected a mapping, found text
            error: n.yaml: line 15: pre_configuration.mcp_servers[0].name: server name is required
            error: n.yaml: line 15: pre_configuration.mcp_servers[0].config.tools[0].name: tool name is required
            error: n.yaml: line 15: pre_configuration.mcp_servers[0].config.tools[0].responses[0].fault: `explode` is none of `delay`, `reset`, `garbage`, `half`, `hang` and `status`
            error: n.yaml: line 16: pre_configuration.mcp_servers[1].config: server config is required
            error: n.yaml: line 17: pre_configuration.mcp_servers[2].config.type: `pigeon` is none of `stdio`, `streamable-http` and `sse`
            error: n.yaml: line 18: pre_configuration.workflows: expected a list, found a mapping
            warning: n.yaml: line 7: stepz: unknown key, did you mean `steps`?
            warning: n.yaml: line 10: steps[0].expected.contain: unknown key, did you mean `contains`?
            warning: n.yaml: line 11: steps[1].retry: has no effect
            warning: n.yaml: line 11: steps[1].continue_on_failure: has no effect
            warning: n.yaml: line 11: steps[1].cleanup: has no effect
            warning: n.yaml: line 15: pre_configuration.mcp_servers[0].config.tools[0].responses[0].delay: `soon` is not a duration such as `30s` or `1m30s`; it is ignored
        "#]],
    );
}
