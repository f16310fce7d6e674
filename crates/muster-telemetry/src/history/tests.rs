//! The history over restarts, queries and limits.

use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, SystemTime},
};

use muster_core::{
    call::Caller,
    effect::Effect,
    observer::{CallStatus, FinishedCall},
};

use super::{
    CallBatch, CallFilter, HistoryOptions, HistoryReader, HistoryWriter, KeptArguments,
    StatusFilter, days, segment::segments,
};
use crate::{
    Telemetry,
    fixture::{entry, finished},
};

fn options(folder: &Path) -> HistoryOptions {
    HistoryOptions {
        folder: folder.join("calls"),
        max_bytes: 4 * 1024 * 1024,
        max_age: None,
        arguments: KeptArguments::Nothing,
    }
}

/// The call with this number: one each minute, every third failed, by two callers to two servers.
fn call(number: u64) -> FinishedCall {
    let server = if number.is_multiple_of(2) { "git" } else { "db" };
    let status = if number.is_multiple_of(3) { CallStatus::Failed } else { CallStatus::Ok };
    let tool = entry(server, &format!("x_{server}_t"));
    let call = finished(Some(&tool), status, Some(1_000 + number));
    let subject = if number.is_multiple_of(5) { "ada" } else { "bob" };
    let caller = Caller { subject: subject.into(), ..Caller::local() };
    FinishedCall { began: call.began + Duration::from_secs(60 * number), caller, ..call }
}

fn write(options: &HistoryOptions, numbers: std::ops::Range<u64>) {
    let mut writer = HistoryWriter::open(options).unwrap();
    let mut batch = CallBatch::default();
    numbers.for_each(|number| batch.add(&mut call(number)));
    writer.add(&batch);
    writer.flush();
}

fn ids(reader: &HistoryReader, filter: &CallFilter, limit: usize) -> Vec<u64> {
    let list = reader.list(filter, limit).unwrap();
    list.calls.iter().map(|call| call.id).collect()
}

#[test]
fn calls_survive_a_restart_and_an_incomplete_write() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    write(&options, 0..3);
    let file = segments(&options.folder).pop().unwrap().path;
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend([9, 0, 0, 0, 1, 2]);
    fs::write(&file, bytes).unwrap();
    write(&options, 3..5);
    let reader = HistoryReader::new(options.folder, Arc::default());
    assert_eq!(ids(&reader, &CallFilter::default(), 10), [5, 4, 3, 2, 1]);
    let one = reader.get(4).unwrap().unwrap();
    assert_eq!((one.server.as_str(), one.status), ("db", Some(CallStatus::Failed)));
    assert_eq!((one.rule.as_str(), one.effect), ("default", Some(Effect::Write)));
    assert_eq!((one.server_ms, one.duration_ms), (Some(1.003), 1.013));
    assert_eq!(one.time, "2027-01-15T08:03:00Z");
    assert!(reader.get(6).unwrap().is_none() && reader.get(0).unwrap().is_none());
}

#[test]
fn pages_and_filters() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    write(&options, 0..20);
    let reader = HistoryReader::new(options.folder, Arc::default());
    let first = reader.list(&CallFilter::default(), 3).unwrap();
    assert_eq!(first.next, Some(18));
    let next = CallFilter { before: first.next, ..CallFilter::default() };
    assert_eq!(ids(&reader, &next, 3), [17, 16, 15]);
    let new = CallFilter { after: Some(18), ..CallFilter::default() };
    assert_eq!(ids(&reader, &new, 9), [20, 19]);
    let failed = Some(StatusFilter::Is(CallStatus::Failed));
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let filter = CallFilter {
        server: Some("git".to_owned()),
        tool: Some("x_git_t".to_owned()),
        caller: Some("bob".to_owned()),
        status: failed,
        since: Some(start + Duration::from_secs(60 * 6)),
        until: Some(start + Duration::from_secs(60 * 12)),
        ..CallFilter::default()
    };
    assert_eq!(ids(&reader, &filter, 9), [13, 7]);
    let errors = CallFilter { status: Some(StatusFilter::AnyError), ..CallFilter::default() };
    assert_eq!(ids(&reader, &errors, 99).len(), 7);
}

#[test]
fn numbers_by_tool_and_hour() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    write(&options, 0..90);
    let stats = HistoryReader::new(options.folder, Arc::default())
        .stats(&CallFilter::default(), 9)
        .unwrap();
    assert_eq!((stats.total.calls, stats.total.errors), (90, 30));
    assert_eq!(stats.since, "2027-01-15T08:00:00Z");
    let hours: Vec<_> =
        stats.hours.iter().map(|hour| (hour.hour.as_str(), hour.totals.calls)).collect();
    assert_eq!(hours, [("2027-01-15T08:00:00Z", 60), ("2027-01-15T09:00:00Z", 30)]);
    let tools: Vec<_> = stats.tools.iter().map(|t| (t.tool.as_str(), t.totals.calls)).collect();
    assert_eq!(tools, [("x_db_t", 45), ("x_git_t", 45)]);
    assert_eq!(stats.tools[1].totals.longest_ms, 1.088);
}

#[test]
fn whole_segments_are_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let options = HistoryOptions { max_bytes: 1024 * 1024, ..options(folder.path()) };
    write(&options, 0..5_000);
    let all = segments(&options.folder);
    assert!(all.len() > 2, "{}", all.len());
    let sums = Arc::default();
    let reader = HistoryReader::new(options.folder.clone(), Arc::clone(&sums));
    let fresh = || HistoryReader::new(options.folder.clone(), Arc::default());
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let filters = [
        CallFilter::default(),
        CallFilter { since: Some(start + Duration::from_secs(60 * 700)), ..CallFilter::default() },
        CallFilter { until: Some(start + Duration::from_secs(60 * 700)), ..CallFilter::default() },
        CallFilter { server: Some("git".to_owned()), ..CallFilter::default() },
        CallFilter { before: Some(99), ..CallFilter::default() },
    ];
    // The first round fills the memory with whole segments, the second one uses it.
    for filter in filters.iter().chain(&filters) {
        assert_eq!(reader.stats(filter, 9).unwrap(), fresh().stats(filter, 9).unwrap());
    }
    // A segment that is known is not read again, and one that is deleted is not counted.
    fs::write(&all[1].path, "").unwrap();
    let calls = |filter: &CallFilter| reader.stats(filter, 9).unwrap().total.calls;
    assert_eq!(calls(&CallFilter::default()), 5_000);
    fs::remove_file(&all[1].path).unwrap();
    assert_eq!(calls(&CallFilter::default()), 5_000 - (all[2].first - all[1].first));
}

#[test]
fn calls_that_share_names_have_them_in_every_segment() {
    let folder = tempfile::tempdir().unwrap();
    let options = HistoryOptions { max_bytes: 1024 * 1024, ..options(folder.path()) };
    let (tools, policy) = ([entry("git", "x_git_t"), entry("db", "x_db_t")], Arc::default());
    let mut batch = CallBatch::default();
    for number in 0..5_000 {
        let (tool, policy) = (Some(&tools[number % 2]), Arc::clone(&policy));
        // A call that was refused has no rule.
        let micros = (number % 3 > 0).then_some(1);
        batch.add(&mut FinishedCall { policy, ..finished(tool, CallStatus::Ok, micros) });
    }
    let mut writer = HistoryWriter::open(&options).unwrap();
    writer.add(&batch);
    writer.flush();
    assert!(segments(&options.folder).len() > 2);
    let reader = HistoryReader::new(options.folder, Arc::default());
    let read = reader.list(&CallFilter::default(), 5_000).unwrap();
    assert_eq!(read.calls.len(), 5_000);
    for call in read.calls {
        let number = call.id - 1;
        let names = [("git", "x_git_t"), ("db", "x_db_t")][usize::from(!number.is_multiple_of(2))];
        assert_eq!((call.server.as_str(), call.tool.as_str()), names, "{number}");
        assert_eq!(call.rule.is_empty(), number.is_multiple_of(3), "{number}");
    }
}

#[test]
fn only_so_many_tools_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(folder.path());
    write(&options, 0..9);
    let stats = HistoryReader::new(options.folder, Arc::default());
    let stats = stats.stats(&CallFilter::default(), 1).unwrap();
    let tools: Vec<_> = stats.tools.iter().map(|t| (t.tool.as_str(), t.totals.calls)).collect();
    assert_eq!((tools.as_slice(), stats.tool_count), ([("x_git_t", 5)].as_slice(), 2));
    assert_eq!(stats.total.calls, 9);
}

#[test]
fn the_oldest_calls_make_room() {
    let folder = tempfile::tempdir().unwrap();
    let options = HistoryOptions { max_bytes: 300_000, ..options(folder.path()) };
    write(&options, 0..20_000);
    let size: u64 = segments(&options.folder)
        .iter()
        .map(|segment| fs::metadata(&segment.path).unwrap().len())
        .sum();
    assert!((200_000..=300_000).contains(&size), "{size}");
    let reader = HistoryReader::new(options.folder.clone(), Arc::default());
    let newest = ids(&reader, &CallFilter::default(), 1);
    assert_eq!(newest, [20_000]);
    assert!(reader.get(1).unwrap().is_none());
    // What is older than the limit goes as well, but never what is being written.
    let options = HistoryOptions { max_age: Some(Duration::ZERO), ..options };
    write(&options, 0..1);
    assert_eq!(segments(&options.folder).len(), 1);
    assert_eq!((days(0), days(1)), (None, Some(Duration::from_secs(86_400))));
}

#[tokio::test]
async fn a_finished_call_is_in_the_history_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (telemetry, _) = Telemetry::start(Some(options(folder.path())), None).unwrap();
    let observer = telemetry.observer();
    for number in 0..100 {
        observer.finished(call(number));
    }
    let own = entry("core", "core_calls_list");
    observer.finished(finished(Some(&own), CallStatus::Ok, Some(1)));
    let reader = telemetry.history().await.unwrap();
    assert_eq!(ids(&reader, &CallFilter::default(), 1_000).len(), 100);
    assert_eq!(telemetry.backlog(), (0, 0));
}
