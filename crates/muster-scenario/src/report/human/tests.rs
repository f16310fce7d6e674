//! The report for people.

use std::{path::Path, time::Duration};

use expect_test::expect;
use jiff::Timestamp;

use super::{scenario_finished, summary};
use crate::{
    expect::Difference,
    load,
    options::Verbosity,
    report::{Phase, Report, ScenarioResult, StepResult, TestStatus},
};

fn result() -> ScenarioResult {
    let text = "name: crud\ncategory: behavioral\nconcept: mcpserver\nsteps:\n  - {id: get, tool: core_get, args: {name: a}}\n  - {id: call, tool: x_a_b}\n";
    let scenario = load::parse(Path::new("scenarios/crud.yaml"), text).scenario.unwrap();
    let step = |index: usize, phase| {
        StepResult::new(scenario.steps[index].clone(), phase, Timestamp::UNIX_EPOCH)
    };
    let mut failed = step(0, Phase::Steps);
    failed.status = TestStatus::Failed;
    failed.took = Duration::from_millis(20);
    failed.error = Some("step expectations not met".to_owned());
    failed.response = Some("{\"state\":\"stopped\"}\nmore".to_owned());
    failed.differences = vec![
        Difference::new("json_path state", "\"running\"", "\"stopped\""),
        Difference::new("contains", "\"a\"", "two\nlines"),
    ];
    let mut broken = step(1, Phase::Cleanup);
    broken.status = TestStatus::Error;
    broken.error = Some("tool call failed: gone".to_owned());
    let logs = (0..30).map(|n| format!("line {n}\n")).collect();
    let took = Duration::from_millis(1234);
    let steps = vec![failed, broken];
    ScenarioResult {
        status: TestStatus::Failed,
        took,
        steps,
        logs,
        ..ScenarioResult::new(scenario)
    }
}

#[test]
fn failures_show_the_step_and_its_line() {
    expect![[r#"
        ❌ (1.2s)
           ❌ step `get`: core_get {"name":"a"}
              at scenarios/crud.yaml:5
              step expectations not met
              json_path state
                expected "running"
                got      "stopped"
              contains
                expected "a"
                got      two
                         lines
           💥 cleanup step `call`: x_a_b
              at scenarios/crud.yaml:6
              tool call failed: gone
           instance logs, the last 25 lines (5 before them):
           │ line 5
           │ line 6
           │ line 7
           │ line 8
           │ line 9
           │ line 10
           │ line 11
           │ line 12
           │ line 13
           │ line 14
           │ line 15
           │ line 16
           │ line 17
           │ line 18
           │ line 19
           │ line 20
           │ line 21
           │ line 22
           │ line 23
           │ line 24
           │ line 25
           │ line 26
           │ line 27
           │ line 28
           │ line 29
    "#]]
    .assert_eq(&scenario_finished(&result(), Verbosity::Normal));
}

#[test]
fn verbose_runs_show_every_step() {
    let mut result = result();
    result.logs.clear();
    expect![[r#"
        ❌ (1.2s)
           ❌ get (core_get, 20ms)
              {"state":"stopped"}
              more
           💥 call (x_a_b, 0ms)
           ❌ step `get`: core_get {"name":"a"}
              at scenarios/crud.yaml:5
              step expectations not met
              json_path state
                expected "running"
                got      "stopped"
              contains
                expected "a"
                got      two
                         lines
           💥 cleanup step `call`: x_a_b
              at scenarios/crud.yaml:6
              tool call failed: gone
    "#]]
    .assert_eq(&scenario_finished(&result, Verbosity::Verbose));
}

#[test]
fn summary_counts() {
    let bad = result();
    let good = ScenarioResult { status: TestStatus::Passed, ..result() };
    let skipped = ScenarioResult::skipped(bad.scenario.clone(), "`skip: true`");
    expect![[r#"
        ⏭️ skipped: `skip: true`
    "#]]
    .assert_eq(&scenario_finished(&skipped, Verbosity::Normal));
    let results = vec![good.clone(), bad, skipped];
    let took = Duration::from_secs(65);
    let report = Report { started: Timestamp::UNIX_EPOCH, took, results };
    expect![[r#"

        🏁 Test Suite Complete
        ⏱️  Duration: 1m05s
        ✅ Passed: 1
        ❌ Failed: 1
        💥 Errors: 0
        ⏭️  Skipped: 1
        📈 Total: 3
        📏 Success Rate: 50.0%
        💔 Some tests failed
           crud
    "#]]
    .assert_eq(&summary(&report));
    let report = Report { results: vec![good], ..report };
    assert!(summary(&report).ends_with("🎉 All tests passed!\n"));
}
