//! The report for people: a line per scenario, failure details, and a summary.

use std::fmt::Write;

use super::{Phase, Report, ScenarioResult, StatusCounts, StepResult, TestStatus};
use crate::{
    duration,
    expect::Difference,
    options::{RunOptions, Verbosity},
};

/// Log lines shown unless `--debug` is given.
const LOG_LINES: usize = 25;
/// How much of a result a verbose run shows.
const RESPONSE: usize = 2000;

/// The lines before the first scenario.
pub fn banner(options: &RunOptions, scenarios: usize) -> String {
    let mut text = String::from("🧪 Starting muster tests\n");
    let workers = options.workers();
    let _written = writeln!(text, "🏗️  Base port: {}", options.base_port);
    let _written = writeln!(text, "📋 {scenarios} scenarios, {workers} at once");
    if options.verbosity >= Verbosity::Verbose {
        let _written = writeln!(text, "   muster:    {}", options.muster.display());
        let _written = writeln!(text, "   scenarios: {}", options.config.display());
        let _written = writeln!(text, "   timeout:   {}", duration::short(options.timeout));
    }
    text.push('\n');
    text
}

/// The start of the line of a scenario.
pub fn scenario_started(name: &str) -> String {
    format!("🎯 {name}... ")
}

/// The end of that line, and the details of a failure.
pub fn scenario_finished(result: &ScenarioResult, verbosity: Verbosity) -> String {
    let mut text = format!("{} ({})", result.status.symbol(), duration::short(result.took));
    if result.status == TestStatus::Skipped {
        text = format!("{} skipped", result.status.symbol());
        if let Some(reason) = &result.error {
            let _written = write!(text, ": {reason}");
        }
    }
    text.push('\n');
    if verbosity >= Verbosity::Verbose {
        for step in &result.steps {
            verbose_step(step, &mut text);
        }
    }
    if result.status.is_bad() {
        failure_details(result, &mut text);
    }
    if result.status.is_bad() || verbosity >= Verbosity::Debug {
        logs(result, verbosity, &mut text);
    }
    text
}

/// The details of a failed scenario.
fn failure_details(result: &ScenarioResult, text: &mut String) {
    if let Some(error) = &result.error {
        let _written = writeln!(text, "   {}", indented(error, "   "));
    }
    for step in result.bad_steps() {
        let phase = match step.phase {
            Phase::Steps => "step",
            Phase::Cleanup => "cleanup step",
        };
        let args = step.step.args.as_ref().filter(|args| !args.is_empty());
        let args = args.map(|args| format!(" {}", cut(&serde_json::json!(args).to_string(), 160)));
        let _written = writeln!(
            text,
            "   {} {phase} `{}`: {}{}",
            step.status.symbol(),
            step.step.id,
            step.step.tool,
            args.unwrap_or_default(),
        );
        let (file, line) = (result.scenario.file.display(), step.step.line);
        let _written = writeln!(text, "      at {file}:{line}");
        if let Some(error) = &step.error {
            let _written = writeln!(text, "      {}", indented(error, "      "));
        }
        for difference in &step.differences {
            let Difference { at, expected, got } = difference;
            let _written = writeln!(text, "      {at}");
            let _written =
                writeln!(text, "        expected {}", indented(expected, "                 "));
            let _written =
                writeln!(text, "        got      {}", indented(got, "                 "));
        }
    }
}

fn verbose_step(step: &StepResult, text: &mut String) {
    let took = duration::short(step.took);
    let (symbol, id, tool) = (step.status.symbol(), &step.step.id, &step.step.tool);
    let _written = writeln!(text, "   {symbol} {id} ({tool}, {took})");
    if let Some(response) = step.response.as_deref().filter(|response| !response.is_empty()) {
        let _written = writeln!(text, "      {}", indented(&cut(response, RESPONSE), "      "));
    }
}

fn logs(result: &ScenarioResult, verbosity: Verbosity, text: &mut String) {
    let lines: Vec<&str> = result.logs.lines().collect();
    if lines.is_empty() {
        return;
    }
    let shown =
        if verbosity >= Verbosity::Debug { lines.len() } else { LOG_LINES.min(lines.len()) };
    let hidden = lines.len() - shown;
    let _written = match hidden {
        0 => writeln!(text, "   instance logs:"),
        hidden => {
            writeln!(text, "   instance logs, the last {shown} lines ({hidden} before them):")
        }
    };
    for line in lines.iter().skip(hidden) {
        let _written = writeln!(text, "   │ {line}");
    }
}

/// The lines after the last scenario.
pub fn summary(report: &Report) -> String {
    let counts = report.counts();
    let StatusCounts { passed, failed, errors, skipped } = counts;
    let mut text = String::from("\n🏁 Test Suite Complete\n");
    let _written = writeln!(text, "⏱️  Duration: {}", duration::short(report.took));
    let _written = writeln!(text, "✅ Passed: {passed}");
    let _written = writeln!(text, "❌ Failed: {failed}");
    let _written = writeln!(text, "💥 Errors: {errors}");
    let _written = writeln!(text, "⏭️  Skipped: {skipped}");
    let _written = writeln!(text, "📈 Total: {}", counts.total());
    let _written = writeln!(text, "📏 Success Rate: {:.1}%", counts.rate());
    let bad: Vec<&str> = report
        .results
        .iter()
        .filter(|result| result.status.is_bad())
        .map(|result| result.scenario.name.as_str())
        .collect();
    if bad.is_empty() {
        text.push_str("🎉 All tests passed!\n");
    } else {
        text.push_str("💔 Some tests failed\n");
        for name in bad {
            let _written = writeln!(text, "   {name}");
        }
    }
    text
}

fn indented(text: &str, indent: &str) -> String {
    text.trim_end().replace('\n', &format!("\n{indent}"))
}

fn cut(text: &str, length: usize) -> String {
    let short: String = text.chars().take(length).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests;
