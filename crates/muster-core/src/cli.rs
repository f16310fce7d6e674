//! A CLI as tools: what a definition says once it has been read.

use crate::value::Value;

/// One CLI and the tools made of it.
#[derive(Debug, Clone, PartialEq)]
pub struct CliConfig {
    /// The CLI's name; also the server's when it is the only one.
    pub name: String,
    /// One line for people and agents.
    pub description: String,
    /// The base command, before expansion.
    pub command: String,
    /// Variables added to the child's environment, values literal.
    pub env: Vec<(String, String)>,
    /// Where the command runs unless a call says otherwise.
    pub working_dir: Option<String>,
    /// What the CLI is about, for filters.
    pub category: Option<String>,
    /// Words for search.
    pub tags: Vec<String>,
    /// Arguments appended to every call; only their defaults count.
    pub global_args: Vec<Param>,
    /// The tools, in the order written; names may repeat.
    pub tools: Vec<CliTool>,
}

/// One tool of a CLI.
#[derive(Debug, Clone, PartialEq)]
pub struct CliTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The subcommand words, split at white space.
    pub command: String,
    /// Its parameters, in the order written; names may repeat.
    pub params: Vec<Param>,
    /// Seconds before the run is given up; none and zero mean the default.
    pub timeout: Option<f64>,
}

/// One parameter of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// Its key in the arguments.
    pub name: String,
    /// What it means.
    pub description: String,
    /// What kind of value it takes.
    pub kind: ParamType,
    /// Whether a call must give it.
    pub required: bool,
    /// The value used when a call gives none; never `Null`.
    pub default: Option<Value>,
    /// Where its value goes.
    pub placement: Placement,
    /// The values allowed; empty means any.
    pub choices: Vec<String>,
}

/// The declared type of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamType {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

impl ParamType {
    /// Its name in definitions and schemas.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// Where a value goes. One choice: nothing can be positional *and* on the standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The flag, then the value as a word of its own.
    Flag(String),
    /// `key=value`: the flag ends in `=` and shares its word with the value.
    Joined(String),
    /// A bare word, before all flags.
    Positional,
    /// Written to the standard input.
    Stdin,
    /// The directory to run in.
    WorkingDir,
}

impl Placement {
    /// The placement of an argument that goes by flag; an empty flag is made from the name.
    pub fn by_flag(flag: Option<&str>, name: &str) -> Self {
        match flag {
            Some(flag) if flag.ends_with('=') => Self::Joined(flag.to_owned()),
            Some(flag) if !flag.is_empty() => Self::Flag(flag.to_owned()),
            Some(_) | None => Self::Flag(format!("--{}", name.replace('_', "-"))),
        }
    }
}

/// Where a CLI's commands run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Executor {
    /// As a child of this machine.
    #[default]
    Local,
    /// Inside a fresh container of an image.
    Docker(Docker),
}

/// The container a command runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docker {
    /// The image, as written.
    pub image: String,
    /// Mounts; `$NAME` is expanded from the server's environment.
    pub volumes: Vec<String>,
    /// The network to join.
    pub network: Option<String>,
    /// The working directory inside.
    pub working_dir: Option<String>,
}
