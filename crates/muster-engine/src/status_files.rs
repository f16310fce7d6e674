//! Writes the status of servers to the state folder, and to their files if the settings say so.
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
    view::{ServerEntry, View},
};

/// Runs until shutdown, and writes the last view too.
pub(crate) async fn keep(
    store: Arc<ConfigStore>,
    mut views: watch::Receiver<Arc<View>>,
    pause: Duration,
) {
    let mut written: BTreeMap<PathBuf, McpServerStatus> = BTreeMap::new();
    let mut stored: BTreeMap<String, McpServerStatus> = BTreeMap::new();
    // A file that cannot be written is logged once.
    let mut refused: BTreeSet<PathBuf> = BTreeSet::new();
    loop {
        let last = views.changed().await.is_err();
        if !last {
            sleep(pause).await;
        }
        let view = Arc::clone(&views.borrow_and_update());
        let status = settled(&view, &stored);
        if status != stored {
            if let Err(error) = store.write_server_status(&status).await
                && refused.insert(store.state().to_owned())
            {
                tracing::warn!("{error}");
            }
            stored = status;
        }
        // If the store holds statuses beside definitions, they are reported there instead (`resource_status`).
        let in_files = view.settings.write_status && store.definitions().status().is_none();
        for entry in view.servers.values().filter(|_| in_files) {
            let status = entry.status.stored(entry.server.spec.kind);
            if entry.status.condition.is_transitional() || written.get(&entry.path) == Some(&status)
            {
                continue;
            }
            match store.write_status(&entry.path, &status).await {
                Ok(()) | Err(WriteError::Gone(_)) => (),
                // The concurrent edit leads to another view, which is written then.
                Err(WriteError::Changed(_)) => continue,
                Err(error) if refused.insert(entry.path.clone()) => tracing::warn!("{error}"),
                Err(_) => (),
            }
            written.insert(entry.path.clone(), status);
        }
        written.retain(|path, _| view.servers.values().any(|entry| entry.path == *path));
        if last {
            return;
        }
    }
}

/// The status of every server; for a server in transition, its previous status.
fn settled(
    view: &View,
    before: &BTreeMap<String, McpServerStatus>,
) -> BTreeMap<String, McpServerStatus> {
    let status = |(name, entry): (&String, &Arc<ServerEntry>)| {
        let status = match entry.status.condition.is_transitional() {
            true => before.get(name)?.clone(),
            false => entry.status.stored(entry.server.spec.kind),
        };
        Some((name.clone(), status))
    };
    view.servers.iter().filter_map(status).collect()
}
