//! A command-line program as a set of tools.

use crate::{effect::Effect, policy::pattern::Pattern, value::Value};

/// A CLI and the tools made from it.
#[derive(Debug, Clone, PartialEq)]
pub struct CliConfig {
    /// The CLI's name; also the server's if it is the only one.
    pub name: String,
    /// A one-line description.
    pub description: String,
    /// The base command, before expansion.
    pub command: String,
    /// Variables added to the child's environment, not expanded.
    pub env: Vec<(String, String)>,
    /// The names of the variables inherited besides those without secrets; `None` for all.
    pub inherit_env: Option<Vec<String>>,
    /// The working directory unless a call overrides it.
    pub working_dir: Option<String>,
    /// Whether its tools may be given files that hold credentials.
    pub credential_files: CredentialFiles,
    /// The category, for filters.
    pub category: Option<String>,
    /// Tags for search.
    pub tags: Vec<String>,
    /// Arguments appended to every call; only their defaults are used.
    pub global_args: Vec<Param>,
    /// The tools in file order; names may repeat.
    pub tools: Vec<CliTool>,
}

/// One tool of a CLI.
#[derive(Debug, Clone, PartialEq)]
pub struct CliTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The subcommand, split at white space.
    pub command: String,
    /// Its parameters in file order; names may repeat.
    pub params: Vec<Param>,
    /// The timeout in seconds; `None` and zero select the default.
    pub timeout: Option<f64>,
    /// The effect that its definition states.
    pub effect: Option<Effect>,
    /// Whether it connects to other machines.
    pub network: bool,
    /// The word after which the program reads no options, such as `--`. Positional values follow it.
    pub end_of_options: Option<String>,
    /// What happens to processes that a call leaves running.
    pub background_processes: BackgroundProcesses,
}

/// What happens to processes that a call leaves running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BackgroundProcesses {
    /// They end with the call.
    #[default]
    End,
    /// They may run until the gateway ends.
    Keep,
}

/// Whether tools may be given files that hold credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CredentialFiles {
    /// They may.
    #[default]
    Allow,
    /// Calls with such a path are refused.
    Refuse,
}

impl CliTool {
    /// Whether it only reads, and only on this machine, as its definition states.
    pub fn is_local_read(&self) -> bool {
        self.effect == Some(Effect::Read) && !self.network
    }
}

/// A parameter of a tool.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the definition")]
pub struct Param {
    /// Its key in the arguments.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The type of its value.
    pub kind: ParamType,
    /// Whether a call must set it.
    pub required: bool,
    /// The default value; never `Null`.
    pub default: Option<Value>,
    /// How the value is passed to the program.
    pub placement: Placement,
    /// The allowed values; empty for any.
    pub choices: Vec<String>,
    /// The pattern that the whole value must match.
    pub pattern: Option<Pattern>,
    /// Whether a value may begin with `-` where the program could read it as an option.
    pub allow_leading_dash: bool,
    /// Whether the program reads the files below the folder that the value names.
    pub recursive: bool,
}

impl Param {
    /// Whether the program would read this value as an option. `-` alone is an operand. Negative numbers are not,
    /// because `-1` is an option in many programs.
    pub(crate) fn is_read_as_option(&self, value: &str) -> bool {
        let is_operand = match &self.placement {
            Placement::Positional => true,
            // A word such as `name` before the value does not keep it from being an option.
            Placement::Flag(flag) => !flag.starts_with('-'),
            Placement::Joined(_) | Placement::Stdin | Placement::WorkingDir => false,
        };
        is_operand && !self.allow_leading_dash && value.len() > 1 && value.starts_with('-')
    }
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
    /// A boolean.
    Boolean,
}

impl ParamType {
    /// The name in definitions and schemas.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }
}

/// How a value is passed to the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placement {
    /// The flag, then the value as a separate word.
    Flag(String),
    /// The flag ends in `=` and shares its word with the value.
    Joined(String),
    /// A bare word, before all flags, or after them and the tool's `end_of_options`.
    Positional,
    /// On the standard input.
    Stdin,
    /// As the working directory.
    WorkingDir,
}

impl Placement {
    /// The placement by a flag; without one the flag is derived from the name.
    pub fn by_flag(flag: Option<&str>, name: &str) -> Self {
        match flag {
            Some(flag) if flag.ends_with('=') => Self::Joined(flag.to_owned()),
            Some(flag) if !flag.is_empty() => Self::Flag(flag.to_owned()),
            Some(_) | None => Self::Flag(format!("--{}", name.replace('_', "-"))),
        }
    }
}

/// Where the commands of a CLI run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Executor {
    /// In a child process on this machine.
    #[default]
    Local,
    /// In a new container.
    Docker(Docker),
}

/// The container that a command runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docker {
    /// The image, as written.
    pub image: String,
    /// Volume mounts; `$NAME` is expanded from the server's environment.
    pub volumes: Vec<String>,
    /// The network.
    pub network: Option<String>,
    /// The working directory in the container.
    pub working_dir: Option<String>,
}
