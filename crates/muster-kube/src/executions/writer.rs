//! The background writer of records. It writes them in order of arrival.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use jiff::Timestamp;
use muster_core::backoff::Backoff;
use serde_json::{Value as Json, json};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{ClusterExecutions, resource};
use crate::api::{ApiError, WriteMode};

/// The maximum size of all waiting records. The oldest are dropped.
const MAX_WAITING: usize = 32 << 20;
/// The interval between two writes. It limits the rate of requests: if an execution starts and ends meanwhile, only its
/// end is written.
const PACE: Duration = Duration::from_millis(50);
/// The maximum number of records that are written before running executions are renewed.
const ONE_TURN: usize = 200;
/// The interval at which the records of running executions are renewed.
const RENEWAL: Duration = Duration::from_secs(60);
/// The maximum number of attempts to write a record that others write concurrently.
const ATTEMPTS: usize = 4;
/// The backoff while the API server is unavailable.
const BACKOFF: Backoff =
    Backoff { first: Duration::from_millis(500), max: Duration::from_secs(30) };
/// The timeout of the last writes before shutdown.
const LAST_WRITES: Duration = Duration::from_secs(4);

/// The queue of waiting records, and the running executions.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: BTreeMap<String, Waiting>,
    order: VecDeque<String>,
    size: usize,
    /// The executions that run at this gateway, with the versions of their resources.
    running: BTreeMap<String, Option<String>>,
}

#[derive(Debug)]
struct Waiting {
    manifest: Json,
    size: usize,
}

impl Queue {
    /// Adds a record, replacing an earlier one of its execution. Returns the ids of the records that were dropped to
    /// make room.
    pub(super) fn push(&mut self, id: String, manifest: Json, is_running: bool) -> Vec<String> {
        if is_running {
            self.running.entry(id.clone()).or_default();
        }
        let size = manifest.to_string().len();
        let waiting = Waiting { manifest, size };
        match self.waiting.insert(id.clone(), waiting) {
            Some(earlier) => self.size -= earlier.size,
            None => self.order.push_back(id),
        }
        self.size += size;
        let mut dropped = Vec::new();
        while self.size > MAX_WAITING && self.order.len() > 1 {
            dropped.extend(self.pop().map(|(id, _)| id));
        }
        dropped
    }

    fn pop(&mut self) -> Option<(String, Json)> {
        let id = self.order.pop_front()?;
        let Waiting { manifest, size } = self.waiting.remove(&id)?;
        self.size -= size;
        Some((id, manifest))
    }

    /// Returns a record that could not be written to the queue, unless a later one waits.
    fn put_back(&mut self, id: String, manifest: Json) {
        if !self.waiting.contains_key(&id) {
            let size = manifest.to_string().len();
            self.size += size;
            self.order.push_front(id.clone());
            self.waiting.insert(id, Waiting { manifest, size });
        }
    }

    pub(super) fn release(&mut self, id: &str) {
        self.running.remove(id);
    }

    pub(super) fn is_running(&self, id: &str) -> bool {
        self.running.contains_key(id)
    }

    fn version(&self, id: &str) -> Option<String> {
        self.running.get(id).cloned().flatten()
    }

    /// Stores the version that was written, or removes the execution if it has ended.
    fn written(&mut self, id: &str, object: &Json) {
        if object.pointer("/spec/status").and_then(Json::as_str) != Some("inprogress") {
            self.running.remove(id);
        } else if let Some(known) = self.running.get_mut(id) {
            let version = object.pointer("/metadata/resourceVersion").and_then(Json::as_str);
            *known = version.map(str::to_owned);
        }
    }
}

/// Writes records until `stop`, and then those that wait.
pub(super) async fn run(executions: &ClusterExecutions, stop: CancellationToken) {
    let mut renewal = interval_at(Instant::now() + RENEWAL, RENEWAL);
    renewal.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = 0;
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            _ = renewal.tick() => {
                if stop.run_until_cancelled(renew(executions)).await.is_none() {
                    break;
                }
            }
            () = executions.waiting.notified() => {
                if stop.run_until_cancelled(write_some(executions, &mut failures)).await.is_none() {
                    break;
                }
            }
        }
    }
    let last = async { while write_next(executions).await.is_some_and(|done| done.is_ok()) {} };
    if timeout(LAST_WRITES, last).await.is_err() {
        tracing::debug!("some records of executions were not written at the end");
    }
}

/// Writes waiting records, up to [`ONE_TURN`], so that running executions are renewed in between.
async fn write_some(executions: &ClusterExecutions, failures: &mut u64) {
    for _ in 0..ONE_TURN {
        let Some(done) = write_next(executions).await else { return };
        match done {
            Ok(()) => {
                *failures = 0;
                sleep(PACE).await;
            }
            Err(error) => {
                tracing::debug!("records of executions wait: {error}");
                sleep(BACKOFF.jittered(*failures, getrandom::u64().unwrap_or_default())).await;
                *failures += 1;
            }
        }
    }
    executions.waiting.notify_one();
}

/// Writes the next record. Fails only if the API server is unavailable; the record is then queued again.
async fn write_next(executions: &ClusterExecutions) -> Option<Result<(), ApiError>> {
    let (id, manifest) = executions.queue.lock().pop()?;
    // If this is cancelled, it is unknown whether the record was written: queue it again.
    let mut unwritten = Unwritten { executions, record: Some((id.clone(), manifest.clone())) };
    match write(executions, &id, &manifest).await {
        Err(error @ ApiError::Unavailable(_)) => return Some(Err(error)),
        Err(error) => {
            executions.queue.lock().written(&id, &manifest);
            let hint =
                if error == ApiError::NotFound { ": the API server has no such kind" } else { "" };
            tracing::warn!("the record of run {id} is at this gateway only: {error}{hint}");
        }
        Ok(()) => (),
    }
    unwritten.record = None;
    Some(Ok(()))
}

/// A guard that queues its record again on drop, unless it was written.
struct Unwritten<'a> {
    executions: &'a ClusterExecutions,
    record: Option<(String, Json)>,
}

impl Drop for Unwritten<'_> {
    fn drop(&mut self) {
        if let Some((id, manifest)) = self.record.take() {
            self.executions.queue.lock().put_back(id, manifest);
        }
    }
}

async fn write(executions: &ClusterExecutions, id: &str, manifest: &Json) -> Result<(), ApiError> {
    let (api, path) = (&executions.api, executions.path(id));
    let mut version = executions.queue.lock().version(id);
    for _ in 0..ATTEMPTS {
        let done = match &version {
            None => {
                api.create_definition(&executions.collection(), manifest, WriteMode::Store).await
            }
            Some(version) => {
                let mut next = manifest.clone();
                if let Some(metadata) = next.get_mut("metadata").and_then(Json::as_object_mut) {
                    metadata.insert("resourceVersion".to_owned(), json!(version));
                }
                api.replace_definition(&path, &next, WriteMode::Store).await
            }
        };
        match (done, &version) {
            (Ok(written), _) => {
                executions.queue.lock().written(id, &written);
                return Ok(());
            }
            (Err(ApiError::Exists | ApiError::Conflict), _) => {
                let current = api.get(&path).await?;
                if resource::has_ended(&current) {
                    executions.queue.lock().written(id, &current);
                    return Ok(());
                }
                let current = current.pointer("/metadata/resourceVersion").and_then(Json::as_str);
                version = current.map(str::to_owned);
            }
            // The resource was deleted: create it again.
            (Err(ApiError::NotFound), Some(_)) => version = None,
            (Err(error), _) => return Err(error),
        }
    }
    Err(ApiError::Conflict)
}

/// Renews the records of running executions.
async fn renew(executions: &ClusterExecutions) {
    let running: Vec<String> = {
        let queue = executions.queue.lock();
        let written = queue.running.iter().filter(|(_, version)| version.is_some());
        written.map(|(id, _)| id.clone()).collect()
    };
    let patch = resource::renewal(&Timestamp::now().to_string());
    for id in running {
        match executions.api.patch(&executions.path(&id), &patch).await {
            // The execution may have ended meanwhile.
            Ok(renewed) if executions.queue.lock().is_running(&id) => {
                executions.queue.lock().written(&id, &renewed);
            }
            Ok(_) => (),
            Err(error) => tracing::debug!("the record of run {id} is not renewed: {error}"),
        }
        sleep(PACE).await;
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use muster_core::lock::Lock;
    use muster_engine::execution_store::ExecutionStore as _;
    use muster_workflow::{
        JsonObject,
        record::{JournalTime, RunRecord, RunState},
    };
    use serde_json::json;
    use tokio::time::sleep;
    use tokio_util::sync::CancellationToken;

    use super::{MAX_WAITING, Queue, run};
    use crate::{
        executions::ClusterExecutions,
        testing::{Answer, api_that},
    };

    fn begun(id: &str) -> RunRecord {
        let at = JournalTime { text: "2026-02-04T10:00:00Z".to_owned(), ms: 0 };
        RunRecord::begun(id.to_owned(), "w".to_owned(), JsonObject::new(), &at)
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut queue = Queue::default();
        let large = json!("x".repeat(MAX_WAITING / 2));
        assert_eq!(queue.push("a".to_owned(), large.clone(), false), Vec::<String>::new());
        // A later record of an execution replaces the earlier one.
        assert_eq!(queue.push("a".to_owned(), large.clone(), false), Vec::<String>::new());
        assert_eq!(queue.push("b".to_owned(), large, false), ["a"]);
        let (id, manifest) = queue.pop().unwrap();
        assert_eq!(queue.pop(), None);
        queue.put_back(id, manifest);
        assert_eq!(queue.push("b".to_owned(), json!(1), false), Vec::<String>::new());
        assert_eq!(queue.pop(), Some(("b".to_owned(), json!(1))));
        assert_eq!(queue.size, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_waits_while_the_api_server_is_away_and_a_running_one_is_renewed() {
        let asked = Arc::new(Lock::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let (api, _server) = api_that(move |method, _, body| {
            let mut seen = seen.lock();
            seen.push(method.to_owned());
            if seen.len() < 3 {
                return Answer::Reply(503, json!({}));
            }
            let mut object = body.clone();
            object["metadata"]["resourceVersion"] = json!(seen.len().to_string());
            object["spec"]["status"] = json!("inprogress");
            Answer::Reply(200, object)
        })
        .await;
        let executions = ClusterExecutions::new(api, "ns");
        executions.store(begun("run"));
        let work = async {
            while asked.lock().len() < 5 {
                sleep(Duration::from_secs(1)).await;
            }
            // Another gateway takes the execution over and renews it.
            executions.release("run");
            let count = asked.lock().len();
            sleep(Duration::from_secs(300)).await;
            assert_eq!(asked.lock().len(), count);
        };
        tokio::select! {
            () = work => (),
            () = run(&executions, CancellationToken::new()) => (),
        }
        assert_eq!(*asked.lock(), ["POST", "POST", "POST", "PATCH", "PATCH"]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_older_definition_does_not_lose_the_owner_of_a_record() {
        let asked = Arc::new(Lock::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let (api, _server) = api_that(move |method, path, _| {
            seen.lock().push(format!("{method} {path}"));
            let message = "strict decoding error: unknown field \"spec.owner\"";
            Answer::Reply(400, json!({"reason": "BadRequest", "message": message}))
        })
        .await;
        let executions = ClusterExecutions::new(api, "ns");
        let owner = Some("https://idp|ann".to_owned());
        executions.store(RunRecord { owner, status: RunState::Completed, ..begun("run") });
        let stop = CancellationToken::new();
        let work = async {
            while asked.lock().is_empty() {
                sleep(Duration::from_millis(10)).await;
            }
            // It is not retried.
            sleep(Duration::from_secs(60)).await;
        };
        tokio::select! {
            () = work => (),
            () = run(&executions, stop) => (),
        }
        let asked = asked.lock();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert!(asked[0].ends_with("/workflowexecutions?fieldValidation=Strict"), "{asked:?}");
    }
}
