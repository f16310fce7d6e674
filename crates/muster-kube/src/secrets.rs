//! Secrets that resources refer to. They are read on demand and watched from then on, so that servers reconnect when
//! one changes.
//!
//! Each Secret is watched by name for as long as a resource refers to it, so the right to list Secrets is not needed.
//! Values are not stored.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use muster_core::{
    backend::boxed,
    backoff::Backoff,
    lock::Lock,
    secret::Secret,
    secret_source::{SecretFuture, SecretSource, SecretSourceError},
};
use serde_json::Value as Json;
use tokio::time::{Instant, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    api::{ApiClient, ApiError},
    cache::ObjectCache,
    store::is_name,
    watching::{WATCH_SECONDS, WatchEventKind, WatchStream},
};

/// The maximum number of Secrets that are watched.
const MAX_WATCHED: usize = 256;
/// The backoff after watches that failed.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), max: Duration::from_secs(60) };
/// The interval at which watches of unreferenced Secrets are ended.
const SWEEP: Duration = Duration::from_secs(300);

/// The namespace and the name of a Secret.
type SecretId = (String, String);

/// A Secret that is watched.
#[derive(Debug)]
struct WatchedSecret {
    /// The last known version: empty if there is no such Secret, `None` if it could never be read.
    version: Option<String>,
    /// The number of changes since the watch began.
    changes: u64,
    /// Ends the watch.
    release: CancellationToken,
}

/// All Secrets that are watched.
#[derive(Debug)]
struct WatchedSecrets {
    cache: Arc<ObjectCache>,
    namespace: String,
    by_id: Lock<BTreeMap<SecretId, WatchedSecret>>,
}

/// The Secrets of a cluster.
#[derive(Debug)]
pub(crate) struct KubeSecrets {
    api: Arc<ApiClient>,
    watched: Arc<WatchedSecrets>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl KubeSecrets {
    pub(crate) fn new(
        api: Arc<ApiClient>,
        cache: Arc<ObjectCache>,
        namespace: &str,
        (tasks, stop): (TaskTracker, CancellationToken),
    ) -> Self {
        let namespace = namespace.to_owned();
        let watched = Arc::new(WatchedSecrets { cache, namespace, by_id: Lock::default() });
        let (swept, end) = (Arc::clone(&watched), stop.clone());
        tasks.spawn(boxed(async move {
            while end.run_until_cancelled(sleep(SWEEP)).await.is_some() {
                swept.release_unused();
            }
        }));
        Self { api, watched, tasks, stop }
    }

    /// The number of changes of all these Secrets so far. Secrets that were never read count as unchanged.
    pub(crate) fn changes<'a>(&self, ids: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
        let watched = self.watched.by_id.lock();
        let changes = ids.filter_map(|(namespace, name)| {
            watched.get(&self.watched.id(namespace, name)).map(|known| known.changes)
        });
        changes.sum()
    }

    async fn read(&self, id: &SecretId, keys: &[&str]) -> Result<Vec<Secret>, SecretSourceError> {
        let (namespace, name) = id;
        if !is_name(namespace) || !is_name(name) {
            let text = format!("`{namespace}/{name}` cannot be the name of a Secret");
            return Err(SecretSourceError::Missing(text));
        }
        let found = self.api.get(&path(id)).await;
        self.watch(id, version_read(&found));
        let described = format!("Secret `{name}` in namespace `{namespace}`");
        let secret = found.map_err(|error| match error {
            ApiError::NotFound => SecretSourceError::Missing(format!("{described} does not exist")),
            ApiError::Forbidden(_) | ApiError::Refused(_) => {
                SecretSourceError::Missing(format!("{described} cannot be read: {error}"))
            }
            ApiError::Exists
            | ApiError::Conflict
            | ApiError::Expired
            | ApiError::Unavailable(_) => {
                SecretSourceError::Unavailable(format!("{described} cannot be read: {error}"))
            }
        })?;
        let value = |key: &&str| {
            let value = secret.get("data").and_then(|data| data.get(key)).and_then(Json::as_str);
            let value = value.and_then(|value| STANDARD.decode(value).ok());
            match value.and_then(|value| String::from_utf8(value).ok()) {
                Some(value) => Ok(Secret::new(value.trim_end_matches('\n').to_owned())),
                None => Err(SecretSourceError::Missing(format!(
                    "key `{key}` is missing or not UTF-8 text in {described}"
                ))),
            }
        };
        keys.iter().map(value).collect()
    }

    /// Records the version that was read, and starts to watch the Secret if it is not watched yet.
    fn watch(&self, id: &SecretId, version: Option<String>) {
        if self.watched.note(id, version.as_deref()) {
            return;
        }
        if self.watched.by_id.lock().len() >= MAX_WATCHED {
            self.watched.release_unused();
        }
        let mut watched = self.watched.by_id.lock();
        if watched.len() >= MAX_WATCHED {
            tracing::warn!("changes of Secret `{}` are not noticed: there are too many", id.1);
            return;
        }
        let release = self.stop.child_token();
        let new = WatchedSecret { version, changes: 0, release: release.clone() };
        // Two tasks may read a Secret for the first time concurrently.
        if watched.contains_key(id) {
            return;
        }
        watched.insert(id.clone(), new);
        drop(watched);
        let following = follow(Arc::clone(&self.api), Arc::clone(&self.watched), id.clone());
        self.tasks.spawn(boxed(async move {
            release.run_until_cancelled(following).await;
        }));
    }
}

impl SecretSource for KubeSecrets {
    fn secrets<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        keys: &'a [&'a str],
    ) -> SecretFuture<'a, Vec<Secret>> {
        let id = self.watched.id(namespace, name);
        Box::pin(async move { self.read(&id, keys).await })
    }
}

impl WatchedSecrets {
    fn id(&self, namespace: &str, name: &str) -> SecretId {
        let namespace = if namespace.is_empty() { &self.namespace } else { namespace };
        (namespace.to_owned(), name.to_owned())
    }

    /// Records the current version of a Secret, from a read or from the watch; `None` if it is unknown. Returns whether
    /// the Secret is watched.
    fn note(&self, id: &SecretId, version: Option<&str>) -> bool {
        let mut watched = self.by_id.lock();
        let Some(known) = watched.get_mut(id) else { return false };
        let Some(version) = version else { return true };
        // A watch may start from an older version than the one that was read.
        let number = |version: &str| version.parse::<u64>().ok();
        let is_older = number(version).is_some()
            && number(version) < known.version.as_deref().and_then(number);
        if known.version.as_deref() == Some(version) || is_older {
            return true;
        }
        known.version = Some(version.to_owned());
        known.changes += 1;
        drop(watched);
        tracing::info!("Secret `{}` changed: what refers to it is connected again", id.1);
        self.cache.definitions.notify_one();
        true
    }

    /// Ends the watches of Secrets that no resource refers to.
    fn release_unused(&self) {
        let objects = self.cache.all();
        let used: BTreeSet<SecretId> = objects
            .iter()
            .flat_map(|object| object.secrets())
            .map(|(namespace, name)| self.id(namespace, name))
            .collect();
        self.by_id.lock().retain(|id, known| {
            let is_used = used.contains(id);
            if !is_used {
                known.release.cancel();
            }
            is_used
        });
    }
}

fn path((namespace, name): &SecretId) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets/{name}")
}

fn version(object: &Json) -> String {
    let version = object.pointer("/metadata/resourceVersion").and_then(Json::as_str);
    version.unwrap_or_default().to_owned()
}

/// The version in the response to a read; `None` if it could not be read.
fn version_read(found: &Result<Json, ApiError>) -> Option<String> {
    match found {
        Ok(secret) => Some(version(secret)),
        Err(ApiError::NotFound) => Some(String::new()),
        Err(_) => None,
    }
}

/// Watches one Secret. Never returns.
async fn follow(api: Arc<ApiClient>, watched: Arc<WatchedSecrets>, id: SecretId) {
    let (mut failures, mut is_warned) = (0, false);
    loop {
        let began = Instant::now();
        match watch_once(&api, &watched, &id, &mut failures).await {
            Err(ApiError::Forbidden(reason)) if !is_warned => {
                is_warned = true;
                tracing::warn!(
                    "Secret `{}` in namespace `{}` may not be watched, so its changes are noticed up to {} seconds \
                     late: {reason}",
                    id.1,
                    id.0,
                    BACKOFF.max.as_secs()
                );
            }
            Err(error) => tracing::debug!("the watch of Secret `{}` is resumed: {error}", id.1),
            Ok(()) if began.elapsed() > BACKOFF.max => failures = 0,
            Ok(()) => (),
        }
        sleep(BACKOFF.jittered(failures, getrandom::u64().unwrap_or_default())).await;
        failures += 1;
    }
}

/// Watches one Secret until the watch ends.
async fn watch_once(
    api: &ApiClient,
    watched: &WatchedSecrets,
    id: &SecretId,
    failures: &mut u64,
) -> Result<(), ApiError> {
    let collection = format!("/api/v1/namespaces/{}/secrets", id.0);
    let selector = format!("metadata.name={}", id.1);
    // Version 0: the watch starts with the current Secret. Requesting initial events with bookmarks would do the same,
    // but not every API server supports that.
    let selection = [("fieldSelector", selector.as_str()), ("resourceVersion", "0")];
    let stream = api.watch(&collection, &selection, WATCH_SECONDS).await;
    // The watch does not report a Secret that was deleted before it started. Also, a Secret that may not be watched may
    // still be readable.
    let found = api.get(&path(id)).await;
    watched.note(id, version_read(&found).as_deref());
    let mut events = WatchStream::new(stream?);
    while let Some((happened, object)) = events.next().await? {
        *failures = 0;
        match happened {
            WatchEventKind::Put => drop(watched.note(id, Some(&version(&object)))),
            WatchEventKind::Deleted => drop(watched.note(id, Some(""))),
            WatchEventKind::Bookmark => (),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use muster_config::kinds::DefinitionKind;
    use muster_core::{
        lock::Lock,
        secret_source::{SecretSource as _, SecretSourceError},
    };
    use serde_json::{Value as Json, json};
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::{KubeSecrets, SWEEP};
    use crate::{
        cache::ObjectCache,
        object::KubeObject,
        testing::{Answer, TestServer, api_that},
    };

    /// The versions of a Secret that reads and an open watch return.
    #[derive(Debug, Default)]
    struct FakeSecret {
        /// The status and the version that a read finds.
        read: Lock<(u16, u64)>,
        /// Whether the server responds to a watch, and with which events.
        watch: Lock<Option<Vec<Json>>>,
        /// Whether a watch is denied.
        is_denied: AtomicBool,
    }

    impl FakeSecret {
        fn reads(&self, status: u16, version: u64) {
            *self.read.lock() = (status, version);
        }
    }

    fn secret(version: u64) -> Json {
        json!({"metadata": {"resourceVersion": version.to_string()}, "data": {"value": "eA=="}})
    }

    struct World {
        secrets: KubeSecrets,
        cache: Arc<ObjectCache>,
        told: Arc<FakeSecret>,
        _server: TestServer,
    }

    /// A cluster with one server, which refers to version 5 of the Secret `creds`.
    async fn world() -> World {
        let told = Arc::<FakeSecret>::default();
        told.reads(200, 5);
        let shared = Arc::clone(&told);
        let (api, server) = api_that(move |_, path, _| {
            if path.contains("watch=true") {
                if shared.is_denied.load(Ordering::SeqCst) {
                    return Answer::Reply(403, json!({"message": "denied"}));
                }
                let events = shared.watch.lock().clone();
                return events.map_or(Answer::Silence, Answer::Watch);
            }
            match *shared.read.lock() {
                (200, version) => Answer::Reply(200, secret(version)),
                (status, _) => Answer::Reply(status, json!({"message": "no"})),
            }
        })
        .await;
        let cache = Arc::new(ObjectCache::new());
        refer(&cache, "secret://creds");
        let background = (TaskTracker::new(), CancellationToken::new());
        let secrets = KubeSecrets::new(api, Arc::clone(&cache), "ns", background);
        World { secrets, cache, told, _server: server }
    }

    /// Puts one server with this header into the cache.
    fn refer(cache: &ObjectCache, header: &str) {
        let object =
            json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"headers": {"T": header}}});
        let object = KubeObject::new(DefinitionKind::McpServer, object).unwrap();
        cache.replace(DefinitionKind::McpServer, vec![object], "1");
    }

    impl World {
        async fn read(&self) -> Result<String, SecretSourceError> {
            let values = self.secrets.secrets("", "creds", &["value"]).await;
            values.map(|values| values.iter().map(|value| value.reveal().as_str()).collect())
        }

        fn changes(&self) -> u64 {
            self.secrets.changes([("", "creds")].into_iter())
        }

        /// Waits until the engine is notified.
        async fn notified(&self) {
            self.cache.definitions.notified().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_that_a_read_finds_first_counts() {
        let world = world().await;
        assert_eq!(world.read().await.unwrap(), "x");
        assert_eq!(world.changes(), 0);
        world.notified().await;
        // One server reads the changed Secret, and others still use the value from before.
        world.told.reads(200, 6);
        world.read().await.unwrap();
        assert_eq!(world.changes(), 1);
        world.notified().await;
        world.read().await.unwrap();
        assert_eq!(world.changes(), 1);
        // It is deleted, and comes back.
        world.told.reads(404, 0);
        let missing = world.read().await.unwrap_err();
        assert!(
            matches!(missing, SecretSourceError::Missing(text) if text.contains("does not exist"))
        );
        assert_eq!(world.changes(), 2);
        world.told.reads(200, 9);
        world.read().await.unwrap();
        assert_eq!(world.changes(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_fails_says_nothing_about_the_secret() {
        let world = world().await;
        world.read().await.unwrap();
        world.told.reads(503, 0);
        let error = world.read().await.unwrap_err();
        assert!(matches!(error, SecretSourceError::Unavailable(_)), "{error:?}");
        world.told.reads(403, 0);
        let error = world.read().await.unwrap_err();
        assert!(matches!(error, SecretSourceError::Missing(_)), "{error:?}");
        world.told.reads(200, 5);
        world.read().await.unwrap();
        assert_eq!(world.changes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_happened_while_no_watch_was_open_is_noticed() {
        let world = world().await;
        world.read().await.unwrap();
        world.notified().await;
        // The server does not respond to the watch yet, and then sends no event.
        world.told.reads(404, 0);
        *world.told.watch.lock() = Some(Vec::new());
        world.notified().await;
        assert_eq!(world.changes(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_noticed_where_secrets_may_be_read_but_not_watched() {
        let world = world().await;
        world.told.is_denied.store(true, Ordering::SeqCst);
        world.read().await.unwrap();
        world.notified().await;
        world.told.reads(200, 6);
        world.notified().await;
        assert_eq!(world.changes(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_is_missing_is_named() {
        let world = world().await;
        let missing = world.secrets.secrets("", "creds", &["token"]).await.unwrap_err();
        let SecretSourceError::Missing(missing) = missing else { panic!("{missing}") };
        let expected = "key `token` is missing or not UTF-8 text in Secret `creds`";
        assert!(missing.starts_with(expected), "{missing}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_tells_of_changes_and_an_older_version_is_none() {
        let world = world().await;
        let event = |kind: &str, version: u64| json!({"type": kind, "object": secret(version)});
        *world.told.watch.lock() = Some(vec![
            event("ADDED", 4),
            event("MODIFIED", 5),
            event("MODIFIED", 7),
            event("DELETED", 8),
        ]);
        world.read().await.unwrap();
        world.notified().await;
        while world.changes() < 2 {
            world.notified().await;
        }
        assert_eq!(world.changes(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_secret_that_nothing_refers_to_is_no_longer_watched() {
        let world = world().await;
        world.read().await.unwrap();
        let release = world.secrets.watched.by_id.lock().values().next().unwrap().release.clone();
        tokio::time::sleep(2 * SWEEP).await;
        assert!(!release.is_cancelled());
        refer(&world.cache, "none");
        release.cancelled().await;
        assert_eq!(world.secrets.watched.by_id.lock().len(), 0);
    }
}
