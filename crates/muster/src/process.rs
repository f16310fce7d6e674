//! This process: its environment, and when it has to end.

use muster_exec::environment::Environment;
use tokio::signal::unix::{SignalKind, signal};

use crate::env_vars;

/// The environment that CLI definitions are expanded from.
pub(crate) fn environment() -> Environment {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    Environment::new(env_vars::all(), &passwd)
}

/// Waits until someone asks this process to stop.
pub(crate) async fn stop_requested() {
    let signals = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    // Where signals cannot be caught they end the process by themselves.
    let (Ok(mut terminate), Ok(mut interrupt)) = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => (),
        _ = interrupt.recv() => (),
    }
}
