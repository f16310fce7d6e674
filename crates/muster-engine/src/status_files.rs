//! Writes the status of servers to their files.
//!
//! It is level-triggered: a state that lasts only a moment is never written, and a file that is up to date
//! is not touched.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use muster_config::mcpserver::McpServerStatus;
use tokio::{sync::watch, time::sleep};

use crate::{
    store::{ConfigStore, WriteError},
    view::View,
};

/// Runs until shutdown, and writes the last view too.
pub(crate) async fn keep(
    store: Arc<ConfigStore>,
    mut views: watch::Receiver<Arc<View>>,
    pause: Duration,
) {
    let mut written: BTreeMap<PathBuf, McpServerStatus> = BTreeMap::new();
    // A file that cannot be written is logged once.
    let mut refused: BTreeSet<PathBuf> = BTreeSet::new();
    loop {
        let last = views.changed().await.is_err();
        if !last {
            sleep(pause).await;
        }
        let view = Arc::clone(&views.borrow_and_update());
        for known in view.servers.values() {
            let status = known.status.stored(known.server.spec.kind);
            if known.status.condition.is_transitional() || written.get(&known.path) == Some(&status)
            {
                continue;
            }
            match store.write_status(&known.path, &status).await {
                Ok(()) | Err(WriteError::Gone(_)) => (),
                // The concurrent edit triggers another view, which is written then.
                Err(WriteError::Changed(_)) => continue,
                Err(error) if refused.insert(known.path.clone()) => tracing::warn!("{error}"),
                Err(_) => (),
            }
            written.insert(known.path.clone(), status);
        }
        written.retain(|path, _| view.servers.values().any(|known| known.path == *path));
        if last {
            return;
        }
    }
}
