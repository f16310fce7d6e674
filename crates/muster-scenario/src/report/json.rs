//! The report as JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Phase, Report, ScenarioResult, StepResult};
use crate::scenario::{Scenario, Step};

/// The whole report, indented. Durations are nanoseconds.
pub fn document(report: &Report, configuration: &Value) -> String {
    let counts = report.counts();
    let value = json!({
        "start_time": report.started.to_string(),
        "end_time": end(report.started, report.took),
        "duration": nanos(report.took),
        "total_scenarios": counts.total(),
        "passed_scenarios": counts.passed,
        "failed_scenarios": counts.failed,
        "skipped_scenarios": counts.skipped,
        "error_scenarios": counts.errors,
        "scenario_results": report.results.iter().map(scenario_result).collect::<Vec<_>>(),
        "configuration": configuration,
    });
    format!("{value:#}\n")
}

fn scenario_result(result: &ScenarioResult) -> Value {
    let mut value = json!({
        "scenario": scenario(&result.scenario),
        "result": result.status.name(),
        "start_time": result.started.to_string(),
        "end_time": end(result.started, result.took),
        "duration": nanos(result.took),
        "step_results": result.steps.iter().map(step_result).collect::<Vec<_>>(),
    });
    if let Some(value) = value.as_object_mut() {
        value.extend(result.error.clone().map(|error| ("error".to_owned(), error.into())));
        let logs = Some(&result.logs).filter(|logs| !logs.is_empty());
        value.extend(logs.map(|logs| ("instance_logs".to_owned(), logs.clone().into())));
    }
    value
}

fn scenario(scenario: &Scenario) -> Value {
    json!({
        "name": scenario.name,
        "category": scenario.category,
        "concept": scenario.concept,
        "description": scenario.description,
        "tags": scenario.tags,
        "file": scenario.file.display().to_string(),
    })
}

fn step_result(result: &StepResult) -> Value {
    let differences: Vec<Value> = result
        .differences
        .iter()
        .map(|difference| {
            let (at, expected, got) = (&difference.at, &difference.expected, &difference.got);
            json!({"at": at, "expected": expected, "got": got})
        })
        .collect();
    let mut value = json!({
        "step": step(&result.step, result.phase),
        "result": result.status.name(),
        "start_time": result.started.to_string(),
        "end_time": end(result.started, result.took),
        "duration": nanos(result.took),
        "retry_count": result.calls,
    });
    if let Some(value) = value.as_object_mut() {
        value.extend(result.response.clone().map(|text| ("response".to_owned(), text.into())));
        value.extend(result.error.clone().map(|error| ("error".to_owned(), error.into())));
        if !differences.is_empty() {
            value.insert("differences".to_owned(), differences.into());
        }
    }
    value
}

fn step(step: &Step, phase: Phase) -> Value {
    json!({
        "id": step.id,
        "tool": step.tool,
        "args": step.args,
        "description": step.description,
        "line": step.line,
        "cleanup": phase == Phase::Cleanup,
    })
}

fn end(started: Timestamp, took: std::time::Duration) -> String {
    (started + took).to_string()
}

fn nanos(took: std::time::Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)
}
