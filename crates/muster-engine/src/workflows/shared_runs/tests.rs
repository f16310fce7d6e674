//! Tests of executions that are taken over while the store has faults.

mod faulty;

use std::sync::Arc;

use muster_core::{
    call::Caller,
    lock::Lock,
    shared::{
        KeyValueStore as _, LogLimits, MessageListener, Recipient, ReplicaLink, SharedState,
        StoreError, StoreFuture,
    },
};
use muster_workflow::{
    JsonObject, Workflow, definition,
    record::{JournalEntry, JournalTime, RunJournal, RunRecord, RunStart, RunState},
    run::JournalNote,
};
use serde_json::json;
use tokio::time::{Duration, sleep};
use tokio_util::task::TaskTracker;

use self::faulty::{Fault, Faulty};
use super::{
    Ending, Inherited, LIMITS, Orphan, RUNS, Settled, SharedRuns, log_key, member, start_key,
};
use crate::workflows::executions::{Executions, Origin};

/// A replica that knows which others are alive.
#[derive(Debug)]
struct Link {
    id: &'static str,
    state: Arc<dyn SharedState>,
    /// The replicas that are not known to be alive or dead.
    unknown: Lock<Vec<&'static str>>,
}

impl ReplicaLink for Link {
    fn id(&self) -> &str {
        self.id
    }

    fn state(&self) -> &Arc<dyn SharedState> {
        &self.state
    }

    fn is_alive<'a>(&'a self, id: &'a str) -> StoreFuture<'a, bool> {
        let is_unknown = self.unknown.lock().contains(&id);
        Box::pin(std::future::ready(match is_unknown {
            true => Err(StoreError::Unavailable("no answer".to_owned())),
            false => Ok(false),
        }))
    }

    fn send<'a>(&'a self, _: Recipient<'a>, _: &'a str, _: Vec<u8>) -> StoreFuture<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn listen(&self, _: &'static str, _: Arc<dyn MessageListener>) {}
}

fn replica(id: &'static str, state: &Arc<Faulty>) -> (Arc<Link>, SharedRuns) {
    let state = Arc::clone(state) as Arc<dyn SharedState>;
    let link = Arc::new(Link { id, state, unknown: Lock::default() });
    (Arc::clone(&link), SharedRuns::new(link))
}

fn begun(id: &str) -> RunRecord {
    let at = JournalTime::default();
    RunRecord::begun(id.to_owned(), "w".to_owned(), <_>::default(), &at)
}

fn ended(id: &str) -> RunRecord {
    RunRecord { status: RunState::Completed, ..begun(id) }
}

fn opened(id: &str) -> JournalEntry {
    let at = JournalTime::default();
    let opened = RunStart {
        record: begun(id),
        subject: "local".to_owned(),
        token: None,
        login: None,
        toolset: None,
        shared: false,
        operator: false,
        depth: 0,
        most_effect: None,
        definition: String::new(),
    };
    JournalEntry::Opened { at, opened: Box::new(opened) }
}

fn begins(step: &str) -> JournalEntry {
    let (step, tool) = (step.to_owned(), "t".to_owned());
    JournalEntry::Begins { at: JournalTime::default(), step, tool }
}

async fn inherited(runs: &SharedRuns) -> Vec<Result<Option<Inherited>, StoreError>> {
    let mut all = Vec::new();
    for run in runs.orphans().await.unwrap() {
        all.push(runs.inherit(&run).await);
    }
    all
}

#[tokio::test]
async fn a_fault_with_one_run_does_not_lose_another() {
    let state = Faulty::new();
    for (id, owner) in [("a", "dead"), ("b", "silent"), ("c", "dead")] {
        replica(owner, &state).1.open(id, &opened(id)).await.unwrap();
    }
    let (link, runs) = replica("own", &state);
    *link.unknown.lock() = vec!["silent"];
    let all = inherited(&runs).await;
    let taken = all.iter().filter_map(|one| one.as_ref().ok()?.as_ref());
    let taken: Vec<&str> = taken.map(|one| one.id.as_str()).collect();
    assert_eq!(taken, ["a", "c"]);
    // The other one is found later.
    link.unknown.lock().clear();
    let all = inherited(&runs).await;
    assert!(matches!(all.as_slice(), [Ok(Some(one))] if one.id == "b"), "{all:?}");
    assert_eq!(runs.orphans().await.unwrap(), []);
}

#[tokio::test]
async fn a_long_journal_keeps_its_start() {
    let state = Faulty::new();
    let journal = replica("dead", &state).1.open("a", &opened("a")).await.unwrap();
    assert!(journal.append(&begins("one")).await);
    // As in a full log.
    let short = LogLimits { length: 1, ..LIMITS };
    let line = serde_json::to_vec(&begins("two")).unwrap();
    assert!(state.append(&log_key("a"), 3, line, short).await.unwrap());
    let (_, runs) = replica("own", &state);
    let run = Orphan { id: "a".to_owned(), replica: "dead".to_owned() };
    let inherited = runs.inherit(&run).await.unwrap().unwrap();
    let story = RunJournal::read(&String::from_utf8(inherited.lines).unwrap());
    assert_eq!(story.opened.unwrap().record.execution_id, "a");
    let open: Vec<&str> = story.open.iter().map(|(step, ..)| step.as_str()).collect();
    assert_eq!(open, ["two"]);
}

#[tokio::test]
async fn a_short_journal_is_complete() {
    let state = Faulty::new();
    let journal = replica("dead", &state).1.open("a", &opened("a")).await.unwrap();
    assert!(journal.append(&begins("one")).await);
    let (_, runs) = replica("own", &state);
    let run = runs.orphans().await.unwrap().remove(0);
    let inherited = runs.inherit(&run).await.unwrap().unwrap();
    let text = String::from_utf8(inherited.lines).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    // The replica that seemed dead can no longer write.
    assert!(!journal.append(&begins("two")).await);
    assert!(state.get("run-successor:a").await.unwrap().is_some());
}

/// The replicas of the runs that are listed.
async fn listed(state: &Faulty) -> Vec<String> {
    state.members(RUNS).await.unwrap()
}

#[tokio::test]
async fn a_run_that_ended_is_not_taken_over() {
    // The replica dies at each point between the last step and the end of its bookkeeping.
    for (fault, status) in [
        (Fault::Refused("put"), RunState::Interrupted),
        (Fault::Refused("remove"), RunState::Completed),
        (Fault::Refused("leave"), RunState::Completed),
    ] {
        let state = Faulty::new();
        let (_, dying) = replica("dead", &state);
        let journal = dying.open("a", &opened("a")).await.unwrap();
        dying.store(&begun("a")).await;
        assert!(journal.append(&begins("one")).await);
        state.breaks(&[fault]);
        assert!(!journal.close(&ended("a")).await, "{fault:?}");
        state.heals();
        let (_, runs) = replica("own", &state);
        let all = inherited(&runs).await;
        assert!(matches!(all.as_slice(), [Ok(None)]), "{fault:?}: {all:?}");
        assert_eq!(listed(&state).await, Vec::<String>::new(), "{fault:?}");
        assert_eq!(state.get(&start_key("a")).await.unwrap(), None, "{fault:?}");
        assert_eq!(runs.record("a").await.unwrap().status, status, "{fault:?}");
    }
}

#[tokio::test]
async fn a_run_that_could_not_be_opened_does_not_run() {
    for fault in [
        Fault::Refused("put"),
        Fault::Refused("join"),
        Fault::Unanswered("join"),
        Fault::Refused("append"),
        Fault::Unanswered("append"),
    ] {
        let state = Faulty::new();
        let (_, own) = replica("own", &state);
        state.breaks(&[fault]);
        own.open("a", &opened("a")).await.unwrap_err();
        state.heals();
        let settled = own.settle("a", &mut Ending::Discarded).await.unwrap();
        assert_eq!(settled, Settled::Closed(None), "{fault:?}");
        assert_eq!(listed(&state).await, Vec::<String>::new(), "{fault:?}");
        assert_eq!(state.get(&start_key("a")).await.unwrap(), None, "{fault:?}");
        assert_eq!(own.record("a").await, None, "{fault:?}");
    }
}

#[tokio::test]
async fn a_replica_that_dies_before_the_first_line_leaves_nothing_to_run() {
    let state = Faulty::new();
    let (_, paused) = replica("dead", &state);
    let journal = paused.journal("a", 0);
    state.put(&start_key("a"), b"{}".to_vec(), LIMITS.ttl).await.unwrap();
    state.join(RUNS, &member("a", "dead"), LIMITS.ttl).await.unwrap();
    let (_, runs) = replica("own", &state);
    let all = inherited(&runs).await;
    assert!(matches!(all.as_slice(), [Ok(None)]), "{all:?}");
    assert_eq!(listed(&state).await, Vec::<String>::new());
    // It was only paused, and does not begin.
    assert!(!journal.append(&opened("a")).await);
}

#[tokio::test]
async fn a_run_after_a_fault_is_closed_by_its_replica() {
    for fault in [Fault::Refused("append"), Fault::Unanswered("append")] {
        let state = Faulty::new();
        let (_, own) = replica("own", &state);
        let journal = own.open("a", &opened("a")).await.unwrap();
        own.store(&begun("a")).await;
        assert!(journal.append(&begins("one")).await);
        state.breaks(&[fault]);
        assert!(!journal.append(&begins("two")).await);
        let mut ending = Ending::Interrupted;
        own.settle("a", &mut ending).await.unwrap_err();
        state.heals();
        // The position is not known: another replica may have taken it.
        assert!(!journal.append(&begins("two")).await, "{fault:?}");
        let settled = own.settle("a", &mut ending).await.unwrap();
        let Settled::Closed(Some(record)) = settled else { panic!("{fault:?}: {settled:?}") };
        assert_eq!(
            (record.status, record.steps[0].step_id.as_str()),
            (RunState::Interrupted, "one")
        );
        assert_eq!(own.record("a").await.as_ref(), Some(&*record), "{fault:?}");
        assert_eq!(listed(&state).await, Vec::<String>::new(), "{fault:?}");
    }
}

#[tokio::test]
async fn a_replica_that_lost_its_run_leaves_it_alone() {
    let state = Faulty::new();
    let (_, paused) = replica("paused", &state);
    let journal = paused.open("a", &opened("a")).await.unwrap();
    let (_, runs) = replica("own", &state);
    let taken = inherited(&runs).await.remove(0).unwrap().unwrap();
    assert!(taken.journal.append(&begins("one")).await);
    // It wakes up at the end of the run.
    assert!(!journal.close(&ended("a")).await);
    assert!(!journal.close(&ended("a")).await);
    assert_eq!(runs.record("a").await, None);
    let settled = paused.settle("a", &mut Ending::Ended(Box::new(ended("a")))).await.unwrap();
    assert_eq!(settled, Settled::TakenOver);
    assert!(taken.journal.append(&begins("two")).await);
    let record = RunRecord { status: RunState::Failed, ..begun("a") };
    assert!(taken.journal.close(&record).await);
    let settled = paused.settle("a", &mut Ending::Ended(Box::new(ended("a")))).await.unwrap();
    assert_eq!(settled, Settled::TakenOver);
    assert_eq!(runs.record("a").await, Some(record));
}

#[tokio::test]
async fn a_successor_takes_a_run_over_once() {
    let state = Faulty::new();
    replica("dead", &state).1.open("a", &opened("a")).await.unwrap();
    let (_, runs) = replica("own", &state);
    state.breaks(&[Fault::Refused("leave")]);
    let taken = inherited(&runs).await.remove(0).unwrap().unwrap();
    state.heals();
    state.remove("run-successor:a").await.unwrap();
    let again = inherited(&runs).await;
    assert!(matches!(again.as_slice(), [Ok(None)]), "{again:?}");
    assert!(taken.journal.append(&begins("one")).await);
    assert_eq!(listed(&state).await, ["a/own"]);
}

fn executions(root: &std::path::Path, link: Arc<Link>) -> Arc<Executions> {
    Arc::new(Executions::new(root, TaskTracker::new()).shared_by(Some(link)))
}

#[tokio::test(start_paused = true)]
async fn a_run_that_stops_after_a_fault_gets_its_record_when_the_store_is_back() {
    let (dir, state) = (tempfile::tempdir().unwrap(), Faulty::new());
    let executions = executions(dir.path(), replica("own", &state).0);
    let steps = json!({"steps": [{"id": "a", "tool": "t"}]});
    let workflow = Workflow::new("w", "default", definition::read(&steps).unwrap().spec);
    let caller = Caller::local();
    let begun =
        executions.begin(&workflow, JsonObject::new(), (&caller, None), Origin::Saved).await;
    let live = begun.unwrap();
    let id = live.id().to_owned();
    state.breaks(&[Fault::Refused("append")]);
    let (key, tool) = ("a".to_owned(), "t".to_owned());
    tokio::select! {
        () = live.note(JournalNote::Begins { id: key.clone(), key, tool }) => panic!("it begins"),
        () = live.lost() => (),
    }
    drop(live.disown());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(executions.get(&id, &caller).await.unwrap().status, RunState::Inprogress);
    state.heals();
    while executions.get(&id, &caller).await.unwrap().status == RunState::Inprogress {
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(executions.get(&id, &caller).await.unwrap().status, RunState::Interrupted);
    assert_eq!(listed(&state).await, Vec::<String>::new());
    assert!(!executions.are_running().await);
}

#[tokio::test]
async fn what_an_earlier_gateway_left_is_its_own_unless_it_was_shared() {
    for is_shared in [true, false] {
        let (dir, state) = (tempfile::tempdir().unwrap(), Faulty::new());
        let (link, runs) = replica("own", &state);
        let folder = dir.path().join("workflow_executions");
        std::fs::create_dir(&folder).unwrap();
        let JournalEntry::Opened { at, mut opened } = opened("a") else { panic!() };
        opened.shared = is_shared;
        let line = serde_json::to_string(&JournalEntry::Opened { at, opened }).unwrap();
        std::fs::write(folder.join("a.journal"), line + "\n").unwrap();
        let record = RunRecord { status: RunState::Interrupted, ..begun("a") };
        let text = serde_json::to_string(&record).unwrap();
        std::fs::write(folder.join("a.yaml"), text).unwrap();
        runs.store(&ended("a")).await;
        let executions = executions(dir.path(), link);
        // Another replica continued it.
        let found = executions.get("a", &Caller::local()).await.unwrap();
        assert_eq!(found.status, RunState::Completed);
        assert_eq!(executions.sweep().len(), usize::from(!is_shared));
        assert_eq!(folder.join("a.yaml").exists(), !is_shared);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_not_closed_yet_is_not_inherited_again() {
    let (dir, state) = (tempfile::tempdir().unwrap(), Faulty::new());
    replica("dead", &state).1.open("a", &opened("a")).await.unwrap();
    let executions = executions(dir.path(), replica("own", &state).0);
    let runs = executions.of_all_replicas().unwrap();
    let run = runs.orphans().await.unwrap().remove(0);
    let taken = runs.inherit(&run).await.unwrap().unwrap();
    state.breaks(&[Fault::Refused("append")]);
    executions.close_as("a", &taken.journal, Ending::Ended(Box::new(ended("a")))).await;
    drop(taken);
    state.remove("run-successor:a").await.unwrap();
    sleep(Duration::from_millis(10)).await;
    // The store is back before the next attempt to close it.
    state.heals();
    assert!(runs.inherit(&run).await.unwrap().is_none());
    sleep(Duration::from_secs(60)).await;
    assert_eq!(runs.record("a").await, Some(ended("a")));
    assert_eq!(listed(&state).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_run_whose_caller_leaves_at_its_end_is_closed() {
    let (dir, state) = (tempfile::tempdir().unwrap(), Faulty::new());
    let executions = executions(dir.path(), replica("own", &state).0);
    let steps = json!({"steps": [{"id": "a", "tool": "t"}]});
    let workflow = Workflow::new("w", "default", definition::read(&steps).unwrap().spec);
    let caller = Caller::local();
    let begun =
        executions.begin(&workflow, JsonObject::new(), (&caller, None), Origin::Saved).await;
    let live = begun.unwrap();
    let id = live.id().to_owned();
    tokio::select! {
        biased;
        () = live.end(&[], json!("done"), None) => panic!("it ended at once"),
        () = std::future::ready(()) => (),
    }
    while executions.are_running().await || !listed(&state).await.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(executions.get(&id, &caller).await.unwrap().status, RunState::Completed);
    let shared = executions.of_all_replicas().unwrap().record(&id).await;
    assert_eq!(shared.unwrap().status, RunState::Completed);
}
