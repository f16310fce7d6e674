//! What a run is asked to do.

use std::{num::NonZero, path::PathBuf, thread, time::Duration};

/// How many scenarios may be asked to run at once.
pub const MOST_PARALLEL: usize = 50;
/// How many instances one core can serve: they wait most of the time.
const PER_CORE: usize = 6;

/// Everything a run needs to know.
#[derive(Debug, Clone)]
pub struct Options {
    /// The program under test. It has to know `serve` and `test --mock-mcp-server`.
    pub muster: PathBuf,
    /// A scenario file or a directory of them.
    pub config: PathBuf,
    /// Which of them.
    pub selection: Selection,
    /// How many at once; see [`Options::workers`].
    pub parallel: usize,
    /// Whether the first failure ends the run.
    pub on_failure: OnFailure,
    /// How long the whole run may take.
    pub timeout: Duration,
    /// The first port that is tried for an instance.
    pub base_port: u16,
    /// How much is told.
    pub detail: Detail,
    /// Where report files go.
    pub report: Option<PathBuf>,
    /// What becomes of the directories of instances.
    pub directories: Directories,
    /// Counts the tokens of a text.
    pub tokens: fn(&str) -> usize,
}

/// Which scenarios of a directory run.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only those of this category.
    pub category: Option<Category>,
    /// Only those about this.
    pub concept: Option<Concept>,
    /// Only those of this name.
    pub scenario: Option<String>,
    /// What happens to those that say `skip: true`.
    pub skipped: Skipped,
}

/// What happens to scenarios that say `skip: true`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Skipped {
    /// They do not run.
    #[default]
    LeaveOut,
    /// They run like any other.
    Run,
}

/// Whether the first failure ends the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The others run too.
    #[default]
    GoOn,
    /// Nothing is started after it.
    Stop,
}

/// How much is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// A line for each scenario, and what is wrong where one failed.
    #[default]
    Normal,
    /// Each step too.
    Verbose,
    /// And what the instances logged.
    Debug,
}

/// What becomes of the directories of instances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Directories {
    /// They go.
    #[default]
    Remove,
    /// They stay, to be looked at.
    Keep,
}

/// The categories that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// What a user sees.
    Behavioral,
    /// Several parts together.
    Integration,
}

/// The concepts that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concept {
    /// Service classes.
    ServiceClass,
    /// Workflows.
    Workflow,
    /// Servers behind muster.
    McpServer,
    /// Services.
    Service,
}

impl Category {
    /// As files say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Behavioral => "behavioral",
            Self::Integration => "integration",
        }
    }

    /// Reads what was typed; the error is the sentence to print.
    pub fn parse(text: &str) -> Result<Self, String> {
        [Self::Behavioral, Self::Integration]
            .into_iter()
            .find(|category| category.name() == text)
            .ok_or_else(|| {
                format!("invalid category '{text}', must be 'behavioral' or 'integration'")
            })
    }
}

impl Concept {
    /// As files say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServiceClass => "serviceclass",
            Self::Workflow => "workflow",
            Self::McpServer => "mcpserver",
            Self::Service => "service",
        }
    }

    /// Reads what was typed; the error is the sentence to print.
    pub fn parse(text: &str) -> Result<Self, String> {
        [Self::ServiceClass, Self::Workflow, Self::McpServer, Self::Service]
            .into_iter()
            .find(|concept| concept.name() == text)
            .ok_or_else(|| {
                format!(
                    "invalid concept '{text}', must be one of: serviceclass, workflow, mcpserver, service"
                )
            })
    }
}

impl Options {
    /// The usual run of everything in `config` against `muster`.
    pub fn new(muster: impl Into<PathBuf>, config: impl Into<PathBuf>) -> Self {
        Self {
            muster: muster.into(),
            config: config.into(),
            selection: Selection::default(),
            parallel: MOST_PARALLEL,
            on_failure: OnFailure::default(),
            timeout: Duration::from_secs(600),
            base_port: 18_000,
            detail: Detail::default(),
            report: None,
            directories: Directories::default(),
            tokens: crate::budget::approximate_tokens,
        }
    }

    /// Reads how many run at once; the error is the sentence to print.
    pub fn parallel(number: usize) -> Result<usize, String> {
        if (1..=MOST_PARALLEL).contains(&number) {
            Ok(number)
        } else {
            Err(format!("parallel workers must be between 1 and 50, got {number}"))
        }
    }

    /// How many really run at once: more than the machine can start in time would only make them
    /// miss their limits.
    pub fn workers(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        self.parallel.clamp(1, cores * PER_CORE)
    }
}
