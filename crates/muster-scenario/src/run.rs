//! Many scenarios, some at once, and what came of them.

mod one;

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

use crate::{
    duration,
    instance::Ground,
    load::{self, LoadError, Loaded},
    options::{Category, Concept, Detail, Directories, OnFailure, Options},
    report::{Report, ScenarioResult, Verdict, Word, human},
    scenario::Scenario,
};

/// Why nothing was run.
#[derive(Debug, Error)]
pub enum RunError {
    /// The scenarios are not to be had.
    #[error("test execution failed: {0}")]
    Load(#[from] LoadError),
    /// A directory, or the place that output goes to, is not to be had.
    #[error("test execution failed: {0}")]
    Io(#[from] io::Error),
}

/// Runs what the options say and tells about it on the way. What `launcher` starts ends with each
/// scenario; the launcher itself belongs to the caller.
pub async fn run(
    options: &Options,
    launcher: &Launcher,
    out: &mut (dyn Write + Send),
) -> Result<Verdict, RunError> {
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

/// Runs what the options say unless it is interrupted, tells about each scenario, and gives back all
/// there is to know.
pub async fn report(
    options: &Options,
    launcher: &Launcher,
    interrupted: impl Future<Output = ()>,
    out: &mut (dyn Write + Send),
) -> Result<Report, RunError> {
    let started = Timestamp::now();
    let begin = Instant::now();
    let loaded = load::load(&options.config)?;
    if options.detail >= Detail::Verbose {
        for warning in loaded.iter().flat_map(Loaded::warnings) {
            writeln!(out, "⚠️  {warning}")?;
        }
    }
    let (scenarios, left_out) = load::choose(loaded, &options.selection)?;
    write!(out, "{}", human::banner(options, scenarios.len()))?;
    let ground = Ground::new(
        launcher.clone(),
        options.muster.clone(),
        options.base_port,
        options.directories,
    )?;
    let mut crowd = Crowd {
        options,
        ground: Arc::new(ground),
        waiting: scenarios.into(),
        running: JoinSet::new(),
        results: Vec::new(),
        names: BTreeMap::new(),
    };
    crowd.run(begin + options.timeout, interrupted, out).await?;
    if options.directories == Directories::Keep {
        writeln!(out, "📁 {}", crowd.ground.root().display())?;
    }
    let mut results = crowd.results;
    let skipped = |scenario| ScenarioResult::skipped(scenario, "it says `skip: true`");
    results.extend(left_out.into_iter().map(skipped));
    results.sort_by(|one, other| one.scenario.file.cmp(&other.scenario.file));
    Ok(Report { started, took: begin.elapsed(), results })
}

/// Scenarios that wait, run, and are done.
struct Crowd<'a> {
    options: &'a Options,
    ground: Arc<Ground>,
    waiting: VecDeque<Scenario>,
    running: JoinSet<ScenarioResult>,
    results: Vec<ScenarioResult>,
    /// Of those that run, by task.
    names: BTreeMap<Id, Scenario>,
}

/// What a crowd waits for.
enum Event {
    Done(Box<Result<(Id, ScenarioResult), JoinError>>),
    AllDone,
    OutOfTime,
    Interrupted,
}

impl Crowd<'_> {
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
                && let Some(scenario) = self.waiting.pop_front()
            {
                if workers == 1 {
                    write!(out, "{}", human::beginning(&scenario.name))?;
                    out.flush()?;
                }
                let task =
                    one::run(Arc::clone(&self.ground), scenario.clone(), self.options.tokens);
                let id = self.running.spawn(task).id();
                self.names.insert(id, scenario);
            }
            let event = tokio::select! {
                done = self.running.join_next_with_id() => {
                    done.map_or(Event::AllDone, |done| Event::Done(Box::new(done)))
                }
                () = sleep_until(deadline) => Event::OutOfTime,
                () = &mut interrupted => Event::Interrupted,
            };
            match event {
                Event::Done(done) => self.done(*done, workers, out)?,
                Event::AllDone => return Ok(()),
                Event::OutOfTime => {
                    let limit = duration::short(self.options.timeout);
                    return self.give_up(&format!("the run's time is up after {limit}"), out).await;
                }
                Event::Interrupted => {
                    writeln!(out, "\nReceived interrupt signal, stopping tests gracefully...")?;
                    return self.give_up("the run was interrupted", out).await;
                }
            }
        }
    }

    fn done(
        &mut self,
        done: Result<(Id, ScenarioResult), JoinError>,
        workers: usize,
        out: &mut (dyn Write + Send),
    ) -> io::Result<()> {
        let result = match done {
            Ok((id, result)) => {
                self.names.remove(&id);
                result
            }
            // A mistake of the runner must not take the other scenarios along.
            Err(err) => {
                let Some(scenario) = self.names.remove(&err.id()) else { return Ok(()) };
                let mut result = ScenarioResult::skipped(scenario, &format!("the runner: {err}"));
                result.word = Word::Error;
                result
            }
        };
        if workers > 1 {
            write!(out, "{}", human::beginning(&result.scenario.name))?;
        }
        write!(out, "{}", human::ending(&result, self.options.detail))?;
        out.flush()?;
        if result.word == Word::Failed && self.options.on_failure == OnFailure::Stop {
            let waiting = self.waiting.drain(..);
            let left = waiting.map(|s| ScenarioResult::skipped(s, "an earlier scenario failed"));
            self.results.extend(left);
        }
        self.results.push(result);
        Ok(())
    }

    /// Ends what runs. What has not come to its end was not found out.
    async fn give_up(&mut self, reason: &str, out: &mut (dyn Write + Send)) -> io::Result<()> {
        self.running.shutdown().await;
        let running = std::mem::take(&mut self.names).into_values();
        for scenario in running.chain(self.waiting.drain(..)) {
            let mut result = ScenarioResult::skipped(scenario, reason);
            result.word = Word::Error;
            write!(out, "{}", human::beginning(&result.scenario.name))?;
            write!(out, "{}", human::ending(&result, self.options.detail))?;
            self.results.push(result);
        }
        Ok(())
    }
}

fn configuration(options: &Options) -> Value {
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
