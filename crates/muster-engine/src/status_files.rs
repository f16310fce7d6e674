//! Keeps the status in the files of servers up to date.
//!
//! It looks at what is, not at what happened: what comes and goes within a moment is never written,
//! and what a file says already is not written again.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use muster_config::mcpserver::Status;
use tokio::{sync::watch, time::sleep};

use crate::{
    store::{Store, WriteError},
    view::View,
};

/// Follows `views` until there are no more, and writes the last one too.
pub(crate) async fn keep(
    store: Arc<Store>,
    mut views: watch::Receiver<Arc<View>>,
    pause: Duration,
) {
    let mut written: BTreeMap<PathBuf, Status> = BTreeMap::new();
    // A directory that must not be written to is worth one word for each file.
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
                // The edit is about to be noticed, and then it is written.
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
