//! The one error a person sees, and the exit codes.

use std::process::ExitCode;

use thiserror::Error;

/// What an exit code means. The reference page is made from this table.
pub const EXIT_CODES: [(u8, &str); 10] = [
    (0, "It worked; a server ended because its client left or someone asked it to"),
    (
        1,
        "It failed: a file could not be loaded, a check found something invalid; of `muster` also: the command line was not understood",
    ),
    (2, "`climax`: the command line was not understood. `muster`: the gateway wants a login"),
    (3, "`muster`: a login failed"),
    (10, "`muster doctor`: a file of the configuration cannot be used"),
    (11, "`muster doctor`: a program is not there"),
    (12, "`muster doctor`: the gateway cannot be reached"),
    (13, "`muster doctor`: a certificate is not trusted"),
    (14, "`muster doctor`: a server cannot be reached, or does not answer as an MCP server does"),
    (15, "`muster doctor`: a login is missing or has expired"),
];

/// A command that failed, and what the person can do about it.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct CommandError {
    message: String,
    hints: Vec<String>,
    code: u8,
}

impl CommandError {
    /// A failure in one sentence.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), code: 1 }
    }

    /// Adds a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Ends the process with another code than 1.
    #[must_use]
    pub const fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Ends the process as another error does.
    #[must_use]
    pub const fn code_of(self, other: &Self) -> Self {
        self.code(other.code)
    }

    /// The next steps.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The code the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(err: std::io::Error) -> Self {
        Self::new(err.to_string())
    }
}
