//! The file watcher of the configuration directory.

use std::{path::Path, sync::Arc, time::Duration};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{reconcile::Input, store::ConfigStore, supervisor::Timing};

/// The debounce is extended by further edits, up to this multiple.
const LONGEST_BURST: u32 = 2;

/// Sends [`Input::FilesChanged`] after edits, debounced, and at the resync interval. Where files cannot be
/// watched, the interval alone remains.
pub(crate) async fn watch(store: Arc<ConfigStore>, inputs: mpsc::Sender<Input>, timing: Timing) {
    let edited = Arc::new(Notify::new());
    let mut watcher = watcher(&edited)
        .inspect_err(|error| tracing::warn!("edits of files are noticed late: {error}"))
        .ok();
    loop {
        if let Some(watcher) = &mut watcher {
            follow(watcher, &store);
        }
        // Also at the start: files may have changed before they were watched.
        if inputs.send(Input::FilesChanged).await.is_err() {
            return;
        }
        tokio::select! {
            () = inputs.closed() => return,
            () = sleep(timing.resync_interval) => (),
            () = edited.notified() => settle(&edited, timing.file_debounce).await,
        }
    }
}

/// Debounces: waits until there are no edits for a moment.
async fn settle(edited: &Notify, pause: Duration) {
    let end = Instant::now() + pause * LONGEST_BURST;
    loop {
        let quiet = (Instant::now() + pause).min(end);
        if timeout_at(quiet, edited.notified()).await.is_err() {
            return;
        }
        if Instant::now() >= end {
            return sleep_until(end).await;
        }
    }
}

fn watcher(edited: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let edited = Arc::clone(edited);
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reads are no edits. An error may hide one.
        if event.is_ok_and(|event| !is_edit(event.kind)) {
            return;
        }
        edited.notify_one();
    })
}

const fn is_edit(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
    }
}

/// Watches the folders that exist; some may be new since the last time.
fn follow(watcher: &mut RecommendedWatcher, store: &ConfigStore) {
    for folder in store.folders() {
        if Path::new(&folder).is_dir()
            && let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive)
        {
            tracing::debug!("cannot watch {}: {error}", folder.display());
        }
    }
}
