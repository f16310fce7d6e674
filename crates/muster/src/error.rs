//! The error type of commands, and the exit codes.

use std::process::ExitCode;

use muster_client::{
    connect::FileError,
    contexts::ContextError,
    login::{UnknownAuthMode, server_logins::ServerLoginError, token_store::TokenError},
    remote::{error::RemoteError, target::TargetError},
    user_dirs::NoHome,
};
use thiserror::Error;

/// The exit code of `muster status` if the gateway is not running.
pub const NOT_RUNNING: u8 = 4;

/// The exit code of a gateway that cut off calls when it stopped.
pub const CALLS_CUT_OFF: u8 = 5;

/// The exit code of `muster policy check` for a call that the policy does not allow.
pub const NOT_ALLOWED: u8 = 6;

/// The exit codes and their meaning. The reference page is generated from this table.
pub const EXIT_CODES: [(u8, &str); 13] = [
    (0, "Success; a server stopped because its client disconnected or it was asked to"),
    (
        1,
        "Failure: a file could not be loaded, a check found errors; `muster` also: invalid command line",
    ),
    (2, "`climax`: invalid command line. `muster`: the gateway requires a login"),
    (3, "`muster`: the login failed"),
    (NOT_RUNNING, "`muster status`: the gateway is not running"),
    (CALLS_CUT_OFF, "`muster serve`: calls were cut off when it was stopped"),
    (NOT_ALLOWED, "`muster policy check`: the caller may not call the tool"),
    (10, "`muster doctor`: a configuration file is invalid"),
    (11, "`muster doctor`: a program was not found"),
    (12, "`muster doctor`: the gateway cannot be reached"),
    (13, "`muster doctor`: a certificate is not trusted"),
    (14, "`muster doctor`: a server cannot be reached or does not speak MCP"),
    (15, "`muster doctor`: a login is missing or has expired"),
];

/// The failure of a command: a message, hints for the user, an exit code.
#[derive(Debug, Error)]
#[error("{message}")]
pub struct CommandError {
    message: String,
    hints: Vec<String>,
    code: u8,
}

impl CommandError {
    /// A failure with exit code 1.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hints: Vec::new(), code: 1 }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Sets the exit code.
    #[must_use]
    pub const fn code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }

    /// Sets the exit code to that of another error.
    #[must_use]
    pub const fn code_of(self, other: &Self) -> Self {
        self.code(other.code)
    }

    /// The hints.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// The exit code.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl From<std::io::Error> for CommandError {
    fn from(err: std::io::Error) -> Self {
        Self::new(err.to_string())
    }
}

impl From<NoHome> for CommandError {
    fn from(error: NoHome) -> Self {
        Self::new(error.to_string()).hint("set HOME, or name a directory with --config-path")
    }
}

impl From<FileError> for CommandError {
    fn from(error: FileError) -> Self {
        Self::new(error.to_string())
    }
}

impl From<ContextError> for CommandError {
    fn from(error: ContextError) -> Self {
        match error {
            ContextError::NoHome(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<TokenError> for CommandError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::NoHome(error) => error.into(),
            other => Self::new(other.to_string()),
        }
    }
}

impl From<UnknownAuthMode> for CommandError {
    fn from(error: UnknownAuthMode) -> Self {
        Self::new(error.to_string())
    }
}

impl From<TargetError> for CommandError {
    fn from(error: TargetError) -> Self {
        let text = error.to_string();
        match error {
            TargetError::Contexts(error) => error.into(),
            TargetError::NoHome(error) => error.into(),
            TargetError::Config { .. } => Self::new(text),
            TargetError::UnknownContext(_) => {
                Self::new(text).hint("list the contexts with `muster context list`")
            }
            TargetError::NoUrl(_) => Self::new(text).hint(
                "a gateway on standard input and output has no URL; name another gateway with --endpoint",
            ),
        }
    }
}

impl From<ServerLoginError> for CommandError {
    fn from(error: ServerLoginError) -> Self {
        let text = error.to_string();
        match error {
            ServerLoginError::Remote(error) => error.into(),
            ServerLoginError::Tool(_) | ServerLoginError::NoUrl => Self::new(text),
            ServerLoginError::Timeout { server } => Self::new(text)
                .hint(format!("try again with `muster auth login --server {server}`")),
        }
    }
}

impl From<RemoteError> for CommandError {
    fn from(error: RemoteError) -> Self {
        let made = Self::new(error.to_string()).code(exit_code(&error));
        hints(&error).into_iter().fold(made, Self::hint)
    }
}

/// The hints for a failed request to a gateway.
fn hints(error: &RemoteError) -> Vec<String> {
    match error {
        RemoteError::AuthRequired { endpoint, .. } => vec![
            format!("log in with `muster auth login --endpoint {endpoint}`"),
            "check your logins with `muster auth status`".to_owned(),
        ],
        RemoteError::AuthExpired { endpoint } => vec![
            format!("log in again with `muster auth login --endpoint {endpoint}`"),
            format!("or try `muster auth refresh --endpoint {endpoint}`"),
        ],
        RemoteError::AuthFailed { endpoint, .. } => {
            vec![format!("try again with `muster auth login --endpoint {endpoint}`")]
        }
        RemoteError::Unreachable(_) | RemoteError::Insecure(_) | RemoteError::Connect(_) => vec![
            "check the endpoint with `muster context list`, or set one with --endpoint".to_owned(),
        ],
        RemoteError::Reply { .. } => vec!["the gateway may be of another version".to_owned()],
        RemoteError::NoConsole { .. } => {
            vec!["`console.enabled: true` in its config.yaml switches it on".to_owned()]
        }
        RemoteError::NotResponding { .. } => {
            vec!["another program may answer there: `muster doctor` says which".to_owned()]
        }
        RemoteError::NotRunning
        | RemoteError::Tool { .. }
        | RemoteError::Call { .. }
        | RemoteError::Meta { .. }
        | RemoteError::Empty { .. }
        | RemoteError::Unexpected { .. }
        | RemoteError::Request(_) => Vec::new(),
    }
}

const fn exit_code(error: &RemoteError) -> u8 {
    match error {
        RemoteError::AuthRequired { .. } | RemoteError::AuthExpired { .. } => 2,
        RemoteError::AuthFailed { .. } => 3,
        RemoteError::NotRunning
        | RemoteError::NotResponding { .. }
        | RemoteError::Unreachable(_)
        | RemoteError::Insecure(_)
        | RemoteError::Connect(_)
        | RemoteError::Tool { .. }
        | RemoteError::Reply { .. }
        | RemoteError::NoConsole { .. }
        | RemoteError::Call { .. }
        | RemoteError::Meta { .. }
        | RemoteError::Empty { .. }
        | RemoteError::Unexpected { .. }
        | RemoteError::Request(_) => 1,
    }
}
