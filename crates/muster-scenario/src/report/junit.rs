//! The report as JUnit XML, which CI systems display.

use std::fmt::Write;

use muster_core::markup::push_escaped;

use super::{Report, ScenarioResult, StepResult, TestStatus};

/// One suite per concept, one case per scenario.
pub fn document(report: &Report) -> String {
    let counts = report.counts();
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _written = writeln!(
        text,
        "<testsuites name=\"muster test\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\">",
        counts.total(),
        counts.failed,
        counts.errors,
        counts.skipped,
        report.took.as_secs_f64(),
    );
    let mut concepts: Vec<&str> = Vec::new();
    for result in &report.results {
        if !concepts.contains(&result.scenario.concept.as_str()) {
            concepts.push(&result.scenario.concept);
        }
    }
    for concept in concepts {
        let of_concept = report.results.iter().filter(|r| r.scenario.concept == concept);
        suite(concept, &of_concept.collect::<Vec<_>>(), &mut text);
    }
    text.push_str("</testsuites>\n");
    text
}

fn suite(concept: &str, results: &[&ScenarioResult], text: &mut String) {
    let count =
        |status: TestStatus| results.iter().filter(|result| result.status == status).count();
    let seconds: f64 = results.iter().map(|result| result.took.as_secs_f64()).sum();
    let _written = writeln!(
        text,
        "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{seconds:.3}\">",
        escaped(concept),
        results.len(),
        count(TestStatus::Failed),
        count(TestStatus::Error),
        count(TestStatus::Skipped),
    );
    for result in results {
        case(result, text);
    }
    text.push_str("  </testsuite>\n");
}

fn case(result: &ScenarioResult, text: &mut String) {
    let scenario = &result.scenario;
    let _written = write!(
        text,
        "    <testcase classname=\"{}.{}\" name=\"{}\" file=\"{}\" time=\"{:.3}\"",
        escaped(&scenario.category),
        escaped(&scenario.concept),
        escaped(&scenario.name),
        escaped(&scenario.file.display().to_string()),
        result.took.as_secs_f64(),
    );
    let tag = match result.status {
        TestStatus::Passed => {
            text.push_str("/>\n");
            return;
        }
        TestStatus::Failed => "failure",
        TestStatus::Error => "error",
        TestStatus::Skipped => "skipped",
    };
    let message = message(result);
    let _written = write!(text, ">\n      <{tag} message=\"{}\"", escaped(&message));
    let body: String = result.bad_steps().map(failed_step).collect();
    if body.is_empty() {
        text.push_str("/>\n");
    } else {
        let _written = writeln!(text, ">{}</{tag}>", escaped(&body));
    }
    if result.status.is_bad() && !result.logs.is_empty() {
        let _written = writeln!(text, "      <system-out>{}</system-out>", escaped(&result.logs));
    }
    text.push_str("    </testcase>\n");
}

fn message(result: &ScenarioResult) -> String {
    let step = result.bad_steps().next();
    let of_step = step.and_then(|step| Some(format!("{}: {}", step.step.id, step.error.as_ref()?)));
    result.error.clone().or(of_step).unwrap_or_default()
}

fn failed_step(result: &StepResult) -> String {
    let mut text = format!("{} ({})\n", result.step.id, result.step.tool);
    for difference in &result.differences {
        let (at, expected, got) = (&difference.at, &difference.expected, &difference.got);
        let _written = writeln!(text, "  {at}\n    expected {expected}\n    got      {got}");
    }
    text
}

/// XML allows no control characters, not even escaped.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => escaped.push_str("&#10;"),
            '\t' => escaped.push('\t'),
            c if c.is_control() || ('\u{fffe}'..='\u{ffff}').contains(&c) => {
                escaped.push('\u{fffd}');
            }
            c => push_escaped(&mut escaped, c),
        }
    }
    escaped
}
