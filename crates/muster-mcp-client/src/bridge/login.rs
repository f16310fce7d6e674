//! The port to whoever can log in at a server.

use std::fmt;

use muster_core::backend::BoxFuture;

/// Shows a server who its client is.
pub trait Login: fmt::Debug + Send + Sync {
    /// The token to send with each request, if there is one.
    fn token(&self) -> Option<String>;

    /// Gets another token without a person, after the server refused to answer without one or with
    /// `refused`. What it says about that is `challenge`.
    fn renew<'a>(
        &'a self,
        refused: Option<&'a str>,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, Renewal>;

    /// Waits until there is another token than `refused`.
    fn changed<'a>(&'a self, refused: Option<&'a str>) -> BoxFuture<'a, ()>;

    /// The token that was waited for is used from now on.
    fn accepted(&self);
}

/// What came of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Renewal {
    /// There is another token.
    Done,
    /// A person has to log in. Until then the client is served by [`super::Options::meanwhile`].
    Wanted,
    /// There will be no other token, for this reason: one sentence for a person.
    Never(String),
}

/// Has nothing to show.
#[derive(Debug, Clone, Copy)]
pub struct NoLogin;

impl Login for NoLogin {
    fn token(&self) -> Option<String> {
        None
    }

    fn renew<'a>(&'a self, _: Option<&'a str>, _: Option<&'a str>) -> BoxFuture<'a, Renewal> {
        let never = Renewal::Never("there is no way to log in".to_owned());
        Box::pin(std::future::ready(never))
    }

    fn changed<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn accepted(&self) {}
}
