//! The tester finds every defect that the fake muster can inject.

use muster_scenario::report::TestStatus;

use crate::support::{fails, passes, run_one, scenario};

/// A correct scenario against a fake with a defect.
fn with_defect(defect: &str, steps: &str) -> String {
    format!("pre_configuration:\n  main_config: {{config: {{defect: {defect}}}}}\n{steps}")
}

const ECHO: &str = r#"
steps:
  - id: echo
    tool: core_echo
    args: {text: hello}
    timeout: 1s
    expected:
      success: true
      contains: ["hello"]
      not_contains: ["secret"]
      json_path: {text: hello}
      max_bytes: 1000
      max_tokens: 250
"#;

const NOTE: &str = r#"
steps:
  - id: note
    tool: core_note
    expected:
      success: true
      notifications:
        - {method: notifications/tools/list_changed, within: 1s}
"#;

const REFUSAL: &str = r#"
steps:
  - id: refused
    tool: x_nobody_nothing
    expected: {success: false, error_contains: ["not found"]}
"#;

const USERS: &str = r#"
steps:
  - id: user
    tool: test_create_user
    args: {name: alice}
    expected: {success: true, contains: ["Created user session", "alice"]}
  - id: tools
    as_user: alice
    tool: test_list_tools_for_user
    expected: {success: true, contains: ["core_echo"], not_contains: ["x_private_tool"]}
"#;

const STATE: &str = r#"
steps:
  - id: state
    tool: core_state
    args: {name: s}
    expected: {success: true, wait_for_state: 3s, json_path: {state: running}}
"#;

const BACKEND: &str = r#"
  mcp_servers:
    - name: one
      config: {tools: [{name: hi, responses: [{response: hello}]}]}
steps:
  - id: hi
    tool: x_one_hi
    expected: {success: true, contains: [hello]}
"#;

#[test]
fn a_correct_gateway_passes() {
    for steps in [ECHO, NOTE, REFUSAL, USERS, STATE, BACKEND] {
        passes("correct", &with_defect("none", steps));
    }
}

#[track_caller]
fn finds(defect: &str, steps: &str, status: TestStatus, texts: &[&str]) {
    let printed = fails(defect, &with_defect(defect, steps), status);
    for part in texts {
        assert!(printed.contains(part), "no {part:?} in\n{printed}");
    }
}

#[test]
fn wrong_text() {
    finds(
        "wrong-text",
        ECHO,
        TestStatus::Failed,
        &["step `echo`: core_echo", "expected \"hello\"", "got      something else", "json_path"],
    );
}

#[test]
fn too_much_text() {
    finds(
        "big",
        ECHO,
        TestStatus::Failed,
        &["expected at most 1000 bytes", "got      10000 bytes", "at most 250 tokens"],
    );
}

#[test]
fn slow_answer() {
    finds("slow", ECHO, TestStatus::Error, &["tool call failed: timed out after 1.0s"]);
    let steps = ECHO.replace("timeout: 1s", "").replace("max_bytes: 1000", "max_duration: 500ms");
    finds("slow", &steps, TestStatus::Failed, &["max_duration", "expected at most 500ms"]);
}

#[test]
fn dropped_notification() {
    finds(
        "silent",
        NOTE,
        TestStatus::Failed,
        &["expected one within 1.0s", "got      none at all"],
    );
}

#[test]
fn tool_of_another_user() {
    finds("leak", USERS, TestStatus::Failed, &["not_contains", "expected no \"x_private_tool\""]);
}

#[test]
fn error_as_success() {
    finds("never-fails", REFUSAL, TestStatus::Failed, &["expected an error", "got      a success"]);
}

#[test]
fn state_that_never_comes() {
    finds("stuck", STATE, TestStatus::Failed, &["expected \"running\"", "got      \"stopped\""]);
}

#[test]
fn orphan_left_behind() {
    finds("orphan", ECHO, TestStatus::Failed, &["processes were left behind:", "sleep 60"]);
    let restarted = r#"
steps:
  - {id: honest, tool: test_write_file, args: {path: honest, text: ""}, expected: {success: true}}
  - {id: restart, tool: test_restart_instance, expected: {success: true}}
"#;
    // After the restart the fake has no defect, so only its first process can have left an orphan.
    finds("orphan", restarted, TestStatus::Failed, &["processes were left behind:", "sleep 60"]);
}

#[test]
fn deaf_to_signals() {
    finds("deaf", ECHO, TestStatus::Failed, &["muster itself did not end within 10.0s"]);
}

#[test]
fn broken_wire() {
    finds("no-envelope", ECHO, TestStatus::Error, &["call_tool returned no envelope"]);
    finds("wrong-id", ECHO, TestStatus::Error, &["the response is to request 999999"]);
    finds("status", ECHO, TestStatus::Error, &["request failed with status 500: oh no"]);
    finds("garbage", ECHO, TestStatus::Error, &["the response is not a JSON-RPC message: {{{"]);
}

#[test]
fn missing_tools() {
    // The timeout of the scenario is shorter than the 15 s for resources.
    let text = scenario("nothing", &with_defect("nothing", BACKEND))
        .replace("timeout: 60s", "timeout: 2s");
    let (result, printed) = run_one(text);
    assert_eq!(result.status, TestStatus::Error, "{printed}");
    assert!(printed.contains("not ready"), "{printed}");
    assert!(printed.contains("missing tools x_one_hi"), "{printed}");
}

#[test]
fn crash_at_start() {
    finds(
        "crash",
        ECHO,
        TestStatus::Error,
        &["ended before it was ready (exit code 1)", "│ something terrible happened"],
    );
}

const LOGINS: &str = r#"
  mock_oauth_servers: [{name: idp, scopes: [openid, read], auto_approve: true, pkce_required: true, use_mock_clock: true}]
  mcp_servers:
    - name: files
      config:
        type: streamable-http
        oauth: {required: true, mock_oauth_server_ref: idp, scope: read}
        tools: [{name: open, responses: [{response: opened}]}]
steps:
  - {id: alice, tool: test_create_user, args: {name: alice}, expected: {success: true}}
  - {id: bob, tool: test_create_user, args: {name: bob}, expected: {success: true}}
  - {id: closed, as_user: alice, tool: x_files_open, expected: {success: false, error_contains: ["401"]}}
  - {id: login, tool: test_simulate_oauth_callback, args: {server: files}, expected: {success: true, contains: [success]}}
  - {id: open, tool: x_files_open, expected: {success: true, contains: [opened]}}
  - {id: mine, tool: test_list_tools_for_user, args: {name: alice}, expected: {success: true, contains: [x_files_open]}}
  - {id: not-his, tool: test_list_tools_for_user, args: {name: bob}, expected: {success: true, not_contains: [x_files_open]}}
  - {id: later, tool: test_advance_oauth_clock, args: {duration: 2h}, expected: {success: true, contains: [Advanced OAuth clock]}}
  - {id: expired, tool: x_files_open, expected: {success: false, error_contains: ["401"]}}
  - {id: asked, tool: test_get_oauth_server_info, args: {server: idp}, expected: {success: true, json_path: {name: idp, log.requests.token_code: 1}}}
"#;

#[test]
fn logins() {
    passes("logins", &with_defect("nothing-at-all", LOGINS));
    let rows: [(&str, TestStatus, &[&str]); 8] = [
        (
            "no-pkce",
            TestStatus::Error,
            &["idp rejects the login: invalid_request", "code_challenge"],
        ),
        (
            "no-state",
            TestStatus::Error,
            &["idp rejects the login: invalid_request", "state is missing"],
        ),
        ("wrong-callback", TestStatus::Error, &["is not a URL of this instance"]),
        ("wrong-verifier", TestStatus::Error, &["code_verifier is wrong"]),
        ("wrong-redirect", TestStatus::Error, &["redirect_uri differs"]),
        ("wrong-scope", TestStatus::Failed, &["step `open`", "insufficient_scope"]),
        ("wrong-token", TestStatus::Failed, &["step `open`", "invalid_token"]),
        ("shared-login", TestStatus::Failed, &["step `not-his`", "expected no \"x_files_open\""]),
    ];
    for (defect, status, texts) in rows {
        finds(defect, LOGINS, status, texts);
    }
}
