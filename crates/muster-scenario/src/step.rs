//! Runs one step and checks its result.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    builtin,
    client::{Client, ClientError, ReceivedNotification},
    context::ScenarioContext,
    expect::{self, Difference, StepOutcome},
    report::{Phase, StepResult, TestStatus},
    scenario::{ExpectedNotification, Step},
    template,
};

/// Between two calls of a step with `wait_for_state`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Counts the tokens of a text.
pub(crate) type TokenCounter = fn(&str) -> usize;

pub(crate) async fn run(
    context: &mut ScenarioContext,
    step: &Step,
    phase: Phase,
    tokens: TokenCounter,
) -> StepResult {
    let (started, begin) = (Timestamp::now(), Instant::now());
    let mut result = StepResult::new(step.clone(), phase, started);
    let judged = attempt(context, step, tokens, &mut result).await;
    (result.status, result.error) = match judged {
        Ok(()) if result.differences.is_empty() => (TestStatus::Passed, None),
        Ok(()) => (TestStatus::Failed, Some("step expectations not met".to_owned())),
        Err(error) => (TestStatus::Error, Some(error)),
    };
    result.took = begin.elapsed();
    result
}

/// The error says why the step could not be checked.
async fn attempt(
    context: &mut ScenarioContext,
    step: &Step,
    tokens: TokenCounter,
    result: &mut StepResult,
) -> Result<(), String> {
    if let Some(user) = &step.as_user
        && !context.switch(user)
    {
        return Err(format!("as_user '{user}' not found; use test_create_user first"));
    }
    let args = step.args.clone().map(Value::Object).unwrap_or_default();
    let args = template::substitute(&args, &context.variables)
        .map_err(|err| format!("failed to resolve template variables: {err}"))?;
    let expected = step.expected.resolved(&context.variables);
    let expected =
        &expected.map_err(|err| format!("failed to resolve template variables: {err}"))?;
    let already = context.client().map_or(0, Client::notification_count);
    let begin = Instant::now();
    let mut outcome = call(context, step, &args).await;
    let mut took = begin.elapsed();
    let mut differences = expect::check(expected, &outcome, took, tokens);
    if let Some(limit) = expected.wait_for_state {
        // The first result may predate the change, so only later ones count.
        let end = Instant::now() + context.limit(Some(limit));
        loop {
            sleep(POLL_INTERVAL).await;
            let begin = Instant::now();
            outcome = call(context, step, &args).await;
            took = begin.elapsed();
            result.calls += 1;
            differences = expect::check(expected, &outcome, took, tokens);
            if differences.is_empty() || Instant::now() >= end {
                break;
            }
        }
    }
    for expected in &expected.notifications {
        differences.extend(check_notification(context, expected, already).await);
    }
    result.response = Some(match &outcome {
        Ok(answer) => answer.text(),
        Err(failure) => failure.to_string(),
    });
    if let (Err(failure), true) = (&outcome, expected.success) {
        result.differences = differences;
        return Err(format!("tool call failed: {failure}"));
    }
    if let (Ok(answer), true) = (&outcome, differences.is_empty()) {
        // Numbers received as JSON print as floats, as in the original.
        let value = crate::go_format::as_received(answer.to_value());
        context.variables.insert(step.id.clone(), value);
    }
    result.differences = differences;
    Ok(())
}

async fn call(context: &mut ScenarioContext, step: &Step, args: &Value) -> StepOutcome {
    let args = args.as_object();
    let limit = context.limit(step.timeout);
    if step.tool.starts_with(builtin::PREFIX) {
        let args = args.cloned().unwrap_or_default();
        let run = timeout(limit, builtin::run(context, &step.tool, &args)).await;
        return run.unwrap_or(Err(ClientError::TimedOut(limit)));
    }
    context.client()?.call(&step.tool, args, limit).await
}

/// Checks the notifications since the start of the step, waiting for up to `within`.
async fn check_notification(
    context: &ScenarioContext,
    expected: &ExpectedNotification,
    already: usize,
) -> Option<Difference> {
    let mut all = match context.client() {
        Ok(client) => client.notifications(),
        Err(failure) => {
            return Some(Difference::new("notifications", "a connection", failure.to_string()));
        }
    };
    // After a restart the session is new, and its list starts empty.
    let since =
        |received: &Vec<ReceivedNotification>| received.get(already..).unwrap_or(received).to_vec();
    let arrival = all.wait_for(|received| expect::is_received(expected, &since(received)));
    // Whether it arrived in time is decided below.
    drop(timeout(expected.within, arrival).await);
    let received = since(&all.borrow());
    expect::check_notification(expected, &received)
}
