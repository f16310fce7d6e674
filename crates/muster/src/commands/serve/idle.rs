//! The idle timeout, which shuts down a gateway that nobody uses.

use std::time::Duration;

use muster_engine::{engine::Engine, state_folder::StateFolder};
use muster_mcp::http::ConnectionCounter;
use tokio::time::{Instant, sleep};

/// The bounds of the polling interval.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(30);

/// Waits until the gateway has been idle for `timeout`: without connections, processes that bridge clients to it, and
/// running workflows. Without a timeout, waits forever.
pub(super) async fn until_idle(
    timeout: Option<Duration>,
    connections: &ConnectionCounter,
    folder: Option<&StateFolder>,
    engine: &Engine,
) {
    let Some(timeout) = timeout else { return std::future::pending().await };
    let interval = (timeout / 4).clamp(SHORTEST, LONGEST);
    let (mut last_used, mut accepted) = (Instant::now(), connections.accepted());
    while last_used.elapsed() < timeout {
        sleep(interval).await;
        let before = std::mem::replace(&mut accepted, connections.accepted());
        if accepted != before
            || connections.open() > 0
            || folder.is_some_and(StateFolder::has_clients)
            || engine.has_running_workflows().await
        {
            last_used = Instant::now();
        }
    }
    tracing::info!("nobody has used the gateway for {} seconds", timeout.as_secs());
}
