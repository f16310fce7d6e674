//! What came of a run: a value first, then words for people and files for machines.

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

/// What came of a step or a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// Everything is as expected.
    Passed,
    /// Something is not as expected.
    Failed,
    /// It could not be found out.
    Error,
    /// It did not run.
    Skipped,
}

/// Which part of a scenario a step belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The steps.
    Steps,
    /// What is done at the end, whatever happened.
    Cleanup,
}

/// What came of a step.
#[derive(Debug, Clone)]
pub struct StepResult {
    /// The step.
    pub step: Step,
    /// Where it belongs.
    pub phase: Phase,
    /// What came of it.
    pub word: Word,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The last answer.
    pub response: Option<String>,
    /// What is wrong, in one sentence.
    pub error: Option<String>,
    /// What is wrong, one by one.
    pub differences: Vec<Difference>,
    /// How often the tool was called again.
    pub calls: u32,
}

/// What came of a scenario.
#[derive(Debug, Clone)]
pub struct ScenarioResult {
    /// The scenario.
    pub scenario: Scenario,
    /// What came of it.
    pub word: Word,
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// Its steps, as far as they ran.
    pub steps: Vec<StepResult>,
    /// What is wrong apart from steps, or why it did not run.
    pub error: Option<String>,
    /// What the instance printed.
    pub logs: String,
}

/// What came of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// When it began.
    pub started: Timestamp,
    /// How long it took.
    pub took: Duration,
    /// The scenarios, in the order of their files.
    pub results: Vec<ScenarioResult>,
}

/// How many scenarios ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Not found out.
    pub errors: usize,
    /// Did not run.
    pub skipped: usize,
}

/// Whether a run is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing failed; also when nothing ran.
    Passed,
    /// Something failed, or could not be found out.
    Failed,
}

impl Word {
    /// As reports write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passed => "PASSED",
            Self::Failed => "FAILED",
            Self::Error => "ERROR",
            Self::Skipped => "SKIPPED",
        }
    }

    /// As terminals show it.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Passed => "✅",
            Self::Failed => "❌",
            Self::Error => "💥",
            Self::Skipped => "⏭️",
        }
    }

    /// Whether something is wrong.
    pub const fn is_bad(self) -> bool {
        matches!(self, Self::Failed | Self::Error)
    }
}

impl StepResult {
    pub(crate) const fn new(step: Step, phase: Phase, started: Timestamp) -> Self {
        Self {
            step,
            phase,
            word: Word::Skipped,
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
            word: Word::Skipped,
            started: Timestamp::now(),
            took: Duration::ZERO,
            steps: Vec::new(),
            error: None,
            logs: String::new(),
        }
    }

    /// One that does not run, and why.
    pub(crate) fn skipped(scenario: Scenario, reason: &str) -> Self {
        Self { error: Some(reason.to_owned()), ..Self::new(scenario) }
    }

    /// The steps that are not as expected.
    pub fn bad_steps(&self) -> impl Iterator<Item = &StepResult> {
        self.steps.iter().filter(|step| step.word.is_bad())
    }
}

impl Report {
    /// How many ended how.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for result in &self.results {
            match result.word {
                Word::Passed => counts.passed += 1,
                Word::Failed => counts.failed += 1,
                Word::Error => counts.errors += 1,
                Word::Skipped => counts.skipped += 1,
            }
        }
        counts
    }

    /// Whether it is good.
    pub fn verdict(&self) -> Verdict {
        match self.counts() {
            Counts { failed: 0, errors: 0, .. } => Verdict::Passed,
            _ => Verdict::Failed,
        }
    }

    /// Writes the report files into a directory: one for programs, one for CI.
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

impl Counts {
    /// All scenarios.
    pub const fn total(&self) -> usize {
        self.passed + self.failed + self.errors + self.skipped
    }

    /// Of those that ran, how many in a hundred passed.
    pub fn rate(&self) -> f64 {
        let ran = self.passed + self.failed + self.errors;
        if ran == 0 { 0.0 } else { self.passed as f64 * 100.0 / ran as f64 }
    }
}
