//! When static tokens were last used: a file next to the token file, written at most once a minute.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::time::{Instant, sleep_until};
use tokio_util::task::TaskTracker;

use muster_core::backend::boxed;

use crate::{
    lock::Lock,
    private_file::{self, FilePrivacy},
};

/// The minimum interval between two writes.
const INTERVAL: Duration = Duration::from_secs(60);

/// The number of tokens that are remembered.
const MAX_TOKENS: usize = 10_000;

/// Times in seconds since 1970, by the digests of tokens.
type Times = BTreeMap<String, u64>;

/// Records the last use of each token. Several gateways may share the file.
#[derive(Debug)]
pub(super) struct UsageLog {
    path: PathBuf,
    state: Lock<State>,
    /// Runs the scheduled write.
    tasks: TaskTracker,
}

#[derive(Debug, Default)]
struct State {
    /// Uses that are not in the file yet.
    unwritten: Times,
    is_scheduled: bool,
    written: Option<Instant>,
    /// Whether the last write failed, so that a read-only configuration directory is reported only once.
    has_failed: bool,
}

impl UsageLog {
    /// The log that belongs to a token file.
    pub(super) fn of(tokens: &Path) -> Self {
        Self { path: path(tokens), state: Lock::default(), tasks: TaskTracker::new() }
    }

    /// Records a use. The file is written in the background.
    pub(super) fn record(self: &Arc<Self>, digest: &str, now: u64) {
        let due = {
            let mut state = self.state.lock();
            match state.unwritten.get_mut(digest) {
                Some(time) => *time = now,
                None => drop(state.unwritten.insert(digest.to_owned(), now)),
            }
            if state.is_scheduled {
                return;
            }
            state.is_scheduled = true;
            state.written.map_or_else(Instant::now, |written| written + INTERVAL)
        };
        let this = Arc::clone(self);
        self.tasks.spawn(boxed(async move {
            sleep_until(due).await;
            let unwritten = {
                let mut state = this.state.lock();
                state.is_scheduled = false;
                state.written = Some(Instant::now());
                std::mem::take(&mut state.unwritten)
            };
            let (path, written) = (this.path.clone(), unwritten.clone());
            let writing = tokio::task::spawn_blocking(move || write(&path, written)).await;
            if let Ok(result) = writing {
                this.finish(result, unwritten);
            }
        }));
    }

    /// Records the result of a write. Uses that could not be written are kept for the next write.
    fn finish(&self, result: std::io::Result<()>, unwritten: Times) {
        let mut state = self.state.lock();
        let Err(error) = result else {
            state.has_failed = false;
            return;
        };
        for (digest, time) in unwritten {
            let known = state.unwritten.entry(digest).or_default();
            *known = time.max(*known);
        }
        trim(&mut state.unwritten);
        if !std::mem::replace(&mut state.has_failed, true) {
            let path = self.path.display();
            tracing::warn!("the last use of tokens is not recorded: cannot write {path}: {error}");
        }
    }
}

fn path(tokens: &Path) -> PathBuf {
    tokens.with_file_name("token-usage.json")
}

/// Reads the log that belongs to a token file. An unreadable log counts as empty, because it is only informational.
pub(super) fn read(tokens: &Path) -> Times {
    load(&path(tokens))
}

fn load(path: &Path) -> Times {
    let text = private_file::read(path, FilePrivacy::OwnerWrites).ok().flatten();
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

fn write(path: &Path, unwritten: Times) -> std::io::Result<()> {
    let mut times = load(path);
    for (digest, time) in unwritten {
        let known = times.entry(digest).or_default();
        *known = time.max(*known);
    }
    trim(&mut times);
    private_file::write(path, &serde_json::to_string(&times)?)
}

/// Evicts the oldest times beyond the limit. Entries of revoked tokens are removed only this way.
fn trim(times: &mut Times) {
    while times.len() > MAX_TOKENS {
        let oldest = times.iter().min_by_key(|(_, time)| **time).map(|(digest, _)| digest.clone());
        let Some(oldest) = oldest else { break };
        times.remove(&oldest);
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

    use tokio::time::{Instant, sleep};

    use super::{UsageLog, path, read};

    #[tokio::test(start_paused = true)]
    async fn uses_are_written_once_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("tokens.json");
        let log = Arc::new(UsageLog::of(&tokens));
        let written = async |digest: &str, time: u64| {
            let began = Instant::now();
            while read(&tokens).get(digest) != Some(&time) {
                sleep(Duration::from_secs(1)).await;
            }
            began.elapsed()
        };
        log.record("a", 100);
        assert!(written("a", 100).await < Duration::from_secs(10));
        log.record("a", 101);
        log.record("b", 102);
        log.record("a", 103);
        let waited = written("a", 103).await;
        assert!(waited > Duration::from_secs(40), "{waited:?}");
        assert_eq!(read(&tokens).get("b"), Some(&102));
        let mode = std::fs::metadata(path(&tokens)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600);
    }

    #[tokio::test(start_paused = true)]
    async fn uses_that_could_not_be_written_are_written_later() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = folder.path().join("missing").join("tokens.json");
        // A file where the folder should be.
        std::fs::write(folder.path().join("missing"), "").unwrap();
        let log = Arc::new(UsageLog::of(&tokens));
        log.record("a", 100);
        while !log.state.lock().has_failed {
            sleep(Duration::from_secs(1)).await;
        }
        std::fs::remove_file(folder.path().join("missing")).unwrap();
        std::fs::create_dir(folder.path().join("missing")).unwrap();
        log.record("b", 101);
        while read(&tokens).len() < 2 {
            sleep(Duration::from_secs(1)).await;
        }
        while log.state.lock().has_failed {
            sleep(Duration::from_secs(1)).await;
        }
        assert_eq!(read(&tokens).get("a"), Some(&100));
    }
}
