//! The leader's cleanup of the records of all gateways: removes old ones, and closes those whose gateway is gone.

use std::time::Duration;

use jiff::Timestamp;
use muster_engine::execution_store::{MAX_RECORDS, RETENTION};
use tokio::{sync::watch, time::sleep};

use super::{ClusterExecutions, resource, summaries::KnownExecution};
use crate::api::ApiError;

/// The interval between two rounds.
const INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The maximum size of all records, a fraction of what etcd stores by default. Beyond it the oldest are removed.
const MAX_SIZE: usize = 256 << 20;
/// The maximum number of records that one round removes.
const MAX_REMOVALS: usize = 1_000;
/// The interval between two requests.
const PACE: Duration = Duration::from_millis(20);
/// How long a record may go without a renewal before its gateway counts as gone: several renewal intervals.
const MAX_SILENCE: Duration = Duration::from_secs(10 * 60);

/// Runs a round at every interval while this gateway leads. Never returns.
pub(super) async fn run(executions: &ClusterExecutions, leading: watch::Receiver<bool>) {
    loop {
        sleep(INTERVAL).await;
        if !*leading.borrow() {
            continue;
        }
        close_abandoned(executions).await;
        let ended = executions.summaries.matching(|known| !known.is_running());
        let excess = excess(ended, Timestamp::now());
        for known in excess.iter().take(MAX_REMOVALS) {
            let id = &known.summary.execution_id;
            match executions.api.delete(&executions.path(id), &known.uid).await {
                Ok(_) | Err(ApiError::NotFound | ApiError::Conflict) => (),
                Err(error) => {
                    tracing::warn!("cannot remove the record of run {id}: {error}");
                    break;
                }
            }
            sleep(PACE).await;
        }
    }
}

/// Closes the records of executions whose gateway has not renewed them.
async fn close_abandoned(executions: &ClusterExecutions) {
    // Measured by this gateway's own clock, as the time since the record was last seen to change.
    let is_silent = |known: &KnownExecution| known.changed.elapsed() > MAX_SILENCE;
    let silent = executions.summaries.matching(|known| known.is_running() && is_silent(known));
    for known in silent {
        let id = &known.summary.execution_id;
        if executions.queue.lock().is_running(id) {
            continue;
        }
        let patch = resource::closure(&known.version, &Timestamp::now().to_string());
        match executions.api.patch(&executions.path(id), &patch).await {
            Ok(closed) => executions.summaries.put(&closed),
            Err(ApiError::Conflict | ApiError::NotFound) => (),
            Err(error) => tracing::warn!("cannot close the record of run {id}: {error}"),
        }
        sleep(PACE).await;
    }
}

/// The records to remove because they are too old, too many or too large, the oldest last.
fn excess(mut ended: Vec<KnownExecution>, now: Timestamp) -> Vec<KnownExecution> {
    let oldest = now.saturating_sub(RETENTION).unwrap_or(Timestamp::UNIX_EPOCH);
    ended.sort_by_key(|known| std::cmp::Reverse(known.began));
    let (mut count, mut size) = (0, 0_usize);
    ended.retain(|known| {
        count += 1;
        size = size.saturating_add(known.size);
        count > MAX_RECORDS || size > MAX_SIZE || known.began < oldest
    });
    ended
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use jiff::{SignedDuration, Timestamp};
    use muster_core::lock::Lock;
    use muster_engine::execution_store::ExecutionStore as _;
    use muster_workflow::{
        JsonObject,
        record::{JournalTime, RunRecord, RunState},
    };
    use serde_json::{Value as Json, json};
    use tokio::{
        sync::watch,
        time::{Instant, sleep},
    };

    use super::{ClusterExecutions, KnownExecution, MAX_SIZE, excess, run};
    use crate::{
        executions::resource,
        testing::{Answer, TestServer, api_that},
    };

    fn begun(id: &str) -> RunRecord {
        let at = JournalTime { text: Timestamp::now().to_string(), ms: 0 };
        RunRecord::begun(id.to_owned(), "w".to_owned(), JsonObject::new(), &at)
    }

    #[test]
    fn records_that_are_too_old_or_too_many_are_removed() {
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let known = |id: &str, days: i64, size: usize| KnownExecution {
            summary: begun(id).summary(),
            began: now - SignedDuration::from_hours(24 * days),
            uid: String::new(),
            version: String::new(),
            size,
            changed: Instant::now(),
        };
        let ids = |ended: Vec<KnownExecution>| -> Vec<String> {
            excess(ended, now).into_iter().map(|known| known.summary.execution_id).collect()
        };
        assert_eq!(
            ids(vec![known("new", 1, 1), known("old", 22, 1), known("kept", 20, 1)]),
            ["old"]
        );
        let half = MAX_SIZE / 2;
        let large = vec![known("c", 3, 1), known("a", 1, half), known("b", 2, half)];
        assert_eq!(ids(large), ["c"], "the oldest makes room");
        let many = (0..super::MAX_RECORDS).map(|number| known(&number.to_string(), 1, 1));
        assert_eq!(ids(many.chain([known("last", 2, 1)]).collect()), ["last"]);
    }

    /// The write requests that the server received.
    type Asked = Arc<Lock<Vec<(String, Json)>>>;

    /// A namespace with a record that is running and an old one.
    async fn namespace() -> (Arc<ClusterExecutions>, Asked, TestServer) {
        let asked = Asked::default();
        let seen = Arc::clone(&asked);
        let (api, server) = api_that(move |method, path, body| {
            seen.lock().push((format!("{method} {path}"), body.clone()));
            let mut object = resource::manifest("ns", begun("run"));
            if method == "PATCH" && body["spec"]["status"] == "failed" {
                for key in ["status", "error", "completedAt"] {
                    object["spec"][key] = body["spec"][key].clone();
                }
            }
            Answer::Reply(200, object)
        })
        .await;
        let executions = ClusterExecutions::new(api, "ns");
        let mut running = resource::manifest("ns", begun("run"));
        running["metadata"]["resourceVersion"] = json!("7");
        let started_at = "2026-02-04T10:00:00Z".to_owned();
        let old = RunRecord { status: RunState::Completed, started_at, ..begun("old") };
        let mut old = resource::manifest("ns", old);
        old["metadata"]["uid"] = json!("u-1");
        for object in [running, old] {
            executions.summaries.put(&object);
        }
        (Arc::new(executions), asked, server)
    }

    #[tokio::test(start_paused = true)]
    async fn the_leader_removes_old_records_and_closes_those_that_nobody_renews() {
        let (executions, asked, _server) = namespace().await;
        let (lead, leading) = watch::channel(false);
        let work = async {
            sleep(Duration::from_secs(3600)).await;
            assert_eq!(*asked.lock(), [], "only the leader does");
            lead.send_replace(true);
            while asked.lock().len() < 2 {
                sleep(Duration::from_secs(60)).await;
            }
        };
        tokio::select! {
            () = work => (),
            () = run(&executions, leading) => (),
        }
        let asked = asked.lock();
        let base = "/apis/muster.giantswarm.io/v1alpha1/namespaces/ns/workflowexecutions";
        let [(close, patch), (delete, options)] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(*close, format!("PATCH {base}/run"));
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        assert!(patch["spec"]["error"].as_str().unwrap().starts_with("interrupted: "), "{patch}");
        assert_eq!(*delete, format!("DELETE {base}/old"));
        assert_eq!(options["preconditions"]["uid"], "u-1");
    }

    #[tokio::test(start_paused = true)]
    async fn an_execution_of_this_gateway_is_not_closed() {
        let (executions, asked, _server) = namespace().await;
        executions.store(begun("run"));
        let (_lead, leading) = watch::channel(true);
        let work = async {
            while asked.lock().is_empty() {
                sleep(Duration::from_secs(600)).await;
            }
        };
        tokio::select! {
            () = work => (),
            () = run(&executions, leading) => (),
        }
        let asked = asked.lock();
        assert!(asked.iter().all(|(request, _)| request.starts_with("DELETE ")), "{asked:?}");
    }
}
