//! Runs scenarios concurrently and collects their results.

mod scenario_run;

use std::{
    collections::{BTreeMap, VecDeque},
    io::{self, Write},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_exec::launcher::Launcher;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::{
    signal::unix::{SignalKind, signal},
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use muster_core::backend::boxed;

use crate::{
    duration,
    instance::RunEnvironment,
    load::{self, LoadedFile, ScenarioLoadError},
    options::{Category, Concept, DirectoryCleanup, OnFailure, RunOptions, Verbosity},
    report::{Report, RunVerdict, ScenarioResult, TestStatus, human},
    scenario::Scenario,
};

/// Why a run could not start.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenarios cannot be loaded.
    #[error("test execution failed: {0}")]
    Load(#[from] ScenarioLoadError),
    /// A directory or the output cannot be written.
    #[error("test execution failed: {0}")]
    Io(#[from] io::Error),
}

/// Runs the selected scenarios, prints progress and a summary, and writes the reports. Every process ends
/// with its scenario; the launcher itself belongs to the caller.
pub async fn run(
    options: &RunOptions,
    launcher: &Launcher,
    out: &mut (dyn Write + Send),
) -> Result<RunVerdict, RunError> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let interrupted = async {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    };
    let report = report(options, launcher, interrupted, out).await?;
    out.write_all(human::summary(&report).as_bytes())?;
    if let Some(dir) = &options.report {
        for file in report.write(dir, &configuration(options))? {
            writeln!(out, "📄 {}", file.display())?;
        }
    }
    out.flush()?;
    Ok(report.verdict())
}

/// Runs the selected scenarios until done or interrupted, prints progress, and returns the full report.
pub async fn report(
    options: &RunOptions,
    launcher: &Launcher,
    interrupted: impl Future<Output = ()>,
    out: &mut (dyn Write + Send),
) -> Result<Report, RunError> {
    let started = Timestamp::now();
    let begin = Instant::now();
    let loaded = load::load(&options.config)?;
    if options.verbosity >= Verbosity::Verbose {
        for warning in loaded.iter().flat_map(LoadedFile::warnings) {
            writeln!(out, "⚠️  {warning}")?;
        }
    }
    let (scenarios, left_out) = load::choose(loaded, &options.selection)?;
    write!(out, "{}", human::banner(options, scenarios.len()))?;
    let environment = RunEnvironment::new(launcher.clone(), options)?;
    let mut scheduler = Scheduler {
        options,
        environment: Arc::new(environment),
        queued: scenarios.into(),
        running: JoinSet::new(),
        results: Vec::new(),
        running_scenarios: BTreeMap::new(),
    };
    scheduler.run(begin + options.timeout, interrupted, out).await?;
    if options.directory_cleanup == DirectoryCleanup::Keep {
        writeln!(out, "📁 {}", scheduler.environment.root().display())?;
    }
    let mut results = scheduler.results;
    let skipped = |scenario| ScenarioResult::skipped(scenario, "`skip: true`");
    results.extend(left_out.into_iter().map(skipped));
    results.sort_by(|one, other| one.scenario.file.cmp(&other.scenario.file));
    Ok(Report { started, took: begin.elapsed(), results })
}

/// Runs queued scenarios, a limited number at a time.
struct Scheduler<'a> {
    options: &'a RunOptions,
    environment: Arc<RunEnvironment>,
    queued: VecDeque<Scenario>,
    running: JoinSet<ScenarioResult>,
    results: Vec<ScenarioResult>,
    /// By task.
    running_scenarios: BTreeMap<Id, Scenario>,
}

/// An event of the scheduler.
enum Event {
    Done(Box<Result<(Id, ScenarioResult), JoinError>>),
    AllDone,
    Timeout,
    Interrupted,
}

impl Scheduler<'_> {
    async fn run(
        &mut self,
        deadline: Instant,
        interrupted: impl Future<Output = ()>,
        out: &mut (dyn Write + Send),
    ) -> io::Result<()> {
        let workers = self.options.workers();
        let mut interrupted = pin!(interrupted);
        loop {
            while self.running.len() < workers
                && let Some(scenario) = self.queued.pop_front()
            {
                if workers == 1 {
                    write!(out, "{}", human::scenario_started(&scenario.name))?;
                    out.flush()?;
                }
                let task = scenario_run::run(
                    Arc::clone(&self.environment),
                    scenario.clone(),
                    self.options.tokens,
                );
                let id = self.running.spawn(boxed(task)).id();
                self.running_scenarios.insert(id, scenario);
            }
            let event = tokio::select! {
                done = self.running.join_next_with_id() => {
                    done.map_or(Event::AllDone, |done| Event::Done(Box::new(done)))
                }
                () = sleep_until(deadline) => Event::Timeout,
                () = &mut interrupted => Event::Interrupted,
            };
            match event {
                Event::Done(done) => self.finish(*done, workers, out)?,
                Event::AllDone => return Ok(()),
                Event::Timeout => {
                    let limit = duration::short(self.options.timeout);
                    return self.abort(&format!("the run timed out after {limit}"), out).await;
                }
                Event::Interrupted => {
                    writeln!(out, "\nReceived interrupt signal, stopping tests gracefully...")?;
                    return self.abort("the run was interrupted", out).await;
                }
            }
        }
    }

    fn finish(
        &mut self,
        done: Result<(Id, ScenarioResult), JoinError>,
        workers: usize,
        out: &mut (dyn Write + Send),
    ) -> io::Result<()> {
        let result = match done {
            Ok((id, result)) => {
                self.running_scenarios.remove(&id);
                result
            }
            // A bug in the runner must not abort the other scenarios.
            Err(err) => {
                let Some(scenario) = self.running_scenarios.remove(&err.id()) else {
                    return Ok(());
                };
                let mut result = ScenarioResult::skipped(scenario, &format!("the runner: {err}"));
                result.status = TestStatus::Error;
                result
            }
        };
        if workers > 1 {
            write!(out, "{}", human::scenario_started(&result.scenario.name))?;
        }
        write!(out, "{}", human::scenario_finished(&result, self.options.verbosity))?;
        out.flush()?;
        if result.status == TestStatus::Failed && self.options.on_failure == OnFailure::Stop {
            let queued = self.queued.drain(..);
            let left = queued.map(|s| ScenarioResult::skipped(s, "an earlier scenario failed"));
            self.results.extend(left);
        }
        self.results.push(result);
        Ok(())
    }

    /// Stops running scenarios; unfinished ones are reported as errors.
    async fn abort(&mut self, reason: &str, out: &mut (dyn Write + Send)) -> io::Result<()> {
        self.running.shutdown().await;
        let running = std::mem::take(&mut self.running_scenarios).into_values();
        for scenario in running.chain(self.queued.drain(..)) {
            let mut result = ScenarioResult::skipped(scenario, reason);
            result.status = TestStatus::Error;
            write!(out, "{}", human::scenario_started(&result.scenario.name))?;
            write!(out, "{}", human::scenario_finished(&result, self.options.verbosity))?;
            self.results.push(result);
        }
        Ok(())
    }
}

fn configuration(options: &RunOptions) -> Value {
    let selection = &options.selection;
    json!({
        "muster": options.muster.display().to_string(),
        "config": options.config.display().to_string(),
        "category": selection.category.map(Category::name),
        "concept": selection.concept.map(Concept::name),
        "scenario": selection.scenario,
        "parallel": options.parallel,
        "workers": options.workers(),
        "fail_fast": options.on_failure == OnFailure::Stop,
        "timeout": u64::try_from(Duration::as_nanos(&options.timeout)).unwrap_or(u64::MAX),
        "base_port": options.base_port,
    })
}
