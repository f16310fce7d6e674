//! One step: who calls, with what, and whether the answer is as expected.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use crate::{
    builtin,
    client::{Client, Failure, Heard},
    expect::{self, Difference, Outcome},
    report::{Phase, StepResult, Word},
    scenario::{ExpectedNotification, Step},
    subject::Subject,
    template,
};

/// How long a step that waits for a state leaves between two calls.
const BETWEEN_CALLS: Duration = Duration::from_secs(1);

/// Counts the tokens of a text.
pub(crate) type Tokens = fn(&str) -> usize;

pub(crate) async fn run(
    subject: &mut Subject,
    step: &Step,
    phase: Phase,
    tokens: Tokens,
) -> StepResult {
    let (started, begin) = (Timestamp::now(), Instant::now());
    let mut result = StepResult::new(step.clone(), phase, started);
    let judged = attempt(subject, step, tokens, &mut result).await;
    (result.word, result.error) = match judged {
        Ok(()) if result.differences.is_empty() => (Word::Passed, None),
        Ok(()) => (Word::Failed, Some("step expectations not met".to_owned())),
        Err(error) => (Word::Error, Some(error)),
    };
    result.took = begin.elapsed();
    result
}

/// The error is what kept the step from being judged.
async fn attempt(
    subject: &mut Subject,
    step: &Step,
    tokens: Tokens,
    result: &mut StepResult,
) -> Result<(), String> {
    if let Some(user) = &step.as_user
        && !subject.switch(user)
    {
        return Err(format!("as_user '{user}' not found; use test_create_user first"));
    }
    let given = step.args.clone().map(Value::Object).unwrap_or_default();
    let args = template::substitute(&given, &subject.variables)
        .map_err(|err| format!("failed to resolve template variables: {err}"))?;
    let expected = step.expected.filled(&subject.variables);
    let expected =
        &expected.map_err(|err| format!("failed to resolve template variables: {err}"))?;
    let already = subject.client().map_or(0, Client::heard);
    let begin = Instant::now();
    let mut outcome = call(subject, step, &args).await;
    let mut took = begin.elapsed();
    let mut differences = expect::check(expected, &outcome, took, tokens);
    if let Some(limit) = expected.wait_for_state {
        // The first answer may still be the one from before, so only later ones count.
        let end = Instant::now() + subject.limit(Some(limit));
        loop {
            sleep(BETWEEN_CALLS).await;
            let begin = Instant::now();
            outcome = call(subject, step, &args).await;
            took = begin.elapsed();
            result.calls += 1;
            differences = expect::check(expected, &outcome, took, tokens);
            if differences.is_empty() || Instant::now() >= end {
                break;
            }
        }
    }
    for expected in &expected.notifications {
        differences.extend(notified(subject, expected, already).await);
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
        // A number that came as JSON prints as a float, as it always did.
        let value = crate::goform::as_received(answer.to_value());
        subject.variables.insert(step.id.clone(), value);
    }
    result.differences = differences;
    Ok(())
}

async fn call(subject: &mut Subject, step: &Step, args: &Value) -> Outcome {
    let args = args.as_object();
    let limit = subject.limit(step.timeout);
    if step.tool.starts_with(builtin::PREFIX) {
        let args = args.cloned().unwrap_or_default();
        let run = timeout(limit, builtin::run(subject, &step.tool, &args)).await;
        return run.unwrap_or(Err(Failure::TimedOut(limit)));
    }
    subject.client()?.call(&step.tool, args, limit).await
}

/// Looks at the notifications since the step began, and waits for them as long as is said.
async fn notified(
    subject: &Subject,
    expected: &ExpectedNotification,
    already: usize,
) -> Option<Difference> {
    let mut all = match subject.client() {
        Ok(client) => client.notifications(),
        Err(failure) => {
            return Some(Difference::new("notifications", "a connection", failure.to_string()));
        }
    };
    // After a restart the session is new, and so is its list.
    let since = |heard: &Vec<Heard>| heard.get(already..).unwrap_or(heard).to_vec();
    let arrives = all.wait_for(|heard| expect::is_heard(expected, &since(heard)));
    // Whether it came or not is judged below, by what has arrived.
    drop(timeout(expected.within, arrives).await);
    let heard = since(&all.borrow());
    expect::check_notification(expected, &heard)
}
