//! The port to an upstream whose address may change: a gateway that is started when it is needed.

use muster_core::backend::BoxFuture;

/// Finds the upstream before each new connection.
pub trait UpstreamLocator: Send + Sync {
    /// The URL of the upstream.
    fn locate(&self, need: Need) -> BoxFuture<'_, Result<String, LocateError>>;
}

muster_core::opaque_debug!(UpstreamLocator);

/// The purpose for which an upstream is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The client sent a message: the upstream is started if it is not running.
    Message,
    /// To listen to the upstream, if it is running.
    Listen,
}

/// Why there is no upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocateError {
    /// It is not running, or not yet.
    NotRunning(String),
    /// It cannot be started.
    Failed(String),
}
