//! The file watcher of the configuration directory.
//!
//! The system watches directories, not paths: a directory that is deleted and created again, or the new target of a
//! link, is not watched. So the identities of all directories are compared with the watched ones after each edit, and
//! that of the root every few seconds.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{reconcile::Input, store::ConfigStore, supervisor::Timing};

/// Further edits extend the debounce interval up to this multiple.
const LONGEST_BURST: u32 = 2;

/// The interval between checks of the root.
const ROOT_INTERVAL: Duration = Duration::from_secs(2);

/// The device and the inode number of a directory.
type Identity = (u64, u64);

/// Sends [`Input::FilesChanged`] after edits, debounced, and at the resync interval. If files cannot be watched, it
/// only sends at the interval.
pub(crate) async fn watch(store: Arc<ConfigStore>, inputs: mpsc::Sender<Input>, timing: Timing) {
    let edited = Arc::new(Notify::new());
    let mut folders = WatchedFolders::new(&edited);
    loop {
        folders.follow(&store);
        // Also at the start: files may have changed before they were watched.
        if inputs.send(Input::FilesChanged).await.is_err() {
            return;
        }
        tokio::select! {
            () = inputs.closed() => return,
            () = sleep(timing.resync_interval) => (),
            () = edited.notified() => settle(|| edited.notified(), timing.file_debounce).await,
            () = store.definitions().changed() => {
                settle(|| store.definitions().changed(), timing.file_debounce).await;
            }
            () = folders.root_replaced(store.root()) => (),
        }
    }
}

/// Debounces edits: waits until there are none for `pause`, within a limit.
async fn settle<F: Future<Output = ()>>(edited: impl Fn() -> F, pause: Duration) {
    let end = Instant::now() + pause * LONGEST_BURST;
    loop {
        let quiet = (Instant::now() + pause).min(end);
        if timeout_at(quiet, edited()).await.is_err() {
            return;
        }
        if Instant::now() >= end {
            return sleep_until(end).await;
        }
    }
}

/// The directories that are watched.
struct WatchedFolders {
    /// `None` if files cannot be watched.
    watcher: Option<RecommendedWatcher>,
    known: BTreeMap<PathBuf, Identity>,
}

impl WatchedFolders {
    fn new(edited: &Arc<Notify>) -> Self {
        let watcher = watcher(edited)
            .inspect_err(|error| tracing::warn!("edits of files are noticed late: {error}"))
            .ok();
        Self { watcher, known: BTreeMap::new() }
    }

    /// Watches the folders that exist. Since the last time, some may be new or have been replaced under the same path.
    fn follow(&mut self, store: &ConfigStore) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in store.folders() {
            let now = identity(&folder);
            if self.known.get(&folder).copied() == now {
                continue;
            }
            let was_known = self.known.remove(&folder).is_some();
            if was_known {
                // This fails if the directory is gone, and the watch with it.
                let _stopped = watcher.unwatch(&folder);
            }
            match now {
                None => tracing::warn!("{} is gone", folder.display()),
                Some(identity) => match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                    Ok(()) => {
                        if was_known || (folder == store.root() && !self.known.is_empty()) {
                            tracing::info!(
                                "{} was replaced; it is watched again",
                                folder.display()
                            );
                        }
                        self.known.insert(folder, identity);
                    }
                    Err(error) => tracing::debug!("cannot watch {}: {error}", folder.display()),
                },
            }
        }
    }

    /// Waits until the path of the root leads to a directory other than the watched one.
    async fn root_replaced(&self, root: &Path) {
        loop {
            sleep(ROOT_INTERVAL).await;
            if identity(root) != self.known.get(root).copied() {
                return;
            }
        }
    }
}

fn identity(folder: &Path) -> Option<Identity> {
    let metadata = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

fn watcher(edited: &Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let edited = Arc::clone(edited);
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reads are not edits, but an error may hide one.
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

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use tokio::{
        sync::Notify,
        time::{Duration, timeout},
    };

    use super::{WatchedFolders, identity};
    use crate::store::ConfigStore;

    fn swap_link(link: &Path, target: &Path) {
        let new = link.with_extension("new");
        std::os::unix::fs::symlink(target, &new).unwrap();
        fs::rename(new, link).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_folder_in_the_place_of_another_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for folder in [&one, &two] {
            fs::create_dir_all(folder.join("mcpservers")).unwrap();
        }
        let root = dir.path().join("config");
        swap_link(&root, &one);
        let store = ConfigStore::new(&root);
        let mut folders = WatchedFolders::new(&Arc::new(Notify::new()));
        let all = [root.clone(), root.join("mcpservers")];
        let followed = |folders: &mut WatchedFolders| {
            folders.follow(&store);
            for folder in &all {
                assert_eq!(folders.known.get(folder).copied(), identity(folder), "{folder:?}");
            }
        };
        let replaced = async |folders: &WatchedFolders| {
            timeout(Duration::from_secs(60), folders.root_replaced(&root)).await.is_ok()
        };
        followed(&mut folders);
        assert!(!replaced(&folders).await);
        // A link to another folder; then a renamed folder; then a deleted folder, with another in its place.
        swap_link(&root, &two);
        assert!(replaced(&folders).await);
        followed(&mut folders);
        fs::rename(&two, dir.path().join("gone")).unwrap();
        assert!(replaced(&folders).await);
        followed(&mut folders);
        fs::create_dir_all(two.join("mcpservers")).unwrap();
        assert!(replaced(&folders).await);
        followed(&mut folders);
        fs::create_dir_all(dir.path().join("other/mcpservers")).unwrap();
        fs::remove_dir_all(two.join("mcpservers")).unwrap();
        followed(&mut folders);
        fs::rename(dir.path().join("other/mcpservers"), two.join("mcpservers")).unwrap();
        followed(&mut folders);
        assert!(!replaced(&folders).await);
    }
}
