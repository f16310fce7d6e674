//! The terminal as logins use it: text, a question, the browser.

use std::io;

use muster_client::login::LoginUi;
use muster_exec::browser;

use crate::output::{self, Printer};

/// The user's terminal. Logins show their progress on the stream that the command does not print its
/// result to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// Progress goes to standard output: the login is the command.
    Stdout,
    /// Progress goes to standard error: standard output belongs to the result of the command.
    Stderr,
}

impl LoginUi for Terminal {
    fn open(&self, url: &str) -> io::Result<()> {
        browser::open(url)
    }

    fn show(&self, text: &str) {
        match self {
            // If standard output is closed, nobody reads it.
            Self::Stdout => drop(Printer::stdout().part(text)),
            Self::Stderr => output::to_stderr(text),
        }
    }

    fn ask(&self, question: &str) -> io::Result<String> {
        output::ask(question).map_err(|err| io::Error::other(err.to_string()))
    }
}
