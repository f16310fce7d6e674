//! Tests of events: recording, queries, and queries after a restart.

use std::{fs, os::unix::fs::PermissionsExt as _};

use jiff::{Timestamp, ToSpan as _, Zoned};
use tokio_util::task::TaskTracker;

use super::{Event, EventJournal, Filter, Reason, parse_time};

async fn reasons(journal: &EventJournal, filter: Filter) -> Vec<String> {
    journal.find(filter).await.iter().map(|event| event.reason.clone()).collect()
}

#[tokio::test]
async fn what_happened_is_found_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let tasks = TaskTracker::new();
    let journal = EventJournal::start(dir.path(), &tasks);
    journal.tell(Reason::McpServerStarting, "a", "default", "");
    journal.tell(Reason::McpServerFailed, "a", "default", "connection refused");
    journal.tell(Reason::McpServerStarting, "b", "tools", "");
    let all = ["MCPServerStarting", "MCPServerFailed", "MCPServerStarting"];
    assert_eq!(reasons(&journal, Filter::default()).await, all);
    let text = |text: &str| Some(text.to_owned());
    let filter = Filter { name: text("a"), limit: Some(1), ..Filter::default() };
    assert_eq!(reasons(&journal, filter).await, ["MCPServerFailed"]);
    let filter = Filter { severity: text("Warning"), ..Filter::default() };
    let found = journal.find(filter).await;
    assert_eq!(found[0].message, "MCPServer a failed: connection refused");
    let filter = Filter { namespace: text("tools"), kind: text("MCPServer"), ..Filter::default() };
    assert_eq!(reasons(&journal, filter).await.len(), 1);
    let filter = Filter { kind: text("Workflow"), ..Filter::default() };
    assert_eq!(reasons(&journal, filter).await.len(), 0);
    let later = Timestamp::now() + 1.hour();
    let filter = Filter { since: Some(later), ..Filter::default() };
    assert_eq!(reasons(&journal, filter).await.len(), 0);

    // Old files are removed, and the next gateway finds the rest.
    let folder = dir.path().join("events");
    drop(journal);
    tasks.close();
    tasks.wait().await;
    let day = |days: i32| Zoned::now().date().checked_sub(days.days()).unwrap();
    let line = serde_json::to_string(&*found[0]).unwrap();
    fs::write(folder.join(format!("events-{}.json", day(31))), &line).unwrap();
    fs::write(folder.join(format!("events-{}.json", day(29))), format!("{line}\n{{torn")).unwrap();
    let tasks = TaskTracker::new();
    let journal = EventJournal::start(dir.path(), &tasks);
    assert_eq!(reasons(&journal, Filter::default()).await.len(), 5);
    journal.tell(Reason::McpServerStopped, "a", "default", "");
    drop(journal);
    tasks.close();
    tasks.wait().await;
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, 3, "the oldest is gone");
    for entry in fs::read_dir(&folder).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        // A file of an earlier day is left as it is.
        assert_eq!(mode == 0o600, !name.contains(&day(29).to_string()), "{name} {mode:o}");
    }
    let log = fs::read_to_string(folder.join("events.log")).unwrap();
    let failed = log.lines().nth(1).unwrap();
    let words =
        "MCPServer default/a: MCPServerFailed - MCPServer a failed: connection refused (Warning)";
    assert!(failed.starts_with('[') && failed.ends_with(&format!("] {words}")), "{failed}");
    assert_eq!(log.lines().count(), 4);
    let today = fs::read_to_string(folder.join(format!("events-{}.json", day(0)))).unwrap();
    assert_eq!(today.lines().count(), 4);
    let event: Event = serde_json::from_str(today.lines().last().unwrap()).unwrap();
    assert_eq!((event.reason.as_str(), event.source.as_str()), ("MCPServerStopped", "muster"));
}

#[test]
fn moments_are_read_in_four_ways() {
    let now: Timestamp = "2026-02-04T10:00:00Z".parse().unwrap();
    let check = |text: &str, expect: &str| {
        assert_eq!(parse_time(text, now).unwrap(), expect.parse().unwrap(), "{text}");
    };
    check("1h30m", "2026-02-04T08:30:00Z");
    check("1.5s", "2026-02-04T09:59:58.5Z");
    check("300ms", "2026-02-04T09:59:59.7Z");
    check("2026-02-04T10:00:00+01:00", "2026-02-04T09:00:00Z");
    check("2026-02-03", "2026-02-03T00:00:00Z");
    check("2026-02-03 04:05:06", "2026-02-03T04:05:06Z");
    for text in ["yesterday", "", "1x", "h", "1h2"] {
        let error = parse_time(text, now).unwrap_err().to_string();
        assert!(error.starts_with(&format!("unsupported time format '{text}'. Supported")));
    }
}
