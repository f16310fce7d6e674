//! The port to the login at the upstream.

use muster_core::backend::BoxFuture;

/// Supplies the token of the bridge's requests.
pub trait LoginProvider: Send + Sync {
    /// The token to send with each request, if there is one.
    fn token(&self) -> Option<String>;

    /// Obtains another token without the user, after the upstream rejected the token `rejected`, or a request without
    /// one. `challenge` is the challenge in the upstream's response.
    fn renew<'a>(
        &'a self,
        rejected: Option<&'a str>,
        challenge: Option<&'a str>,
    ) -> BoxFuture<'a, TokenRenewal>;

    /// Waits until there is another token than `rejected`.
    fn changed<'a>(&'a self, rejected: Option<&'a str>) -> BoxFuture<'a, ()>;

    /// Called when the upstream accepts the token that [`Self::changed`] waited for.
    fn accepted(&self);
}

muster_core::opaque_debug!(LoginProvider);

/// The result of a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenRenewal {
    /// There is another token.
    Renewed,
    /// The user has to log in. Until then [`super::BridgeOptions::until_login`] serves the client.
    LoginRequired,
    /// There will be no other token, for this reason: one sentence for a person.
    Unavailable(String),
}

/// A provider without a token.
#[derive(Debug, Clone, Copy)]
pub struct NoLogin;

impl LoginProvider for NoLogin {
    fn token(&self) -> Option<String> {
        None
    }

    fn renew<'a>(&'a self, _: Option<&'a str>, _: Option<&'a str>) -> BoxFuture<'a, TokenRenewal> {
        let unavailable = TokenRenewal::Unavailable("there is no way to log in".to_owned());
        Box::pin(std::future::ready(unavailable))
    }

    fn changed<'a>(&'a self, _: Option<&'a str>) -> BoxFuture<'a, ()> {
        Box::pin(std::future::pending())
    }

    fn accepted(&self) {}
}
