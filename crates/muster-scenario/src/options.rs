//! The options of a test run.

use std::{num::NonZero, path::PathBuf, thread, time::Duration};

/// The upper limit of `--parallel`.
pub const MAX_PARALLEL: usize = 50;
/// Instances per core: they wait most of the time.
const WORKERS_PER_CORE: usize = 6;

/// The options of a test run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The program under test. It must support `serve` and `test --mock-mcp-server`.
    pub muster: PathBuf,
    /// A scenario file or a directory of them.
    pub config: PathBuf,
    /// The selection of scenarios.
    pub selection: Selection,
    /// The requested concurrency; see [`RunOptions::workers`].
    pub parallel: usize,
    /// Whether the first failure stops the run.
    pub on_failure: OnFailure,
    /// The timeout of the whole run.
    pub timeout: Duration,
    /// The first port to try for an instance.
    pub base_port: u16,
    /// How much to print.
    pub verbosity: Verbosity,
    /// The directory for report files.
    pub report: Option<PathBuf>,
    /// Whether instance directories are removed.
    pub directory_cleanup: DirectoryCleanup,
    /// Counts the tokens of a text.
    pub tokens: fn(&str) -> usize,
}

/// The selection of scenarios.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only this category.
    pub category: Option<Category>,
    /// Only this concept.
    pub concept: Option<Concept>,
    /// Only the scenario of this name.
    pub scenario: Option<String>,
    /// Whether `skip: true` is honored.
    pub skipped: SkipPolicy,
}

/// Whether `skip: true` in a scenario is honored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SkipPolicy {
    /// Skip them.
    #[default]
    Honor,
    /// Run them like any other.
    Ignore,
}

/// Whether the first failure stops the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Run the remaining scenarios.
    #[default]
    Continue,
    /// Skip the remaining scenarios.
    Stop,
}

/// How much to print.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// One line per scenario, and the details of failures.
    #[default]
    Normal,
    /// Every step as well.
    Verbose,
    /// The logs of instances as well.
    Debug,
}

/// Whether instance directories are removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DirectoryCleanup {
    /// Remove them.
    #[default]
    Remove,
    /// Keep them for inspection.
    Keep,
}

/// The categories to select by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// User-visible behavior.
    Behavioral,
    /// Several components together.
    Integration,
}

/// The concepts to select by.
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
    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Behavioral => "behavioral",
            Self::Integration => "integration",
        }
    }

    /// Parses a command-line value; the error is the message to print.
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
    /// Its name in scenario files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServiceClass => "serviceclass",
            Self::Workflow => "workflow",
            Self::McpServer => "mcpserver",
            Self::Service => "service",
        }
    }

    /// Parses a command-line value; the error is the message to print.
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

impl RunOptions {
    /// The default options for running everything in `config` against `muster`.
    pub fn new(muster: impl Into<PathBuf>, config: impl Into<PathBuf>) -> Self {
        Self {
            muster: muster.into(),
            config: config.into(),
            selection: Selection::default(),
            parallel: MAX_PARALLEL,
            on_failure: OnFailure::default(),
            timeout: Duration::from_secs(600),
            base_port: 18_000,
            verbosity: Verbosity::default(),
            report: None,
            directory_cleanup: DirectoryCleanup::default(),
            tokens: crate::budget::approximate_tokens,
        }
    }

    /// Checks a `--parallel` value; the error is the message to print.
    pub fn parallel(number: usize) -> Result<usize, String> {
        if (1..=MAX_PARALLEL).contains(&number) {
            Ok(number)
        } else {
            Err(format!("parallel workers must be between 1 and 50, got {number}"))
        }
    }

    /// The effective concurrency, limited by the cores: more instances than the machine can start in time would
    /// exceed their timeouts.
    pub fn workers(&self) -> usize {
        let cores = thread::available_parallelism().map_or(1, NonZero::get);
        self.parallel.clamp(1, cores * WORKERS_PER_CORE)
    }
}
