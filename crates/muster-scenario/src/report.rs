//! The results of a run, and their reports for people and programs.

pub mod human;
pub mod json;
pub mod junit;

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use jiff::{Timestamp, Zoned};

use crate::{
    expect::Difference,
    scenario::{Scenario, Step},
};

/// The status of a step or a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TestStatus {
    /// All expectations hold.
    Passed,
    /// An expectation does not hold.
    Failed,
    /// It could not be checked.
    Error,
    /// It did not run.
    Skipped,
}

/// The part of a scenario that a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The steps.
    Steps,
    /// The cleanup steps.
    Cleanup,
}

/// The result of a step.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The step.
    pub step: Step,
    /// The part it belongs to.
    pub phase: Phase,
    /// Its status.
    pub status: TestStatus,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The last result.
    pub response: Option<String>,
    /// The error message.
    pub error: Option<String>,
    /// Every expectation that does not hold.
    pub differences: Vec<Difference>,
    /// How often the call was repeated.
    pub calls: u32,
}

/// The result of a scenario.
#[derive(Debug, Clone)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: Scenario,
    /// Its status.
    pub status: TestStatus,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The steps that ran.
    pub steps: Vec<StepResult>,
    /// The error outside of steps, or why it did not run.
    pub error: Option<String>,
    /// The logs of the instance.
    pub logs: String,
}

/// The results of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The scenarios, ordered by file.
    pub results: Vec<ScenarioResult>,
}

/// The number of scenarios by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StatusCounts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Could not be checked.
    pub errors: usize,
    /// Did not run.
    pub skipped: usize,
}

/// Whether a run passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunVerdict {
    /// Nothing failed, or nothing ran.
    Passed,
    /// Something failed or could not be checked.
    Failed,
}

impl TestStatus {
    /// Its name in report files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Error => "ERROR",
            Self::Skipped => "SKIPPED",
        }
    }

    /// Its symbol on a terminal.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Passed => "✅",
            Self::Failed => "❌",
            Self::Error => "💥",
            Self::Skipped => "⏭️",
        }
    }

    /// Whether it is a failure or an error.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

impl StepResult {
    pub(crate) const fn new(step: Step, phase: Phase, started: Timestamp) -> Self {
        Self {
            step,
            phase,
            status: TestStatus::Skipped,
            started,
            took: Duration::ZERO,
            response: None,
            error: None,
            differences: Vec::new(),
            calls: 0,
        }
    }
}

impl ScenarioResult {
    pub(crate) fn new(scenario: Scenario) -> Self {
        Self {
            scenario,
            status: TestStatus::Skipped,
            started: Timestamp::now(),
            took: Duration::ZERO,
            steps: Vec::new(),
            error: None,
            logs: String::new(),
        }
    }

    /// A scenario that does not run, with the reason.
    pub(crate) fn skipped(scenario: Scenario, reason: &str) -> Self {
        Self { error: Some(reason.to_owned()), ..Self::new(scenario) }
    }

    /// The steps that failed.
    pub fn bad_steps(&self) -> impl Iterator<Item = &StepResult> {
        self.steps.iter().filter(|step| step.status.is_bad())
    }
}

impl Report {
    /// The number of scenarios by status.
    pub fn counts(&self) -> StatusCounts {
        let mut counts = StatusCounts::default();
        for result in &self.results {
            match result.status {
                TestStatus::Passed => counts.passed += 1,
                TestStatus::Failed => counts.failed += 1,
                TestStatus::Error => counts.errors += 1,
                TestStatus::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// Whether the run passed.
    pub fn verdict(&self) -> RunVerdict {
        match self.counts() {
            StatusCounts { failed: 0, errors: 0, .. } => RunVerdict::Passed,
            _ => RunVerdict::Failed,
        }
    }

    /// Writes the report files into a directory: JSON, and JUnit XML for CI.
    pub fn write(&self, dir: &Path, configuration: &serde_json::Value) -> io::Result<Vec<PathBuf>> {
        fs::create_dir_all(dir)?;
        let stamp = Zoned::now().strftime("%Y%m%d-%H%M%S").to_string();
        let path = |extension: &str| dir.join(format!("muster-test-report-{stamp}.{extension}"));
        let files = [
            (path("json"), json::document(self, configuration)),
            (path("xml"), junit::document(self)),
        ];
        for (path, text) in &files {
            fs::write(path, text)?;
        }
        Ok(files.map(|(path, _)| path).into())
    }
}

impl StatusCounts {
    /// All scenarios.
    pub const fn total(&self) -> usize {
        self.passed + self.failed + self.errors + self.skipped
    }

    /// The percentage of scenarios that passed, of those that ran.
    pub fn rate(&self) -> f64 {
        let ran = self.passed + self.failed + self.errors;
        if ran == 0 { 0.0 } else { self.passed as f64 * 100.0 / ran as f64 }
    }
}
