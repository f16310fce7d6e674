//! Runs one scenario, from an empty directory to the last process gone.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    client::NotificationStream,
    context::ScenarioContext,
    instance::{Instance, RunEnvironment},
    report::{Phase, ScenarioResult, TestStatus},
    scenario::Scenario,
    step::{self, TokenCounter},
};

/// The default timeout of a scenario.
const LIMIT: Duration = Duration::from_secs(600);

pub(super) async fn run(
    environment: Arc<RunEnvironment>,
    scenario: Scenario,
    tokens: TokenCounter,
) -> ScenarioResult {
    let begin = Instant::now();
    let mut result = ScenarioResult::new(scenario.clone());
    let deadline = begin + scenario.timeout.unwrap_or(LIMIT);
    match Instance::start(&environment, &scenario, deadline).await {
        Ok(instance) => {
            Box::pin(on_instance(instance, &scenario, deadline, tokens, &mut result)).await;
        }
        Err(err) => (result.status, result.error) = (TestStatus::Error, Some(err.to_string())),
    }
    result.took = begin.elapsed();
    result
}

async fn on_instance(
    mut instance: Instance,
    scenario: &Scenario,
    deadline: Instant,
    tokens: TokenCounter,
    result: &mut ScenarioResult,
) {
    let listening =
        if scenario.listens() { NotificationStream::Open } else { NotificationStream::Closed };
    let target = instance.target(listening);
    let mut instance = match instance.ready(&target).await {
        Ok(client) => {
            let mut context = ScenarioContext::new(instance, client, listening, deadline);
            Box::pin(perform(&mut context, scenario, tokens, result)).await;
            context.instance
        }
        Err(err) => {
            (result.status, result.error) = (TestStatus::Error, Some(err.to_string()));
            instance
        }
    };
    let left = instance.stop().await;
    if !left.is_empty() {
        let left = format!("processes were left behind:\n{}", left.join("\n"));
        let before = result.error.take().map(|error| format!("{error}\n")).unwrap_or_default();
        result.error = Some(format!("{before}{left}"));
        if result.status == TestStatus::Passed {
            result.status = TestStatus::Failed;
        }
    }
    result.logs = instance.logs();
}

async fn perform(
    context: &mut ScenarioContext,
    scenario: &Scenario,
    tokens: TokenCounter,
    result: &mut ScenarioResult,
) {
    result.status = TestStatus::Passed;
    for step in &scenario.steps {
        let done = Box::pin(step::run(context, step, Phase::Steps, tokens)).await;
        let status = done.status;
        result.steps.push(done);
        if status.is_bad() {
            result.status = status;
            break;
        }
    }
    for step in &scenario.cleanup {
        let done = Box::pin(step::run(context, step, Phase::Cleanup, tokens)).await;
        if done.status.is_bad() && result.status == TestStatus::Passed {
            result.status = TestStatus::Failed;
        }
        result.steps.push(done);
    }
}
