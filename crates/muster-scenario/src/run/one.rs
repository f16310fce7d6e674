//! One scenario, from an empty directory to nothing left.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    client::Listening,
    instance::{Ground, Instance},
    report::{Phase, ScenarioResult, Word},
    scenario::Scenario,
    step::{self, Tokens},
    subject::Subject,
};

/// How long a scenario may take that does not say.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) async fn run(ground: Arc<Ground>, scenario: Scenario, tokens: Tokens) -> ScenarioResult {
    let begin = Instant::now();
    let mut result = ScenarioResult::new(scenario.clone());
    let deadline = begin + scenario.timeout.unwrap_or(LIMIT);
    match Instance::start(&ground, &scenario, deadline).await {
        Ok(instance) => {
            Box::pin(on_instance(instance, &scenario, deadline, tokens, &mut result)).await;
        }
        Err(err) => (result.word, result.error) = (Word::Error, Some(err.to_string())),
    }
    result.took = begin.elapsed();
    result
}

async fn on_instance(
    mut instance: Instance,
    scenario: &Scenario,
    deadline: Instant,
    tokens: Tokens,
    result: &mut ScenarioResult,
) {
    let listening = if scenario.listens() { Listening::Open } else { Listening::Closed };
    let target = instance.target(listening);
    let mut instance = match instance.ready(&target).await {
        Ok(client) => {
            let mut subject = Subject::new(instance, client, listening, deadline);
            Box::pin(perform(&mut subject, scenario, tokens, result)).await;
            subject.instance
        }
        Err(err) => {
            (result.word, result.error) = (Word::Error, Some(err.to_string()));
            instance
        }
    };
    let left = instance.stop().await;
    if !left.is_empty() {
        let left = format!("processes were left behind:\n{}", left.join("\n"));
        let before = result.error.take().map(|error| format!("{error}\n")).unwrap_or_default();
        result.error = Some(format!("{before}{left}"));
        if result.word == Word::Passed {
            result.word = Word::Failed;
        }
    }
    result.logs = instance.logs();
}

async fn perform(
    subject: &mut Subject,
    scenario: &Scenario,
    tokens: Tokens,
    result: &mut ScenarioResult,
) {
    result.word = Word::Passed;
    for step in &scenario.steps {
        let done = step::run(subject, step, Phase::Steps, tokens).await;
        let word = done.word;
        result.steps.push(done);
        if word.is_bad() {
            result.word = word;
            break;
        }
    }
    for step in &scenario.cleanup {
        let done = step::run(subject, step, Phase::Cleanup, tokens).await;
        if done.word.is_bad() && result.word == Word::Passed {
            result.word = Word::Failed;
        }
        result.steps.push(done);
    }
}
