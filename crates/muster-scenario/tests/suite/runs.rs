//! Whole runs: variables, cleanup, restarts, faults, filters, reports.

use std::fs;

use muster_scenario::{
    options::{OnFailure, RunOptions, Selection, SkipPolicy},
    report::{Phase, RunVerdict, TestStatus},
    run::{self, RunError},
};
use serde_json::Value;

use crate::support::{
    RunOutput, block_on, directory, fails, launcher, options, passes, run, scenario,
};

const STEPS: &str = "steps: [{id: a, tool: core_echo, expected: {success: true}}]";

#[test]
fn results_of_steps_become_expectations() {
    let steps = r#"
steps:
  - {id: first, tool: core_echo, args: {id: e7, n: 5, deep: {x: y}}, expected: {success: true}}
  - id: second
    tool: core_echo
    args: {id: WHICH, n: 5, deep: {x: y, z: 1}}
    expected:
      success: true
      contains: ['"id":"{{ first.id }}"', "{{ first.n }}"]
      not_contains: ["not-{{ first.id }}"]
      json_path: {id: "{{ first.id }}", n: "{{ first.n }}", deep: "{{ first.deep }}"}
"#;
    passes("expectations", &steps.replace("WHICH", "e7"));
    let printed = fails("expectations", &steps.replace("WHICH", "e8"), TestStatus::Failed);
    assert!(printed.contains("json_path id") && printed.contains("\"e7\""), "{printed}");
}

#[test]
fn results_of_steps_become_arguments() {
    let result = passes(
        "variables",
        r#"
steps:
  - {id: first-step, tool: core_echo, args: {id: e7, n: 5, deep: {x: y}}, expected: {success: true}}
  - id: second
    tool: core_echo
    args:
      id: "{{ first-step.id }}"
      n: "{{ first-step.n }}"
      workflow: "{{ .input.x }} {{ first-step.id }}"
    expected:
      success: true
      json_path: {id: e7, n: "5.000000", workflow: "{{ .input.x }} {{ first-step.id }}"}
"#,
    );
    assert_eq!(result.steps.len(), 2);
    let printed = fails(
        "missing",
        r#"
steps:
  - {id: one, tool: core_echo, args: {a: b}, expected: {success: true}}
  - {id: two, tool: core_echo, args: {a: "{{ one.gone }}"}, expected: {success: true}}
"#,
        TestStatus::Error,
    );
    assert!(printed.contains("missing template variables: one.gone"), "{printed}");
}

#[test]
fn cleanup_always_runs_and_can_fail() {
    let (result, _) = crate::support::run_one(scenario(
        "cleanup",
        r#"
steps:
  - {id: bad, tool: core_echo, args: {a: b}, expected: {success: true, contains: [c]}}
  - {id: never, tool: core_echo, expected: {success: true}}
cleanup:
  - {id: last, tool: core_echo, expected: {success: true}}
"#,
    ));
    let ran: Vec<_> =
        result.steps.iter().map(|s| (s.step.id.as_str(), s.phase, s.status)).collect();
    assert_eq!(
        ran,
        [("bad", Phase::Steps, TestStatus::Failed), ("last", Phase::Cleanup, TestStatus::Passed)]
    );
    fails(
        "bad-cleanup",
        &format!("{STEPS}\ncleanup: [{{id: c, tool: x_no_no, expected: {{success: true}}}}]"),
        TestStatus::Failed,
    );
}

#[test]
fn every_user_has_a_session() {
    passes(
        "users",
        r#"
steps:
  - {id: who, tool: test_get_current_user, expected: {success: true, json_path: {current_user: default, total_users: 1}}}
  - {id: a, tool: test_create_user, args: {name: alice}, expected: {success: true}}
  - {id: b, tool: test_create_user, args: {name: alice}, expected: {success: false, error_contains: [already exists]}}
  - {id: c, as_user: alice, tool: core_echo, expected: {success: true}}
  - {id: d, tool: test_get_current_user, expected: {success: true, json_path: {current_user: alice, available_users: [alice, default]}}}
  - {id: e, tool: test_switch_user, args: {name: default}, expected: {success: true}}
  - {id: f, tool: test_switch_user, args: {name: bob}, expected: {success: false, error_contains: [not found]}}
  - {id: g, tool: test_read_auth_status, args: {server: one}, expected: {success: true, json_path: {status: connected}}}
  - {id: h, tool: test_read_auth_status, args: {server: two}, expected: {success: false}}
  - {id: i, tool: test_call_meta_tool, args: {tool: list_tools}, expected: {success: true, contains: [core_echo]}}
  - {id: j, tool: list_tools, expected: {success: true, contains: [core_echo]}}
"#,
    );
    let printed = fails(
        "nobody",
        "steps: [{id: a, as_user: bob, tool: core_echo, expected: {success: true}}]",
        TestStatus::Error,
    );
    assert!(printed.contains("as_user 'bob' not found; use test_create_user first"), "{printed}");
}

#[test]
fn an_instance_can_be_restarted() {
    for how in ["graceful", "kill"] {
        let result = passes(
            "restart",
            &format!(
                r#"
pre_configuration:
  mcp_servers: [{{name: one, config: {{tools: [{{name: hi, responses: [{{response: hello}}]}}]}}}}]
steps:
  - {{id: user, tool: test_create_user, args: {{name: alice}}, expected: {{success: true}}}}
  - {{id: one, tool: core_count, expected: {{success: true}}}}
  - {{id: two, tool: core_count, expected: {{success: true, not_contains: ['"count":1,']}}}}
  - {{id: again, tool: test_restart_instance, args: {{how: {how}}}, expected: {{success: true}}}}
  - {{id: hi, as_user: alice, tool: x_one_hi, expected: {{success: true, contains: [hello]}}}}
"#
            ),
        );
        let starts = result.logs.matches("fake muster on port").count();
        assert_eq!(starts, 2, "{}", result.logs);
    }
}

const FAULTY: &str = r#"
pre_configuration:
  mcp_servers:
    - name: near
      config: {tools: [{name: hi, responses: [{response: hello}]}]}
    - name: far
      config: {type: streamable-http, tools: [{name: hi, responses: [{response: hello}]}]}
"#;

#[test]
fn faults_are_injected_into_backends() {
    passes(
        "faults",
        &format!(
            r#"{FAULTY}
steps:
  - {{id: a, tool: test_set_fault, args: {{server: near, fault: {{kind: garbage, times: 1}}}}, expected: {{success: true}}}}
  - {{id: b, tool: x_near_hi, expected: {{success: false, error_contains: ["no message"]}}}}
  - {{id: c, tool: x_near_hi, expected: {{success: true, contains: [hello]}}}}
  - {{id: d, tool: test_set_fault, args: {{server: far, tool: hi, fault: reset}}, expected: {{success: true}}}}
  - {{id: e, tool: x_far_hi, expected: {{success: false, error_contains: ["the connection broke"]}}}}
  - {{id: f, tool: test_set_fault, args: {{server: far, tool: hi, fault: null}}, expected: {{success: true}}}}
  - {{id: g, tool: x_far_hi, expected: {{success: true, contains: [hello]}}}}
  - {{id: h, tool: test_add_mock_tool, args: {{server: near, tool: {{name: new, responses: [{{response: fresh}}]}}}}, expected: {{success: true}}}}
  - {{id: i, tool: x_near_new, expected: {{success: true, contains: [fresh]}}}}
  - {{id: j, tool: test_remove_mock_tool, args: {{server: near, tool: new}}, expected: {{success: true}}}}
  - {{id: k, tool: x_near_new, expected: {{success: false}}}}
  - {{id: l, tool: test_set_fault, args: {{server: nobody, fault: reset}}, expected: {{success: false, error_contains: [no process]}}}}
"#
        ),
    );
}

#[test]
fn backends_are_killed_and_restarted() {
    passes(
        "kills",
        &format!(
            r#"{FAULTY}
steps:
  - {{id: a, tool: test_kill_backend, args: {{server: near}}, expected: {{success: true}}}}
  - {{id: b, tool: x_near_hi, expected: {{success: false}}}}
  - {{id: c, tool: test_kill_backend, args: {{server: near}}, expected: {{success: false, error_contains: [no process]}}}}
  - {{id: d, tool: test_kill_backend, args: {{server: far}}, expected: {{success: true}}}}
  - {{id: e, tool: x_far_hi, expected: {{success: false, error_contains: [cannot connect]}}}}
  - {{id: f, tool: test_start_backend, args: {{server: far}}, expected: {{success: true}}}}
  - {{id: g, tool: x_far_hi, expected: {{success: true, contains: [hello]}}}}
"#
        ),
    );
}

#[test]
fn concurrent_scenarios_are_reported() {
    let mut scenarios: Vec<String> =
        (0..6).map(|n| scenario(&format!("good-{n}"), STEPS)).collect();
    scenarios.push(scenario("skipped", &format!("skip: true\n{STEPS}")));
    scenarios.push(scenario(
        "oauth",
        &format!("pre_configuration: {{mock_oauth_servers: [{{name: idp}}]}}\n{STEPS}"),
    ));
    scenarios.push(scenario("bad <&>", "steps: [{id: a, tool: core_echo}]"));
    let dir = directory(&scenarios);
    let reports = tempfile::tempdir().unwrap();
    let options = RunOptions { report: Some(reports.path().to_owned()), ..options(dir.path()) };
    let mut printed = Vec::new();
    let verdict = block_on(async {
        let launcher = launcher();
        let verdict = run::run(&options, &launcher, &mut printed).await;
        launcher.shut_down().await;
        verdict.unwrap()
    });
    let printed = String::from_utf8(printed).unwrap();
    assert_eq!(verdict, RunVerdict::Failed, "{printed}");
    for line in [
        "🎯 good-3... ✅",
        "🎯 oauth... ✅",
        "✅ Passed: 7",
        "❌ Failed: 1",
        "💥 Errors: 0",
        "⏭️  Skipped: 1",
        "📈 Total: 9",
        "📏 Success Rate: 87.5%",
        "💔 Some tests failed",
    ] {
        assert!(printed.contains(line), "no {line:?} in\n{printed}");
    }
    let mut files: Vec<_> =
        fs::read_dir(reports.path()).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    let json: Value = serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap();
    assert_eq!(json["total_scenarios"], 9);
    assert_eq!(json["scenario_results"][8]["result"], "FAILED");
    assert_eq!(json["scenario_results"][8]["step_results"][0]["differences"][0]["at"], "success");
    let xml = fs::read_to_string(&files[1]).unwrap();
    assert!(xml.contains("name=\"bad &lt;&amp;&gt;\""), "{xml}");
    assert!(xml.contains("<skipped message=\"`skip: true`\"/>"), "{xml}");
    assert!(xml.contains("tests=\"9\" failures=\"1\" errors=\"0\" skipped=\"1\""), "{xml}");
}

#[test]
fn only_selected_scenarios_run() {
    let dir = directory(&[
        scenario("one", STEPS),
        scenario("two", STEPS).replace("concept: mcpserver", "concept: workflow"),
        scenario("three", &format!("skip: true\n{STEPS}")),
    ]);
    let names = |selection: Selection| {
        let RunOutput { report, .. } = run(&RunOptions { selection, ..options(dir.path()) });
        let ran = report.results.into_iter().filter(|result| result.status == TestStatus::Passed);
        ran.map(|result| result.scenario.name).collect::<Vec<_>>()
    };
    let concept = muster_scenario::options::Concept::Workflow;
    assert_eq!(names(Selection { concept: Some(concept), ..Selection::default() }), ["two"]);
    assert_eq!(
        names(Selection { scenario: Some("one".to_owned()), ..Selection::default() }),
        ["one"]
    );
    let all = Selection { skipped: SkipPolicy::Ignore, ..Selection::default() };
    assert_eq!(names(all), ["one", "two", "three"]);
}

#[test]
fn an_unknown_scenario_name_is_an_error() {
    let dir = directory(&[scenario("workflow-delete", STEPS)]);
    let selection = Selection { scenario: Some("workflow-del".to_owned()), ..Selection::default() };
    let options = RunOptions { selection, ..options(dir.path()) };
    let failed: RunError =
        block_on(async { run::run(&options, &launcher(), &mut Vec::new()).await.unwrap_err() });
    assert_eq!(
        failed.to_string(),
        "test execution failed: scenario 'workflow-del' not found. Did you mean: workflow-delete?"
    );
}

#[test]
fn the_first_failure_can_stop_the_run() {
    let bad = "steps: [{id: a, tool: core_echo}]";
    let dir = directory(&[scenario("bad", bad), scenario("good", STEPS)]);
    let options = RunOptions { parallel: 1, on_failure: OnFailure::Stop, ..options(dir.path()) };
    let RunOutput { report, printed } = run(&options);
    let statuses: Vec<TestStatus> = report.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [TestStatus::Failed, TestStatus::Skipped], "{printed}");
}

#[test]
fn the_runner_serves_mcp() {
    let dir = directory(&[scenario("one", STEPS)]);
    let call = |id: u64, tool: &str, args: Value| {
        let params = serde_json::json!({"name": tool, "arguments": args});
        format!("{}\n", muster_scenario::wire::request(id, "tools/call", &params))
    };
    let empty = || serde_json::json!({});
    let path = dir.path().to_str().unwrap();
    let input = [
        format!("{}\n", muster_scenario::wire::request(1, "initialize", &empty())),
        format!("{}\n", muster_scenario::wire::request(2, "tools/list", &empty())),
        call(3, "test_get_results", empty()),
        call(4, "test_list_scenarios", empty()),
        call(5, "test_validate_scenario", serde_json::json!({"scenario_path": path})),
        call(6, "test_run_scenarios", serde_json::json!({"scenario": "one", "parallel": 1})),
        call(7, "test_get_results", empty()),
        call(8, "test_run_scenarios", serde_json::json!({"parallel": 11})),
    ]
    .concat();
    let mut output = Vec::new();
    block_on(async {
        let launcher = launcher();
        let options = options(dir.path());
        muster_scenario::mcp_server::serve(&options, &launcher, input.as_bytes(), &mut output)
            .await
            .unwrap();
        launcher.shut_down().await;
    });
    let output = String::from_utf8(output).unwrap();
    let answers: Vec<&str> = output.lines().collect();
    for (answer, part) in answers.iter().zip([
        "muster-test",
        "test_run_scenarios",
        "no scenarios have been run yet",
        r#"\"total\":1"#,
        r#"\"valid\":true"#,
        "Passed: 1",
        r#"\"passed_scenarios\": 1"#,
        "parallel must be between 1 and 10",
    ]) {
        assert!(answer.contains(part), "no {part:?} in {answer}");
    }
    assert_eq!(answers.len(), 8);
}

#[test]
fn a_run_that_times_out_reports_errors() {
    let slow =
        "steps: [{id: a, tool: test_wait, args: {duration: 30s}, expected: {success: true}}]";
    let dir = directory(&[scenario("slow", slow), scenario("waiting", STEPS)]);
    let timeout = std::time::Duration::from_millis(1500);
    let RunOutput { report, printed } =
        run(&RunOptions { timeout, parallel: 1, ..options(dir.path()) });
    let statuses: Vec<TestStatus> = report.results.iter().map(|result| result.status).collect();
    assert_eq!(statuses, [TestStatus::Error, TestStatus::Error], "{printed}");
    assert!(printed.contains("the run timed out after 1.5s"), "{printed}");
}

#[test]
fn directories_can_be_kept() {
    let dir = directory(&[scenario("kept", STEPS)]);
    let directory_cleanup = muster_scenario::options::DirectoryCleanup::Keep;
    let RunOutput { printed, .. } = run(&RunOptions { directory_cleanup, ..options(dir.path()) });
    let root = printed.lines().find_map(|line| line.strip_prefix("📁 ")).unwrap();
    let instance = fs::read_dir(root).unwrap().next().unwrap().unwrap().path();
    assert!(instance.join("muster/config.yaml").is_file());
    fs::remove_dir_all(root).unwrap();
}
