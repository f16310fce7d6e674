//! An API server of a few resources: lists, watches, optimistic locking, statuses.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use muster_config::kinds::DefinitionKind;
use muster_core::lock::Lock;
use muster_kube::{Cluster, ClusterAccess, ClusterError};
use serde_json::{Value as Json, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    sync::{Notify, watch},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

const TOKEN: &str = "t0ken-of-the-gateway";

/// The state of the server.
#[derive(Debug, Default)]
pub(crate) struct FakeApi {
    objects: Lock<BTreeMap<String, Json>>,
    /// What happened, by version: the collection and the event.
    log: Lock<Vec<(u64, String, Json)>>,
    version: AtomicU64,
    /// Versions up to this one are forgotten: a watch from one of them is refused.
    pub(crate) forgotten: AtomicU64,
    happened: Notify,
    /// Cancelled to break every watch that is open.
    watches: Lock<CancellationToken>,
    pub(crate) lists: AtomicUsize,
    /// Kinds that are not installed, by plural.
    pub(crate) unknown: Lock<Vec<&'static str>>,
    /// Kinds whose lists a proxy in between does not find, by plural.
    pub(crate) hidden: Lock<Vec<&'static str>>,
    /// How often it was asked which kinds there are.
    discoveries: watch::Sender<usize>,
    /// Whether events are held back.
    held: watch::Sender<bool>,
    statuses: watch::Sender<usize>,
}

/// A server with its address, and a kubeconfig for it.
pub(crate) struct FakeServer {
    pub(crate) api: Arc<FakeApi>,
    folder: TempDir,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.close();
    }
}

impl FakeServer {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let config = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": format!("http://{address}")}}],
            "users": [{"name": "u", "user": {"token": TOKEN}}],
        });
        std::fs::write(folder.path().join("config"), config.to_string()).unwrap();
        let (api, tasks, stop) =
            (Arc::new(FakeApi::default()), TaskTracker::new(), CancellationToken::new());
        let (shared, spawner, end) = (Arc::clone(&api), tasks.clone(), stop.clone());
        tasks.spawn(async move {
            loop {
                tokio::select! {
                    () = end.cancelled() => return,
                    accepted = listener.accept() => {
                        let (stream, _) = accepted.unwrap();
                        let (api, end) = (Arc::clone(&shared), end.clone());
                        spawner.spawn(async move {
                            tokio::select! {
                                () = end.cancelled() => (),
                                () = serve(api, stream) => (),
                            }
                        });
                    }
                }
            }
        });
        Self { api, folder, tasks, stop }
    }

    pub(crate) async fn connect(&self) -> Cluster {
        self.connect_to("ns").await.unwrap()
    }

    pub(crate) async fn connect_to(&self, namespace: &str) -> Result<Cluster, ClusterError> {
        let path: PathBuf = self.folder.path().join("config");
        let access = ClusterAccess::by_kubeconfig(&path).unwrap();
        let mut cluster = Cluster::connect(access, namespace, "pod").await?;
        cluster.campaign();
        Ok(cluster)
    }
}

impl FakeApi {
    /// Stores an object as kubectl does.
    pub(crate) fn put(&self, plural: &str, name: &str, spec: &Json) {
        let collection = format!("/apis/muster.giantswarm.io/v1alpha1/namespaces/ns/{plural}");
        let known = self.objects.lock().get(&format!("{collection}/{name}")).cloned();
        let generation =
            known.as_ref().map_or(1, |known| known["metadata"]["generation"].as_i64().unwrap() + 1);
        let mut object = known.unwrap_or_else(
            || json!({"metadata": {"name": name, "namespace": "ns", "uid": self.new_uid(name)}}),
        );
        object["spec"] = spec.clone();
        object["metadata"]["generation"] = json!(generation);
        self.store(&collection, name, object);
    }

    pub(crate) fn delete(&self, plural: &str, name: &str) {
        let collection = format!("/apis/muster.giantswarm.io/v1alpha1/namespaces/ns/{plural}");
        self.remove(&collection, name);
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Json> {
        let path = format!("/apis/muster.giantswarm.io/v1alpha1/namespaces/ns/{plural}/{name}");
        self.objects.lock().get(&path).cloned()
    }

    /// How often it was asked which kinds there are.
    pub(crate) fn discoveries(&self) -> watch::Receiver<usize> {
        self.discoveries.subscribe()
    }

    /// Holds events back, or lets them go.
    pub(crate) fn hold_events(&self, held: bool) {
        self.held.send_replace(held);
    }

    fn new_uid(&self, name: &str) -> String {
        format!("uid-{name}-{}", self.version.load(Ordering::SeqCst))
    }

    /// The number of statuses that were written.
    pub(crate) fn status_writes(&self) -> watch::Receiver<usize> {
        self.statuses.subscribe()
    }

    pub(crate) fn lease(&self) -> Option<Json> {
        let path = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/muster-status";
        self.objects.lock().get(path).cloned()
    }

    /// Drops the event history, so that watches must list again.
    pub(crate) fn forget(&self) {
        self.forgotten.store(self.version.load(Ordering::SeqCst), Ordering::SeqCst);
    }

    /// Breaks every open watch.
    pub(crate) fn break_watches(&self) {
        std::mem::take(&mut *self.watches.lock()).cancel();
    }

    fn store(&self, collection: &str, name: &str, mut object: Json) -> Json {
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        let path = format!("{collection}/{name}");
        let before = self.objects.lock().insert(path, object.clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.tell(version, collection, json!({"type": kind, "object": object}));
        object
    }

    fn remove(&self, collection: &str, name: &str) -> Option<Json> {
        let mut object = self.objects.lock().remove(&format!("{collection}/{name}"))?;
        let version = self.version.fetch_add(1, Ordering::SeqCst) + 1;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.tell(version, collection, json!({"type": "DELETED", "object": object}));
        Some(object)
    }

    fn tell(&self, version: u64, collection: &str, event: Json) {
        self.log.lock().push((version, collection.to_owned(), event));
        self.happened.notify_waiters();
    }

    fn answer(&self, method: &str, path: &str, body: &Json) -> (u16, Json) {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let known = self.objects.lock().get(path).cloned();
        let version = self.version.load(Ordering::SeqCst).to_string();
        match method {
            "GET" if path == "/apis/muster.giantswarm.io/v1alpha1" => {
                let unknown = self.unknown.lock();
                let kinds = DefinitionKind::ALL.into_iter().map(DefinitionKind::plural);
                let kinds = kinds.filter(|plural| !unknown.contains(plural));
                let resources: Vec<Json> = kinds.map(|plural| json!({"name": plural})).collect();
                self.discoveries.send_modify(|count| *count += 1);
                (200, json!({"kind": "APIResourceList", "resources": resources}))
            }
            "GET"
                if [&self.unknown, &self.hidden]
                    .iter()
                    .any(|lost| lost.lock().iter().any(|plural| path.ends_with(*plural))) =>
            {
                refused(404, "NotFound")
            }
            "GET" if path.matches('/').count() == 6 => {
                self.lists.fetch_add(1, Ordering::SeqCst);
                let objects = self.objects.lock();
                let items =
                    objects.iter().filter(|(known, _)| known.rsplit_once('/').unwrap().0 == path);
                let items: Vec<Json> = items.map(|(_, object)| object.clone()).collect();
                (200, json!({"metadata": {"resourceVersion": version}, "items": items}))
            }
            "GET" => known.map_or_else(|| refused(404, "NotFound"), |object| (200, object)),
            "POST" => {
                let name = body["metadata"]["name"].as_str().unwrap_or("generated").to_owned();
                if self.objects.lock().contains_key(&format!("{path}/{name}")) {
                    return refused(409, "AlreadyExists");
                }
                let mut object = body.clone();
                object["metadata"]["uid"] = json!(self.new_uid(&name));
                object["metadata"]["generation"] = json!(1);
                (201, self.store(path, &name, object))
            }
            "PUT" => match known {
                None => refused(404, "NotFound"),
                Some(known)
                    if known["metadata"]["resourceVersion"]
                        != body["metadata"]["resourceVersion"] =>
                {
                    refused(409, "Conflict")
                }
                Some(known) => {
                    let mut object = body.clone();
                    let generation = known["metadata"]["generation"].as_i64().unwrap_or_default();
                    object["metadata"]["generation"] = json!(generation + 1);
                    (200, self.store(collection, name, object))
                }
            },
            "PATCH" => self.patched(path.trim_end_matches("/status"), body),
            "DELETE"
                if known.as_ref().is_some_and(|known| {
                    known["metadata"]["uid"] != body["preconditions"]["uid"]
                }) =>
            {
                refused(409, "Conflict")
            }
            "DELETE" => self
                .remove(collection, name)
                .map_or_else(|| refused(404, "NotFound"), |gone| (200, gone)),
            _ => refused(405, "MethodNotAllowed"),
        }
    }

    fn patched(&self, path: &str, patch: &Json) -> (u16, Json) {
        let (collection, name) = path.rsplit_once('/').unwrap();
        let Some(mut object) = self.objects.lock().get(path).cloned() else {
            return refused(404, "NotFound");
        };
        let version = &patch["metadata"]["resourceVersion"];
        if version.is_string() && *version != object["metadata"]["resourceVersion"] {
            return refused(409, "Conflict");
        }
        merge(&mut object, patch);
        let stored = self.store(collection, name, object);
        if !patch["status"].is_null() {
            self.statuses.send_modify(|count| *count += 1);
        }
        (200, stored)
    }

    /// Sends the events of a collection from a version on, until the watch is broken.
    async fn watch(&self, collection: &str, from: u64, to: &mut OwnedWriteHalf) {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n";
        if to.write_all(head.as_bytes()).await.is_err() {
            return;
        }
        let broken = self.watches.lock().clone();
        let mut sent = from;
        let mut held = self.held.subscribe();
        loop {
            // The sender is part of `self`.
            drop(held.wait_for(|held| !*held).await);
            let news = self.happened.notified();
            let events: Vec<(u64, Json)> = {
                let log = self.log.lock();
                let new =
                    log.iter().filter(|(version, place, _)| *version > sent && place == collection);
                new.map(|(version, _, event)| (*version, event.clone())).collect()
            };
            for (version, event) in events {
                sent = version;
                if to.write_all(format!("{event}\n").as_bytes()).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = news => (),
                () = broken.cancelled() => return,
            }
        }
    }
}

/// Applies a merge patch (RFC 7396).
fn merge(target: &mut Json, patch: &Json) {
    let Json::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        match value {
            Json::Null => drop(target.as_object_mut().unwrap().remove(key)),
            value => merge(&mut target[key], value),
        }
    }
}

fn refused(status: u16, reason: &str) -> (u16, Json) {
    (status, json!({"kind": "Status", "reason": reason, "message": reason, "code": status}))
}

/// Answers the one request of a connection.
async fn serve(api: Arc<FakeApi>, stream: TcpStream) {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = String::new();
    if read.read_line(&mut line).await.unwrap_or_default() == 0 {
        return;
    }
    let request = line.trim_end().to_owned();
    let (mut length, mut is_known) = (0, false);
    loop {
        line.clear();
        read.read_line(&mut line).await.unwrap();
        let header = line.trim_end();
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(": ").unwrap();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "authorization" => is_known = value == format!("Bearer {TOKEN}"),
            _ => (),
        }
    }
    assert!(is_known, "a request without its token: {request}");
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.unwrap();
    let mut words = request.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let asked = |key: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(name, _)| *name == key).map(|(_, value)| value.to_owned())
    };
    let (status, answer) = if asked("watch").is_some() {
        let from: u64 = asked("resourceVersion").unwrap().parse().unwrap();
        if from >= api.forgotten.load(Ordering::SeqCst) {
            return api.watch(path, from, &mut write).await;
        }
        refused(410, "Expired")
    } else {
        api.answer(method, path, &serde_json::from_slice(&body).unwrap_or_default())
    };
    let answer = answer.to_string();
    let response = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
    // The client may be gone.
    drop(write.write_all(response.as_bytes()).await);
}
