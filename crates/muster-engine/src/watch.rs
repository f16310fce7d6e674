//! The file watcher of the configuration directory, with debounce: a burst of edits is one change.
//!
//! The system watches directories, not paths: a directory that is deleted and created again, or the new target of a
//! link, is not watched. So the identities of all directories are compared with the watched ones after each edit, and
//! that of the root every few seconds. Identities alone are not enough: file systems give the inode number of a deleted
//! directory to the next one that is created. So a directory whose removal was reported is watched again in any case.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{self, Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use muster_core::lock::Lock;
use notify::{
    EventKind, RecommendedWatcher, RecursiveMode, Watcher as _,
    event::{AccessKind, AccessMode, ModifyKind},
};
use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, sleep, sleep_until, timeout_at},
};

use crate::{reconcile::Input, store::ConfigStore, timing::EngineTiming};

/// Further edits extend the debounce interval up to this multiple.
const MAX_DEBOUNCE_FACTOR: u32 = 2;

/// The interval between checks of the root.
const ROOT_INTERVAL: Duration = Duration::from_secs(2);

/// The device and the inode number of a directory.
type Identity = (u64, u64);

/// Sends [`Input::FilesChanged`] after edits, debounced, and at the resync interval. If files cannot be watched, it
/// only sends at the interval.
pub(crate) async fn watch(
    store: Arc<ConfigStore>,
    inputs: mpsc::Sender<Input>,
    timing: EngineTiming,
) {
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
    let end = Instant::now() + pause * MAX_DEBOUNCE_FACTOR;
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

/// The watched directories by path, each with its identity, or `None` since its removal was reported.
type KnownFolders = BTreeMap<PathBuf, Option<Identity>>;

/// The directories that are watched.
struct WatchedFolders {
    /// `None` if files cannot be watched.
    watcher: Option<RecommendedWatcher>,
    known: Arc<Lock<KnownFolders>>,
}

impl WatchedFolders {
    fn new(edited: &Arc<Notify>) -> Self {
        let known = Arc::new(Lock::default());
        let watcher = watcher(edited, &known)
            .inspect_err(|error| tracing::warn!("edits of files are noticed late: {error}"))
            .ok();
        Self { watcher, known }
    }

    /// Watches the folders that exist. Since the last time, some may be new or have been replaced under the same path.
    fn follow(&mut self, store: &ConfigStore) {
        let Some(watcher) = &mut self.watcher else { return };
        for folder in store.folders() {
            let is_root = folder == store.root();
            let folder = absolute(folder);
            let now = identity(&folder);
            let known = self.known.lock().get(&folder).copied();
            if known == now.map(Some) {
                continue;
            }
            let was_known = known.is_some();
            self.known.lock().remove(&folder);
            if was_known {
                // This fails if the directory is gone, and the watch with it.
                let _stopped = watcher.unwatch(&folder);
            }
            match now {
                None => tracing::warn!("{} is gone", folder.display()),
                Some(identity) => {
                    let was_replaced = was_known || (is_root && !self.known.lock().is_empty());
                    // First, because its removal may be reported as soon as it is watched.
                    self.known.lock().insert(folder.clone(), Some(identity));
                    match watcher.watch(&folder, RecursiveMode::NonRecursive) {
                        Ok(()) if was_replaced => {
                            tracing::info!(
                                "{} was replaced; it is watched again",
                                folder.display()
                            );
                        }
                        Ok(()) => (),
                        Err(error) => {
                            tracing::debug!("cannot watch {}: {error}", folder.display());
                            self.known.lock().remove(&folder);
                        }
                    }
                }
            }
        }
    }

    /// Waits until the path of the root leads to a directory other than the watched one.
    async fn root_replaced(&self, root: &Path) {
        loop {
            sleep(ROOT_INTERVAL).await;
            if !self.is_watched(root) {
                return;
            }
        }
    }

    /// Whether a folder is watched, or neither exists nor was known.
    fn is_watched(&self, folder: &Path) -> bool {
        let known = self.known.lock().get(&absolute(folder.to_owned())).copied();
        known == identity(folder).map(Some)
    }
}

/// The path of a folder in events.
fn absolute(folder: PathBuf) -> PathBuf {
    path::absolute(&folder).unwrap_or(folder)
}

fn identity(folder: &Path) -> Option<Identity> {
    let metadata = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    Some((metadata.dev(), metadata.ino()))
}

fn watcher(
    edited: &Arc<Notify>,
    known: &Arc<Lock<KnownFolders>>,
) -> notify::Result<RecommendedWatcher> {
    let (edited, known) = (Arc::clone(edited), Arc::clone(known));
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if let Ok(event) = &event {
            note_removals(event, &known);
        }
        // Reads are not edits, but an error may hide one.
        if event.is_ok_and(|event| !is_edit(event.kind)) {
            return;
        }
        edited.notify_one();
    })
}

/// Notes which watched folders were removed or renamed: the watcher drops them, even if they exist again by now.
fn note_removals(event: &notify::Event, known: &Lock<KnownFolders>) {
    if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
        let mut known = known.lock();
        for path in &event.paths {
            if let Some(identity) = known.get_mut(path) {
                *identity = None;
            }
        }
    }
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

    use super::WatchedFolders;
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
        // A removal may be reported after its folder was created again: the next look finds it.
        let followed = |folders: &mut WatchedFolders| {
            let mut looks = (0..100).map(|_| {
                folders.follow(&store);
                all.iter().all(|folder| folders.is_watched(folder))
            });
            assert!(looks.any(|all_are| all_are));
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
