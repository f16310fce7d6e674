//! Executions that are taken over while the store has faults.

use std::sync::Arc;

use muster_core::{
    lock::Lock,
    shared::{
        LogLimits, MessageListener, Recipient, ReplicaLink, SharedState, StoreError, StoreFuture,
    },
};
use muster_shared::{MemoryShared, clock::Clock};
use muster_workflow::record::{JournalEntry, JournalTime, RunJournal, RunRecord, RunStart};

use super::{Inherited, LIMITS, OthersRun, SharedRuns, log};

/// A replica that knows which others are alive.
#[derive(Debug)]
struct Link {
    id: &'static str,
    state: Arc<dyn SharedState>,
    /// Replicas of which it is not known.
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

fn replica(id: &'static str, state: &Arc<dyn SharedState>) -> (Arc<Link>, SharedRuns) {
    let link = Arc::new(Link { id, state: Arc::clone(state), unknown: Lock::default() });
    (Arc::clone(&link), SharedRuns::new(link))
}

fn state() -> Arc<dyn SharedState> {
    Arc::new(MemoryShared::new(Clock::system()))
}

fn opened(id: &str) -> JournalEntry {
    let at = JournalTime::default();
    let record = RunRecord::begun(id.to_owned(), "w".to_owned(), <_>::default(), &at);
    let opened = RunStart {
        record,
        subject: "local".to_owned(),
        toolset: None,
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
    for run in runs.of_others().await.unwrap() {
        all.push(runs.inherit(&run).await);
    }
    all
}

#[tokio::test]
async fn a_fault_with_one_run_does_not_lose_another() {
    let state = state();
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
    assert_eq!(runs.of_others().await.unwrap(), []);
}

#[tokio::test]
async fn a_long_journal_keeps_its_start() {
    let state = state();
    let journal = replica("dead", &state).1.open("a", &opened("a")).await.unwrap();
    assert!(journal.append(&begins("one")).await);
    // As a log does that is full.
    let short = LogLimits { length: 1, ..LIMITS };
    let line = serde_json::to_vec(&begins("two")).unwrap();
    assert!(state.append(&log("a"), 3, line, short).await.unwrap());
    let (_, runs) = replica("own", &state);
    let run = OthersRun { id: "a".to_owned(), replica: "dead".to_owned() };
    let inherited = runs.inherit(&run).await.unwrap().unwrap();
    let story = RunJournal::read(&String::from_utf8(inherited.lines).unwrap());
    assert_eq!(story.opened.unwrap().record.execution_id, "a");
    let open: Vec<&str> = story.open.iter().map(|(step, ..)| step.as_str()).collect();
    assert_eq!(open, ["two"]);
}

#[tokio::test]
async fn a_short_journal_is_complete() {
    let state = state();
    let journal = replica("dead", &state).1.open("a", &opened("a")).await.unwrap();
    assert!(journal.append(&begins("one")).await);
    let (_, runs) = replica("own", &state);
    let run = runs.of_others().await.unwrap().remove(0);
    let inherited = runs.inherit(&run).await.unwrap().unwrap();
    let text = String::from_utf8(inherited.lines).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    // The replica that seemed dead writes no more.
    assert!(!journal.append(&begins("two")).await);
    assert!(state.get("run-successor:a").await.unwrap().is_some());
}
