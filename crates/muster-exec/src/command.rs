//! A command to start, as the gateway describes it.

use std::path::PathBuf;

/// A program to start, with its arguments, environment and working directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The argument vector, the program first. A program without a slash is looked up in the `PATH` of
    /// the merged environment; one with a slash is relative to `working_dir`.
    pub argv: Vec<String>,
    /// The variables that it gets from the gateway's own environment.
    pub inherit: Inherit,
    /// Variables added to its environment; they win over inherited ones.
    pub env: Vec<(String, String)>,
    /// The working directory, relative to the gateway's own, which is the default.
    pub working_dir: Option<PathBuf>,
    /// Its standard input.
    pub stdin: Stdin,
}

/// The variables that a child inherits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Inherit {
    /// All of them.
    #[default]
    All,
    /// Those that describe the user and the machine (see [`is_basic`](crate::environment::is_basic)), and
    /// these.
    Basic(Vec<String>),
}

/// The standard input of a child.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stdin {
    /// `/dev/null`.
    #[default]
    Null,
    /// A pipe, written by the holder of the [`Child`](crate::child::Child).
    Piped,
}

impl Command {
    /// A command with this argument vector; everything else is inherited.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The first argument, as messages name the command.
    pub(crate) fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Whether any part holds a NUL byte, which would end the string for the kernel.
    pub(crate) fn contains_nul(&self) -> bool {
        let directory = self.working_dir.iter().map(|dir| dir.as_os_str().as_encoded_bytes());
        let words = self.argv.iter().map(String::as_bytes);
        let variables = self.env.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
        words.chain(variables).chain(directory).any(|part| part.contains(&0))
    }
}
