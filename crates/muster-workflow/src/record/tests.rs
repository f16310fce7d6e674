//! Records and journals.

#![expect(clippy::needless_pass_by_value, reason = "tables read better without borrows")]

use serde_json::{Value as Json, json};

use super::{JournalEntry, JournalTime, RunJournal, RunRecord, RunStart, RunState, fingerprint};
use crate::{JsonObject, WorkflowSpec, definition::read, report::StepReport};

fn at(ms: i64) -> JournalTime {
    JournalTime { text: format!("t{ms}"), ms }
}

fn report(id: &str, status: &str) -> StepReport {
    serde_json::from_value(json!({"id": id, "tool": "t", "status": status})).unwrap()
}

fn spec(steps: Json) -> WorkflowSpec {
    read(&json!({"steps": steps})).unwrap().spec
}

fn opened(spec: &WorkflowSpec, depth: u8) -> JournalEntry {
    let record = RunRecord::begun("1".to_owned(), "w".to_owned(), JsonObject::new(), &at(0));
    let definition = fingerprint(spec);
    let opened = RunStart {
        most_effect: None,
        record,
        subject: "local".to_owned(),
        token: None,
        login: None,
        toolset: None,
        shared: false,
        operator: false,
        depth,
        definition,
    };
    JournalEntry::Opened { at: at(0), opened: Box::new(opened) }
}

fn begins(step: &str) -> JournalEntry {
    JournalEntry::Begins { at: at(1), step: step.to_owned(), tool: "t".to_owned() }
}

fn ended(step: &str, status: &str) -> JournalEntry {
    JournalEntry::Ended {
        at: at(2),
        report: Box::new(report(step, status)),
        value: json!({"of": step}),
    }
}

fn journal(lines: &[JournalEntry]) -> String {
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

#[test]
fn a_truncated_journal_is_readable() {
    let spec = spec(json!([{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]));
    let whole = journal(&[opened(&spec, 0), begins("a"), ended("a", "completed"), begins("b")]);
    let record = |text: &str| {
        let story = RunJournal::read(text);
        let opened = story.opened.clone()?;
        Some(opened.record.interrupted(&story))
    };
    let record_of = record(&whole).unwrap();
    assert_eq!(record_of.status, RunState::Interrupted);
    assert_eq!(record_of.duration_ms, 1);
    assert_eq!(
        record_of.error.as_deref(),
        Some(
            "interrupted: the gateway ended while step b ran; it is not known whether it was carried out"
        )
    );
    let steps: Vec<_> =
        record_of.steps.iter().map(|step| (step.step_id.as_str(), step.status.as_str())).collect();
    assert_eq!(steps, [("a", "completed"), ("b", "interrupted")]);
    // Wherever it is cut, there is a record as soon as there is a first line.
    let first = whole.find('\n').unwrap();
    for end in 0..whole.len() {
        let cut = whole.get(..end).unwrap();
        assert_eq!(record(cut).is_some(), end >= first, "{end}");
    }
}

#[test]
fn only_idempotent_steps_are_resumed() {
    let goes_on = |steps: Json, depth: u8, lines: &[JournalEntry]| {
        let spec = spec(steps);
        let mut all = vec![opened(&spec, depth)];
        all.extend(lines.iter().cloned());
        let past = RunJournal::read(&journal(&all)).resumable(&spec);
        past.map(|past| past.into_keys().collect::<Vec<_>>().join(" "))
    };
    let plain = json!([{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]);
    let last = json!([{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "idempotent": true}]);
    let done = [begins("a"), ended("a", "completed")];
    let open = [begins("a"), ended("a", "completed"), begins("b")];
    assert_eq!(goes_on(plain.clone(), 0, &done), None);
    assert_eq!(goes_on(plain, 0, &open), None);
    assert_eq!(goes_on(last.clone(), 0, &done).as_deref(), Some("a"));
    assert_eq!(goes_on(last.clone(), 0, &open).as_deref(), Some("a"));
    assert_eq!(goes_on(last.clone(), 1, &open), None);
    assert_eq!(goes_on(last.clone(), 0, &[begins("a")]), None);
    assert_eq!(goes_on(last, 0, &[begins("a"), ended("a", "failed")]), None);
    let each = |idempotent: bool| json!([{"id": "e", "forEach": {"items": [1, 2], "steps": [{"id": "s", "tool": "t", "idempotent": idempotent}]}}]);
    let mut of_first = report("s", "completed");
    (of_first.group, of_first.item) = (Some("e".to_owned()), Some(0));
    let of_first = JournalEntry::Ended { at: at(2), report: Box::new(of_first), value: Json::Null };
    let first = [begins("e/s_0"), of_first, begins("e/s_1")];
    assert_eq!(goes_on(each(false), 0, &first), None);
    assert_eq!(goes_on(each(true), 0, &first).as_deref(), Some("e/s_0"));
}

#[test]
fn a_changed_workflow_is_not_resumed() {
    let before = spec(json!([{"id": "a", "tool": "t", "idempotent": true}]));
    let now = spec(json!([{"id": "a", "tool": "u", "idempotent": true}]));
    let story = RunJournal::read(&journal(&[opened(&before, 0)]));
    assert!(story.resumable(&before).is_some());
    assert!(story.resumable(&now).is_none());
}

#[test]
fn large_records_keep_their_small_values() {
    let record = |result: usize, step: usize| -> RunRecord {
        serde_json::from_value(json!({
            "execution_id": "1", "workflow_name": "w", "status": "completed", "started_at": "t",
            "input": {"x": 1}, "result": {"blob": "x".repeat(result)},
            "steps": [{"step_id": "a", "tool": "t", "status": "completed", "started_at": "t",
                "input": {"y": "y".repeat(step)}, "result": "small"}],
        }))
        .unwrap()
    };
    let small = record(100_000, 100_000);
    assert_eq!(small.clone().bounded(), small);
    let marker = "[truncated: payload exceeded retention size limit]";
    let large = record(300_000, 40_000).bounded();
    assert_eq!((large.truncated, &large.result), (true, &json!(marker)));
    let [step] = large.steps.as_slice() else { panic!("{large:?}") };
    assert_eq!(Json::Object(step.input.clone()), json!({"_truncated": marker}));
    assert_eq!((&step.result, large.input["x"].clone()), (&json!("small"), json!(1)));
    let of_step = record(10, 300_000).bounded();
    assert_eq!((of_step.truncated, &of_step.result["blob"]), (true, &json!("x".repeat(10))));
}

#[test]
fn views_of_a_record() {
    let record: RunRecord = serde_json::from_value(json!({
        "execution_id": "1", "workflow_name": "w", "status": "failed", "started_at": "t", "input": {"x": 1},
        "result": {"steps": [], "template_vars": [], "y": 2}, "error": "step b failed: no",
        "steps": [
            {"step_id": "a", "tool": "t", "status": "completed", "started_at": "t", "stored_as": "a"},
            {"step_id": "b", "tool": "t", "status": "failed", "started_at": "t", "error": "no"},
        ],
    }))
    .unwrap();
    let short = record.without_steps();
    assert_eq!((short.get("steps"), &short["result"]), (None, &json!({"y": 2})));
    let a = record.only_step("a").unwrap();
    assert_eq!((a.get("error"), &a["input"], a.get("result")), (None, &json!({}), None));
    let b = record.only_step("b").unwrap();
    assert_eq!((&b["error"], &b["input"]), (&json!("no"), &json!({"x": 1})));
    assert_eq!(record.only_step("c"), None);
    assert_eq!(record.summary().step_count, 2);
}

#[test]
fn a_record_of_many_steps_is_bounded_as_a_whole() {
    let step = |n: usize| {
        json!({"step_id": format!("s{n}"), "tool": "t", "status": "completed", "started_at": "t",
            "input": {"x": "x".repeat(1_000)}, "result": "y".repeat(1_000)})
    };
    let steps: Vec<Json> = (0..60_000).map(step).collect();
    let record: RunRecord = serde_json::from_value(json!({
        "execution_id": "1", "workflow_name": "w", "status": "failed", "started_at": "t", "steps": steps,
    }))
    .unwrap();
    let bounded = record.bounded();
    let size = serde_json::to_vec(&bounded).unwrap().len();
    assert!(bounded.truncated && size < 5 << 20, "{size}");
    let [first, .., last] = bounded.steps.as_slice() else { panic!("no steps") };
    assert_eq!(first.result, json!("y".repeat(1_000)));
    assert_eq!((last.step_id.as_str(), &last.result), ("s59999", &Json::Null));
}
