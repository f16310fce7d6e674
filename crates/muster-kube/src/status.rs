//! Writes the statuses of resources, on change only, while this gateway leads.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use muster_core::backoff::Backoff;
use muster_engine::{
    status::moment,
    store::{DefinitionStatus, StatusCondition},
};
use serde_json::{Map, Value as Json, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    api::{ApiClient, ApiError},
    cache::ObjectCache,
    object::KubeObject,
    store::{self, KubeStore},
};

/// The pauses after statuses that could not be written.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(2), max: Duration::from_secs(60) };
/// How long the status of a resource that is gone is kept. One that is soon created anew is the same to the engine, which
/// does not report its status again.
const KEPT: Duration = Duration::from_secs(60);

/// A status that was written: what was wanted, and what the API server made of it.
type Written = (DefinitionStatus, Option<Map<String, Json>>);

/// Writes statuses, forever.
pub(crate) async fn keep(
    api: Arc<ApiClient>,
    cache: Arc<ObjectCache>,
    store: Arc<KubeStore>,
    mut leading: watch::Receiver<bool>,
) {
    let mut writer = StatusWriter::new(&api, &cache, &store, leading.clone());
    let mut failures = 0;
    loop {
        // After a failure, what happens meanwhile is not written sooner.
        let next = async {
            if failures > 0 {
                return sleep(BACKOFF.jittered(failures - 1, random())).await;
            }
            tokio::select! {
                () = store.reported.notified() => (),
                () = cache.objects.notified() => (),
            }
        };
        tokio::select! {
            () = next => (),
            changed = leading.changed() => if changed.is_err() { return },
        }
        writer.prune();
        if !*leading.borrow_and_update() {
            writer.written.clear();
            failures = 0;
            continue;
        }
        failures = if writer.write_all().await { 0 } else { failures + 1 };
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
    /// Why a status was not written, as it was logged last.
    errors: BTreeMap<PathBuf, ApiError>,
    /// Since when resources with a status are gone.
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
            errors: BTreeMap::new(),
            gone: BTreeMap::new(),
        }
    }

    /// Forgets the statuses of resources that are gone.
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
        self.errors.retain(|path, _| desired.contains_key(path));
    }

    /// Whether every status is up to date.
    async fn write_all(&mut self) -> bool {
        let paths: Vec<PathBuf> = self.store.desired.lock().keys().cloned().collect();
        let mut is_complete = true;
        for path in paths {
            // Each request takes its time: another may lead by now.
            if !*self.leading.borrow() {
                return true;
            }
            let status = self.store.desired.lock().get(&path).cloned();
            let Some(status) = status else { continue };
            match self.write(&path, status).await {
                Ok(()) => drop(self.errors.remove(&path)),
                Err(error) => {
                    is_complete = false;
                    let is_unavailable = matches!(error, ApiError::Unavailable(_));
                    if self.errors.get(&path) != Some(&error) {
                        tracing::warn!("cannot write the status of {}: {error}", path.display());
                        self.errors.insert(path, error);
                    }
                    if is_unavailable {
                        break;
                    }
                }
            }
        }
        is_complete
    }

    /// Writes a status, unless the resource has it.
    async fn write(&mut self, path: &Path, status: DefinitionStatus) -> Result<(), ApiError> {
        let Some((kind, name)) = store::resource(path) else { return Ok(()) };
        let Some(object) = self.cache.get(kind, name) else { return Ok(()) };
        let is_written = self
            .written
            .get(path)
            .is_some_and(|(wanted, made)| *wanted == status && made.as_ref() == object.status());
        let Some(patch) = patch(&object, &status, Timestamp::now()).filter(|_| !is_written) else {
            return Ok(());
        };
        let at = format!("{}/{name}/status", self.store.collection(kind));
        match self.api.patch(&at, &json!({"status": patch})).await {
            Ok(after) => {
                if let Some(after) = KubeObject::new(kind, after) {
                    self.written.insert(path.to_owned(), (status, after.status().cloned()));
                    self.cache.put_written(kind, after);
                }
                Ok(())
            }
            // Deleted meanwhile; the watch says so.
            Err(ApiError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// The merge patch from the status that an object has to the one it should have; none if they are equal.
fn patch(object: &KubeObject, status: &DefinitionStatus, now: Timestamp) -> Option<Json> {
    let nothing = Map::new();
    let before = object.status().unwrap_or(&nothing);
    let mut after = match status.fields.is_empty() {
        true => before.clone(),
        false => status.fields.clone(),
    };
    if status.conditions.is_empty() {
        after
            .extend(before.get("conditions").map(|known| ("conditions".to_owned(), known.clone())));
    } else {
        let known = before.get("conditions").and_then(Json::as_array);
        let conditions = status.conditions.iter().map(|wanted| {
            let is = |known: &&Json| known.get("type").and_then(Json::as_str) == Some(wanted.kind);
            let known = known.into_iter().flatten().find(is);
            condition(wanted, status.generation, known, now)
        });
        after.insert("conditions".to_owned(), conditions.collect());
    }
    (after != *before).then(|| Json::Object(difference(before, after)))
}

/// The merge patch from one object to another: what is new or differs, and `null` for what is gone, at every depth.
fn difference(before: &Map<String, Json>, after: Map<String, Json>) -> Map<String, Json> {
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let mut patch: Map<String, Json> = gone.map(|key| (key.clone(), Json::Null)).collect();
    for (key, value) in after {
        match (before.get(&key), value) {
            (Some(known), value) if *known == value => (),
            (Some(Json::Object(known)), Json::Object(value)) => {
                patch.insert(key, Json::Object(difference(known, value)));
            }
            (_, value) => drop(patch.insert(key, value)),
        }
    }
    patch
}

/// A condition, with the time since when it has its state.
fn condition(
    wanted: &StatusCondition,
    generation: Option<i64>,
    known: Option<&Json>,
    now: Timestamp,
) -> Json {
    let status = if wanted.holds { "True" } else { "False" };
    let is_same =
        known.and_then(|known| known.get("status")).and_then(Json::as_str) == Some(status);
    let since = known.and_then(|known| known.get("lastTransitionTime")).filter(|_| is_same);
    let mut condition = json!({
        "type": wanted.kind,
        "status": status,
        "reason": wanted.reason,
        "message": wanted.message,
        "lastTransitionTime": since.cloned().unwrap_or_else(|| json!(moment(now))),
    });
    if let (Some(generation), Json::Object(condition)) = (generation, &mut condition) {
        condition.insert("observedGeneration".to_owned(), json!(generation));
    }
    condition
}

#[cfg(test)]
mod tests {
    use std::{
        path::Path,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use jiff::Timestamp;
    use muster_config::kinds::DefinitionKind;
    use muster_engine::store::{DefinitionStatus, StatusCondition, StatusSink as _};
    use serde_json::{Value as Json, json};
    use tokio::sync::watch;
    use tokio_util::{sync::CancellationToken, task::TaskTracker};

    use super::{KEPT, StatusWriter, patch};
    use crate::{
        api::ApiClient,
        cache::ObjectCache,
        object::KubeObject,
        secrets::KubeSecrets,
        store::KubeStore,
        testing::{Answer, TestServer, api_that},
    };

    fn object(status: &Json) -> KubeObject {
        let json =
            json!({"metadata": {"name": "a", "generation": 2}, "spec": {}, "status": status});
        KubeObject::new(DefinitionKind::McpServer, json).unwrap()
    }

    fn wanted(holds: bool) -> DefinitionStatus {
        let ready = StatusCondition {
            kind: "Ready",
            holds,
            reason: if holds { "Connected" } else { "Failed" },
            message: String::new(),
        };
        DefinitionStatus {
            generation: Some(2),
            fields: json!({"state": if holds { "Connected" } else { "Failed" }})
                .as_object()
                .unwrap()
                .clone(),
            conditions: vec![ready],
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Applies a merge patch (RFC 7396).
    fn merged(before: &Json, patch: &Json) -> Json {
        let Json::Object(patch) = patch else { return patch.clone() };
        let mut after = before.as_object().cloned().unwrap_or_default();
        for (key, value) in patch {
            match value {
                Json::Null => drop(after.remove(key)),
                value => {
                    let merged = merged(after.get(key).unwrap_or(&Json::Null), value);
                    after.insert(key.clone(), merged);
                }
            }
        }
        Json::Object(after)
    }

    #[test]
    fn a_status_is_written_on_change_only() {
        let first = patch(&object(&json!({})), &wanted(true), at(10)).unwrap();
        let status = merged(&json!({}), &first);
        assert_eq!(status["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert_eq!(status["conditions"][0]["observedGeneration"], 2);
        assert_eq!(patch(&object(&status), &wanted(true), at(20)), None);
    }

    #[test]
    fn the_time_of_a_condition_is_that_of_its_last_change() {
        let connected =
            merged(&json!({}), &patch(&object(&json!({})), &wanted(true), at(10)).unwrap());
        let mut newer = wanted(true);
        newer.generation = Some(3);
        let newer = merged(&connected, &patch(&object(&connected), &newer, at(20)).unwrap());
        assert_eq!(newer["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:10Z");
        assert_eq!(newer["conditions"][0]["observedGeneration"], 3);
        let failed =
            merged(&connected, &patch(&object(&connected), &wanted(false), at(30)).unwrap());
        assert_eq!(failed["conditions"][0]["status"], "False");
        assert_eq!(failed["conditions"][0]["lastTransitionTime"], "1970-01-01T00:00:30Z");
    }

    #[test]
    fn what_no_longer_holds_is_removed() {
        let before = json!({"state": "Failed", "lastError": "x"});
        let after = merged(&before, &patch(&object(&before), &wanted(true), at(1)).unwrap());
        assert_eq!(after.get("lastError"), None);
        assert_eq!(after["state"], "Connected");
    }

    #[test]
    fn what_no_longer_holds_is_removed_at_every_depth() {
        let fields = |outputs: Json| DefinitionStatus {
            fields: json!({"state": "running", "outputs": outputs}).as_object().unwrap().clone(),
            ..DefinitionStatus::default()
        };
        for (before, wanted) in [
            (json!({"url": "a", "port": 1}), json!({"url": "a"})),
            (json!({"a": {"b": {"c": 1}, "d": 2}}), json!({"a": {"b": {}, "d": 3}})),
            (json!({"a": {"b": 1}}), json!({"a": "text"})),
            (json!({"a": [1, 2]}), json!({"a": [{"b": 1}]})),
            (json!(null), json!({"a": 1})),
        ] {
            let before = json!({"state": "running", "outputs": before});
            let patch = patch(&object(&before), &fields(wanted.clone()), at(1)).unwrap();
            assert_eq!(merged(&before, &patch)["outputs"], wanted, "{patch}");
            // Only what differs is written.
            assert_eq!(patch.get("state"), None, "{patch}");
        }
    }

    /// Three servers whose status is to be written.
    struct World {
        api: Arc<ApiClient>,
        cache: Arc<ObjectCache>,
        store: Arc<KubeStore>,
        _server: TestServer,
    }

    impl World {
        async fn new(answers: impl Fn(&str, &Json) -> Answer + Send + Sync + 'static) -> Self {
            let (api, server) = api_that(move |_, path, body| answers(path, body)).await;
            let cache = Arc::new(ObjectCache::new());
            let objects = ["a", "b", "c"].map(|name| {
                let json = json!({"metadata": {"name": name, "uid": name}, "spec": {}});
                KubeObject::new(DefinitionKind::McpServer, json).unwrap()
            });
            cache.replace(DefinitionKind::McpServer, objects.into(), "1");
            let background = (TaskTracker::new(), CancellationToken::new());
            let (shared, known) = (Arc::clone(&api), Arc::clone(&cache));
            let secrets = KubeSecrets::new(shared, known, "ns", background);
            let (shared, known) = (Arc::clone(&api), Arc::clone(&cache));
            let store = Arc::new(KubeStore::new(shared, known, Arc::new(secrets), "ns"));
            for name in ["a", "b", "c"] {
                store.report(&Path::new("mcpservers").join(name), wanted(true));
            }
            Self { api, cache, store, _server: server }
        }

        fn writer(&self, leading: watch::Receiver<bool>) -> StatusWriter<'_> {
            StatusWriter::new(&self.api, &self.cache, &self.store, leading)
        }
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
        world.writer(leading).write_all().await;
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn an_api_server_that_is_away_is_not_asked_for_every_status() {
        let (_lead, leading) = watch::channel(true);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let world = World::new(move |path, _| match path {
            // What is refused for one resource says nothing about others.
            path if path.ends_with("/a/status") => Answer::Reply(422, json!({"message": "no"})),
            _ => {
                count.fetch_add(1, Ordering::SeqCst);
                Answer::Reply(503, json!({"message": "away"}))
            }
        })
        .await;
        let mut writer = world.writer(leading);
        assert!(!writer.write_all().await);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        let logged: Vec<_> = writer.errors.values().map(ToString::to_string).collect();
        assert_eq!(logged, ["no", "away"]);
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

    #[test]
    fn a_part_leaves_the_rest_alone() {
        let before = json!({"state": "running"});
        let conditions = DefinitionStatus { fields: serde_json::Map::new(), ..wanted(true) };
        let after = merged(&before, &patch(&object(&before), &conditions, at(1)).unwrap());
        assert_eq!(after["state"], "running");
        let fields = DefinitionStatus { conditions: Vec::new(), ..wanted(false) };
        let last = merged(&after, &patch(&object(&after), &fields, at(2)).unwrap());
        assert_eq!((&last["state"], &last["conditions"]), (&json!("Failed"), &after["conditions"]));
    }
}
