//! The port to whoever can log in at a server.

use std::fmt;

use muster_core::backend::BoxFuture;

/// Shows a server who its client is.
pub trait Login: fmt::Debug + Send + Sync {
    /// The token to send with each request, if there is one.
    fn token(&self) -> Option<String>;

    /// Gets a new token, after the server refused to answer without one or with `refused`. What it
    /// says about that is `challenge`. The error is one sentence for a person.
    fn log_in<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), String>>;
}

/// Has nothing to show.
#[derive(Debug, Clone, Copy)]
pub struct NoLogin;

impl Login for NoLogin {
    fn token(&self) -> Option<String> {
        None
    }

    fn log_in<'a>(
        &'a self,
        _: Option<&'a str>,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Err("there is no way to log in".to_owned()) })
    }
}
