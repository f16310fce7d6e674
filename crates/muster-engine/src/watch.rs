//! Word of edits in the configuration directory.

use std::{path::Path, sync::Arc, time::Duration};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{reconcile::Input, store::Store, supervisor::Timing};

/// A burst of edits is waited out, but never longer than this times the pause.
const LONGEST_BURST: u32 = 2;

/// Says [`Input::FilesChanged`] a moment after edits, and now and then without, until nobody
/// listens. Where files cannot be watched only the latter is left.
pub(crate) async fn watch(store: Arc<Store>, inputs: mpsc::Sender<Input>, timing: Timing) {
    let edited = Arc::new(Notify::new());
    let mut watcher = watcher(&edited)
        .inspect_err(|error| tracing::warn!("edits of files are noticed late: {error}"))
        .ok();
    loop {
        if let Some(watcher) = &mut watcher {
            follow(watcher, &store);
        }
        // Also before the first edit: there may have been one before anything was watched.
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

/// Waits until nothing is edited for a moment.
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
        // Our own reading is no edit. What went wrong may hide one.
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

/// Watches what is there. Folders may have come, or come anew, since the last time.
fn follow(watcher: &mut RecommendedWatcher, store: &Store) {
    for folder in store.folders() {
        if Path::new(&folder).is_dir()
            && let Err(error) = watcher.watch(&folder, RecursiveMode::NonRecursive)
        {
            tracing::debug!("cannot watch {}: {error}", folder.display());
        }
    }
}
