//! Expectations and the text of differences.

use std::time::Duration;

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{Difference, check, check_notification};
use crate::{
    budget::approximate_tokens,
    client::{ClientError, ReceivedNotification, ToolResponse},
    scenario::{Budget, Expected, ExpectedNotification, Presence},
};

fn answer(is_error: bool, texts: &[&str]) -> Result<ToolResponse, ClientError> {
    Ok(ToolResponse { is_error, texts: texts.iter().map(|text| (*text).to_owned()).collect() })
}

fn shown(differences: &[Difference]) -> String {
    let lines = differences.iter().map(|Difference { at, expected, got }| {
        format!("{at}\n  expected {expected}\n  got      {got}\n")
    });
    lines.collect()
}

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
fn differs(expected: &Expected, outcome: Result<ToolResponse, ClientError>, expect: Expect) {
    let took = Duration::from_millis(250);
    expect.assert_eq(&shown(&check(expected, &outcome, took, approximate_tokens)));
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn failure_is_expected_by_default() {
    let nothing = Expected::default();
    differs(&nothing, answer(true, &["no"]), expect![[""]]);
    differs(&nothing, Err(ClientError::Transport("gone".to_owned())), expect![[""]]);
    differs(
        &nothing,
        answer(false, &["fine"]),
        expect![[r#"
        success
          expected an error
          got      a success: fine
    "#]],
    );
    let success = Expected { success: true, ..Expected::default() };
    differs(&success, answer(false, &[]), expect![[""]]);
    differs(
        &success,
        answer(true, &["bad"]),
        expect![[r#"
        success
          expected a success
          got      an error: bad
    "#]],
    );
    differs(
        &success,
        Err(ClientError::Transport("gone".to_owned())),
        expect![[r#"
        success
          expected a success
          got      the call itself failed: gone
    "#]],
    );
}

#[test]
fn errors() {
    let expected =
        Expected { error_contains: texts(&["NOT found", "server"]), ..Expected::default() };
    differs(&expected, answer(true, &["Server", "not found"]), expect![[""]]);
    differs(
        &expected,
        answer(true, &["tool not found"]),
        expect![[r#"
        error_contains
          expected "server"
          got      tool not found
    "#]],
    );
    differs(
        &expected,
        answer(false, &["server not found"]),
        expect![[r#"
        success
          expected an error
          got      a success: server not found
        error_contains
          expected "NOT found"
          got      no error: server not found
        error_contains
          expected "server"
          got      no error: server not found
    "#]],
    );
    // A failed call has a text but no content.
    let expected = Expected { contains: texts(&["never"]), ..expected };
    differs(&expected, Err(ClientError::MetaTool("server not found".to_owned())), expect![[""]]);
}

#[test]
fn content() {
    let expected = Expected {
        success: true,
        contains: texts(&["CREATED", "a b"]),
        not_contains: texts(&["secret"]),
        ..Expected::default()
    };
    differs(&expected, answer(false, &["created a", "b"]), expect![[""]]);
    differs(
        &expected,
        answer(false, &["nothing here but a Secret"]),
        expect![[r#"
        contains
          expected "CREATED"
          got      nothing here but a Secret
        contains
          expected "a b"
          got      nothing here but a Secret
        not_contains
          expected no "secret"
          got      nothing here but a Secret
    "#]],
    );
}

#[test]
fn paths() {
    let path = |path: &str, value: Value| Expected {
        success: true,
        json_path: vec![(path.to_owned(), value)],
        ..Expected::default()
    };
    let state = |json: &str| answer(false, &["not json", json]);
    differs(&path("state", json!("running")), state(r#"{"state":"running"}"#), expect![[""]]);
    differs(
        &path("state", json!("running")),
        state(r#"{"state":"stopped"}"#),
        expect![[r#"
        json_path state
          expected "running"
          got      "stopped"
    "#]],
    );
    differs(
        &path("steps.1.id", json!("a")),
        state(r#"{"steps":[{"id":"b"}]}"#),
        expect![[r#"
        json_path steps.1.id
          expected "a"
          got      no `1`: `steps` has 1 elements
    "#]],
    );
    differs(
        &path("a", json!({"b": [1]})),
        state(r#"{"a":{"b":[2]}}"#),
        expect![[r#"
        json_path a.b.0
          expected 1
          got      2
    "#]],
    );
    differs(
        &path("a", json!(1)),
        answer(false, &["[1]", "text"]),
        expect![[r#"
        json_path
          expected a JSON object
          got      no JSON object: [1] text
    "#]],
    );
}

#[test]
fn budgets() {
    let budget = Budget {
        max_bytes: Some(10),
        max_tokens: Some(2),
        max_duration: Some(Duration::from_millis(100)),
    };
    let expected = Expected { success: true, budget, ..Expected::default() };
    differs(
        &expected,
        answer(false, &["twelve bytes"]),
        expect![[r#"
        max_bytes
          expected at most 10 bytes
          got      12 bytes
        max_tokens
          expected at most 2 tokens
          got      3 tokens
        max_duration
          expected at most 100ms
          got      250ms
    "#]],
    );
}

#[test]
fn long_results_are_shortened() {
    let long = format!("{}needle{}", "x".repeat(500), "y".repeat(500));
    let expected = Expected {
        success: true,
        contains: texts(&["gone"]),
        not_contains: texts(&["needle"]),
        ..Expected::default()
    };
    let differences =
        check(&expected, &answer(false, &[&long]), Duration::ZERO, approximate_tokens);
    assert_eq!(differences[0].got, format!("{}… (606 bytes more)", "x".repeat(400)));
    assert_eq!(differences[1].got, format!("…{}needle{}…", "x".repeat(60), "y".repeat(60)));
}

#[test]
fn notifications() {
    let received = [
        ReceivedNotification { method: "a/b".to_owned(), params: json!({"level": "Info"}) },
        ReceivedNotification { method: "c".to_owned(), params: Value::Null },
    ];
    let expected = |method: &str, contains: &[&str], presence| ExpectedNotification {
        method: method.to_owned(),
        contains: texts(contains),
        within: Duration::from_secs(2),
        presence,
    };
    assert_eq!(check_notification(&expected("a/b", &["info"], Presence::Present), &received), None);
    assert_eq!(check_notification(&expected("d", &[], Presence::Absent), &received), None);
    let wrong = [
        check_notification(&expected("a/b", &["debug"], Presence::Present), &received),
        check_notification(&expected("c", &[], Presence::Absent), &received),
        check_notification(&expected("c", &[], Presence::Present), &[]),
    ];
    let wrong: Vec<Difference> = wrong.into_iter().flatten().collect();
    expect![[r#"
        notifications a/b
          expected one within 2.0s with "debug"
          got      a/b {"level":"Info"}, c null
        notifications c
          expected none within 2.0s
          got      a/b {"level":"Info"}, c null
        notifications c
          expected one within 2.0s
          got      none at all
    "#]]
    .assert_eq(&shown(&wrong));
}
