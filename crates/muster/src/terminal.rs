//! The user interface of logins: the terminal and the browser.

use std::io;

use muster_client::login::LoginUi;
use muster_exec::browser;

use crate::output::{self, Printer};

/// The user's terminal. Progress of a login goes to a stream that the command does not print its
/// result to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// Progress goes to standard output, because the command is the login.
    Stdout,
    /// Progress goes to standard error, because standard output is for the result of the command.
    Stderr,
}

impl LoginUi for Terminal {
    fn open(&self, url: &str) -> io::Result<()> {
        browser::open(url)
    }

    fn show(&self, text: &str) {
        match self {
            // Ignore errors: if standard output is closed, nobody reads it.
            Self::Stdout => drop(Printer::stdout().part(text)),
            Self::Stderr => output::to_stderr(text),
        }
    }

    fn ask(&self, question: &str) -> io::Result<String> {
        output::ask(question).map_err(|err| io::Error::other(err.to_string()))
    }
}
