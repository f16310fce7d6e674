//! What to start: a command as the gateway describes it.

use std::path::PathBuf;

/// A program to start, with its words, environment and directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The words, the program first. A program without a slash is looked up in the `PATH` of the
    /// merged environment; one with a slash is relative to `working_dir`.
    pub argv: Vec<String>,
    /// Variables put on top of the gateway's own environment.
    pub env: Vec<(String, String)>,
    /// Where it runs, relative to the gateway's own directory, which is the default.
    pub working_dir: Option<PathBuf>,
    /// What it reads.
    pub stdin: Stdin,
}

/// What a child reads on its standard input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing: `/dev/null`.
    #[default]
    Null,
    /// What the holder of the child writes.
    Piped,
}

impl Command {
    /// A command of these words with everything else inherited.
    pub fn new(argv: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { argv: argv.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// The first word, as messages name the command.
    pub(crate) fn word(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// A NUL ends a string for the kernel, so no part of a command can hold one.
    pub(crate) fn contains_nul(&self) -> bool {
        let directory = self.working_dir.iter().map(|dir| dir.as_os_str().as_encoded_bytes());
        let words = self.argv.iter().map(String::as_bytes);
        let variables = self.env.iter().flat_map(|(key, value)| [key.as_bytes(), value.as_bytes()]);
        words.chain(variables).chain(directory).any(|part| part.contains(&0))
    }
}
