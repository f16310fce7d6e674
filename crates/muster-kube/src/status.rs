//! Writes changed statuses of resources while this gateway leads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_config::kinds::DefinitionKind;
use muster_core::backoff::Backoff;
use muster_engine::store::DefinitionStatus;
use serde_json::{Map, Value as Json, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    api::{ApiClient, ApiError},
    cache::ObjectCache,
    object::KubeObject,
    status_patch::patch,
    store::{self, KubeStore},
};

/// The backoff after a failed write: of all statuses if the API server is unavailable, otherwise of the one that was
/// refused.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(2), max: Duration::from_secs(60) };
/// The minimum interval between two writes of one status, in case another client writes the same fields.
const MIN_REWRITE: Duration = Duration::from_secs(10);
/// How long the status of a deleted resource is kept. If the resource is recreated soon, the engine considers it
/// unchanged and does not report its status again.
const KEPT: Duration = Duration::from_secs(60);

/// A status that was written.
struct Written {
    wanted: DefinitionStatus,
    /// The status that the API server stored.
    stored: Option<Map<String, Json>>,
    at: Instant,
}

/// A status that the API server refused.
struct RefusedStatus {
    wanted: DefinitionStatus,
    error: ApiError,
    failures: u64,
    retry_at: Instant,
}

/// A pending change of a status.
struct StatusChange {
    kind: DefinitionKind,
    /// The API path of the status.
    target: String,
    patch: Json,
}

/// Writes statuses. Never returns.
pub(crate) async fn keep(
    api: Arc<ApiClient>,
    cache: Arc<ObjectCache>,
    store: Arc<KubeStore>,
    mut leading: watch::Receiver<bool>,
) {
    let mut writer = StatusWriter::new(&api, &cache, &store, leading.clone());
    // The number of consecutive failures of the API server.
    let mut failures = 0;
    loop {
        let retry_at = writer.retry_at;
        let next = async {
            if failures > 0 {
                return sleep(BACKOFF.jittered(failures - 1, random())).await;
            }
            tokio::select! {
                () = store.reported.notified() => (),
                () = cache.objects.notified() => (),
                () = at(retry_at) => (),
            }
        };
        tokio::select! {
            () = next => (),
            changed = leading.changed() => if changed.is_err() { return },
        }
        writer.prune();
        if !*leading.borrow_and_update() {
            writer.forget();
            failures = 0;
            continue;
        }
        failures = match writer.write_all().await {
            Ok(()) => 0,
            Err(_) => failures + 1,
        };
    }
}

/// Waits until a moment, or forever if there is none.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

fn random() -> u64 {
    getrandom::u64().unwrap_or_default()
}

struct StatusWriter<'a> {
    api: &'a ApiClient,
    cache: &'a ObjectCache,
    store: &'a KubeStore,
    leading: watch::Receiver<bool>,
    written: BTreeMap<PathBuf, Written>,
    refused: BTreeMap<PathBuf, RefusedStatus>,
    /// The last logged reason why the API server is unavailable.
    away: Option<ApiError>,
    /// When the next delayed status is due.
    retry_at: Option<Instant>,
    /// When resources with a status were deleted.
    gone: BTreeMap<PathBuf, Instant>,
}

impl<'a> StatusWriter<'a> {
    const fn new(
        api: &'a ApiClient,
        cache: &'a ObjectCache,
        store: &'a KubeStore,
        leading: watch::Receiver<bool>,
    ) -> Self {
        Self {
            api,
            cache,
            store,
            leading,
            written: BTreeMap::new(),
            refused: BTreeMap::new(),
            away: None,
            retry_at: None,
            gone: BTreeMap::new(),
        }
    }

    /// Clears what this gateway has written, because another one leads now.
    fn forget(&mut self) {
        self.written.clear();
        self.refused.clear();
        self.away = None;
        self.retry_at = None;
    }

    /// Removes the statuses of resources that have been deleted for long enough.
    fn prune(&mut self) {
        let now = Instant::now();
        let is_there = |path: &Path| {
            store::resource(path).is_some_and(|(kind, name)| self.cache.get(kind, name).is_some())
        };
        let mut desired = self.store.desired.lock();
        self.gone.retain(|path, _| desired.contains_key(path) && !is_there(path));
        for path in desired.keys().filter(|path| !is_there(path)) {
            self.gone.entry(path.clone()).or_insert(now);
        }
        desired.retain(|path, _| self.gone.get(path).is_none_or(|since| now - *since < KEPT));
        self.written.retain(|path, _| desired.contains_key(path));
        self.refused.retain(|path, _| desired.contains_key(path));
    }

    /// Writes every changed status that is due. Fails only if the API server is unavailable.
    async fn write_all(&mut self) -> Result<(), ApiError> {
        let paths: Vec<PathBuf> = self.store.desired.lock().keys().cloned().collect();
        self.retry_at = None;
        for path in paths {
            // Check again: the previous requests took time, and another gateway may lead by now.
            if !*self.leading.borrow() {
                return Ok(());
            }
            let status = self.store.desired.lock().get(&path).cloned();
            let Some(status) = status else { continue };
            let Some(change) = self.change(&path, &status) else {
                self.refused.remove(&path);
                continue;
            };
            if let Some(moment) = self.not_before(&path, &status) {
                self.retry_at = Some(self.retry_at.map_or(moment, |known| known.min(moment)));
                continue;
            }
            match self.api.patch(&change.target, &change.patch).await {
                Ok(after) => self.take(path, status, change.kind, after),
                // The resource was deleted or changed: the event of the watch triggers the next attempt.
                Err(ApiError::NotFound | ApiError::Conflict) => (),
                Err(error @ ApiError::Unavailable(_)) => {
                    if self.away.as_ref() != Some(&error) {
                        tracing::warn!("cannot write the status of {}: {error}", path.display());
                        self.away = Some(error.clone());
                    }
                    return Err(error);
                }
                Err(error) => self.refuse(path, status, error),
            }
            self.away = None;
        }
        Ok(())
    }

    /// The change that a status needs; `None` if the resource has it already.
    fn change(&self, path: &Path, status: &DefinitionStatus) -> Option<StatusChange> {
        let (kind, name) = store::resource(path)?;
        let object = self.cache.get(kind, name)?;
        let is_written = |written: &Written| {
            written.wanted == *status && written.stored.as_ref() == object.status()
        };
        if self.written.get(path).is_some_and(is_written) {
            return None;
        }
        let mut patch = json!({"status": patch(&object, status, Timestamp::now())?});
        // The patch contains the conditions of other writers. Require the version, so that it cannot undo what they
        // write meanwhile.
        if let (false, Json::Object(patch)) = (object.version().is_empty(), &mut patch) {
            patch.insert("metadata".to_owned(), json!({"resourceVersion": object.version()}));
        }
        let target = format!("{}/{name}/status", self.store.collection(kind));
        Some(StatusChange { kind, target, patch })
    }

    /// The time until which a status must not be written.
    fn not_before(&self, path: &Path, status: &DefinitionStatus) -> Option<Instant> {
        let refused = self.refused.get(path).filter(|refused| refused.wanted == *status);
        let written = self.written.get(path).filter(|written| written.wanted == *status);
        let moments = [
            refused.map(|refused| refused.retry_at),
            written.map(|written| written.at + MIN_REWRITE),
        ];
        moments.into_iter().flatten().max().filter(|moment| *moment > Instant::now())
    }

    fn take(&mut self, path: PathBuf, wanted: DefinitionStatus, kind: DefinitionKind, after: Json) {
        self.refused.remove(&path);
        if let Some(after) = KubeObject::new(kind, after) {
            let stored = after.status().cloned();
            self.written.insert(path, Written { wanted, stored, at: Instant::now() });
            self.cache.put_written(kind, after);
        }
    }

    fn refuse(&mut self, path: PathBuf, wanted: DefinitionStatus, error: ApiError) {
        let before = self.refused.get(&path);
        if before.is_none_or(|before| before.error != error) {
            tracing::warn!("cannot write the status of {}: {error}", path.display());
        }
        let failures = before.map_or(0, |before| before.failures + 1);
        let retry_at = Instant::now() + BACKOFF.jittered(failures, random());
        self.retry_at = Some(self.retry_at.map_or(retry_at, |known| known.min(retry_at)));
        self.refused.insert(path, RefusedStatus { wanted, error, failures, retry_at });
    }
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        time::Duration,
    };

    use muster_config::kinds::DefinitionKind;
    use muster_core::lock::Lock;
    use muster_engine::store::{DefinitionStatus, StatusSink as _};
    use serde_json::{Value as Json, json};
    use tokio::{
        sync::{mpsc, watch},
        time::Instant,
    };
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::{BACKOFF, KEPT, MIN_REWRITE, StatusWriter, keep};
    use crate::{
        api::ApiClient,
        cache::ObjectCache,
        object::KubeObject,
        secrets::KubeSecrets,
        store::KubeStore,
        testing::{Answer, TestServer, api_that, wanted},
    };

    /// Three servers with a status to write.
    struct World {
        api: Arc<ApiClient>,
        cache: Arc<ObjectCache>,
        store: Arc<KubeStore>,
        _server: TestServer,
    }

    fn server(name: &str, version: &str, status: &Json) -> KubeObject {
        let metadata = json!({"name": name, "uid": name, "resourceVersion": version});
        let json = json!({"metadata": metadata, "spec": {}, "status": status});
        KubeObject::new(DefinitionKind::McpServer, json).unwrap()
    }

    impl World {
        async fn new(answers: impl Fn(&str, &Json) -> Answer + Send + Sync + 'static) -> Self {
            let (api, server_task) = api_that(move |_, path, body| answers(path, body)).await;
            let cache = Arc::new(ObjectCache::new());
            let objects = ["a", "b", "c"].map(|name| server(name, "1", &json!({})));
            cache.replace(DefinitionKind::McpServer, objects.into(), "1");
            let background = (TaskTracker::new(), CancellationToken::new());
            let (shared, known) = (Arc::clone(&api), Arc::clone(&cache));
            let secrets = KubeSecrets::new(shared, known, "ns", background);
            let (shared, known) = (Arc::clone(&api), Arc::clone(&cache));
            let store = Arc::new(KubeStore::new(shared, known, Arc::new(secrets), "ns"));
            let world = Self { api, cache, store, _server: server_task };
            for name in ["a", "b", "c"] {
                world.report(name, wanted(true));
            }
            world
        }

        fn report(&self, name: &str, status: DefinitionStatus) {
            self.store.report(&Path::new("mcpservers").join(name), status);
        }

        fn writer(&self, leading: watch::Receiver<bool>) -> StatusWriter<'_> {
            StatusWriter::new(&self.api, &self.cache, &self.store, leading)
        }
    }

    /// The name of the resource whose status is at a path.
    fn name(path: &str) -> String {
        path.trim_end_matches("/status").rsplit('/').next().unwrap().to_owned()
    }

    /// The response to a patch: the resource with a new version.
    fn stored(path: &str, patch: &Json) -> Answer {
        let metadata = json!({"name": name(path), "uid": name(path), "resourceVersion": "2"});
        Answer::Reply(200, json!({"metadata": metadata, "spec": {}, "status": patch["status"]}))
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_is_refused_delays_no_other() {
        let (asked, mut requests) = mpsc::unbounded_channel();
        let world = World::new(move |path, patch| {
            asked.send(name(path)).unwrap();
            match path.ends_with("/a/status") {
                true => Answer::Reply(422, json!({"message": "no"})),
                false => stored(path, patch),
            }
        })
        .await;
        let (_lead, leading) = watch::channel(true);
        let (api, cache, store) =
            (Arc::clone(&world.api), Arc::clone(&world.cache), Arc::clone(&world.store));
        let began = Instant::now();
        let keeping = TaskTracker::new().spawn(keep(api, cache, store, leading));
        for expected in ["a", "b", "c"] {
            assert_eq!(requests.recv().await.as_deref(), Some(expected));
        }
        world.report("b", wanted(false));
        assert_eq!(requests.recv().await.as_deref(), Some("b"));
        assert!(began.elapsed() < BACKOFF.first, "{:?}", began.elapsed());
        // The refused status is retried by itself.
        assert_eq!(requests.recv().await.as_deref(), Some("a"));
        assert!(began.elapsed() > Duration::from_millis(500), "{:?}", began.elapsed());
        keeping.abort();
    }

    #[tokio::test]
    async fn a_status_is_written_for_the_version_that_is_known() {
        let (_lead, leading) = watch::channel(true);
        let asked = Arc::new(Lock::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let world = World::new(move |_, patch| {
            seen.lock().push(patch["metadata"]["resourceVersion"].clone());
            Answer::Reply(409, json!({"reason": "Conflict"}))
        })
        .await;
        let mut writer = world.writer(leading);
        writer.write_all().await.unwrap();
        assert_eq!(*asked.lock(), ["1", "1", "1"]);
        // The watch delivers the newer version.
        assert_eq!((writer.refused.len(), writer.retry_at), (0, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_status_that_something_else_writes_too_is_not_fought_for() {
        let (_lead, leading) = watch::channel(true);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let world = World::new(move |path, patch| {
            count.fetch_add(1, Ordering::SeqCst);
            stored(path, patch)
        })
        .await;
        let mut writer = world.writer(leading);
        writer.write_all().await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        let theirs = server("b", "3", &json!({"state": "Mine"}));
        world.cache.put(DefinitionKind::McpServer, theirs);
        writer.write_all().await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 3);
        let retry_at = writer.retry_at.unwrap();
        assert!(retry_at <= Instant::now() + MIN_REWRITE);
        tokio::time::sleep_until(retry_at).await;
        writer.write_all().await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 4);
        // Another status is written at once.
        world.report("b", wanted(false));
        writer.write_all().await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 5);
    }

    #[tokio::test]
    async fn a_gateway_that_no_longer_leads_writes_nothing_more() {
        let (lead, leading) = watch::channel(true);
        let (lead, asked) = (Arc::new(lead), Arc::new(AtomicUsize::new(0)));
        let (leader, count) = (Arc::clone(&lead), Arc::clone(&asked));
        let world = World::new(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            leader.send_replace(false);
            Answer::Reply(404, json!({}))
        })
        .await;
        world.writer(leading).write_all().await.unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn an_api_server_that_is_away_is_not_asked_for_every_status() {
        let (_lead, leading) = watch::channel(true);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let world = World::new(move |path, _| match path {
            // A refusal for one resource does not affect others.
            path if path.ends_with("/a/status") => Answer::Reply(422, json!({"message": "no"})),
            _ => {
                count.fetch_add(1, Ordering::SeqCst);
                Answer::Reply(503, json!({"message": "away"}))
            }
        })
        .await;
        let mut writer = world.writer(leading);
        let away = writer.write_all().await.unwrap_err();
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        assert_eq!((away.to_string(), &writer.away), ("away".to_owned(), &Some(away)));
        let refused: Vec<_> =
            writer.refused.values().map(|found| found.error.to_string()).collect();
        assert_eq!(refused, ["no"]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_status_of_a_resource_that_is_gone_is_forgotten_after_a_while() {
        let (_lead, leading) = watch::channel(false);
        let world = World::new(|_, _| Answer::Silence).await;
        let mut writer = world.writer(leading);
        let gone = world.cache.get(DefinitionKind::McpServer, "b").unwrap();
        world.cache.remove(DefinitionKind::McpServer, &gone);
        let known = |writer: &StatusWriter<'_>| -> Vec<String> {
            let desired = writer.store.desired.lock();
            desired.keys().map(|path| path.display().to_string()).collect()
        };
        writer.prune();
        assert_eq!(known(&writer).len(), 3, "it may be created anew at once");
        tokio::time::sleep(KEPT).await;
        writer.prune();
        assert_eq!(known(&writer), ["mcpservers/a", "mcpservers/c"]);
        assert!(writer.gone.keys().all(|path| path.ends_with("b")));
        writer.prune();
        assert!(writer.gone.is_empty());
    }
}
