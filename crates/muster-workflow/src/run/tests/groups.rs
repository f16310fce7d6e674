//! Loops and parallel steps.

use serde_json::{Value as Json, json};

use super::{check, ran, ran_with};
use crate::{report::ReplyDetail, run::CompletedSteps};

#[test]
fn loops_run_their_steps_for_each_item() {
    let spec = json!({"steps": [
        {"id": "each", "forEach": {"items": "{{ .input.list }}", "as": "it", "steps": [
            {"id": "one", "tool": "echo", "args": {"v": "{{ .vars.it }}", "i": "{{ .vars.it_index }}"}, "output": true},
            {"id": "two", "tool": "echo", "args": {"was": "{{ .results.one.v }}"}},
        ]}},
        {"id": "end", "tool": "echo", "args": {"first": "{{ .results.one_0.v }}", "last": "{{ .results.two.was }}",
            "n": "{{ len .results.each }}"}},
    ]});
    let (answer, error, notes) = ran(spec.clone(), json!({"list": ["x", "y"]}));
    assert_eq!(error, None);
    assert_eq!(
        notes,
        "each/one_0? each/one_0! each/two_0? each/two_0! each/one_1? each/one_1! each/two_1? each/two_1! \
         end? end!"
    );
    assert_eq!(
        (&answer["first"], &answer["last"], &answer["n"]),
        (&json!("x"), &json!("y"), &json!("2"))
    );
    assert_eq!(
        answer["steps"],
        json!([
            {"id": "one", "tool": "echo", "status": "completed", "result": {"v": "x", "i": 0}},
            {"id": "two", "tool": "echo", "status": "completed"},
            {"id": "one", "tool": "echo", "status": "completed", "result": {"v": "y", "i": 1}},
            {"id": "two", "tool": "echo", "status": "completed"},
            {"id": "end", "tool": "echo", "status": "completed"},
        ])
    );
    let wrong = |list: Json, kind: &str| {
        let (answer, _, _) = ran(spec.clone(), json!({"list": list}));
        assert_eq!(
            answer["no result"],
            format!(
                "forEach step each: items expression \"{{{{ .input.list }}}}\" resolved to {kind}, \
                 expected a list"
            )
        );
    };
    wrong(json!("x"), "string");
    wrong(json!({}), "map[string]interface {}");
    wrong(Json::Null, "nil");
}

#[test]
fn a_loop_over_nothing_has_no_steps() {
    let spec = json!({"steps": [{"id": "e", "forEach": {"items": [], "steps": [{"id": "a", "tool": "echo"}]}}]});
    check(spec, json!({}), &[("/status", json!("completed")), ("/steps", Json::Null)]);
}

#[test]
fn loop_variables_end_with_the_loop() {
    let nested = |after: &str| {
        json!({"steps": [
            {"id": "e", "forEach": {"items": [1], "steps": [{"id": "a", "tool": "text"}]}},
            {"id": "b", "tool": "echo", "args": {"x": after}},
        ]})
    };
    for name in ["item", "item_index"] {
        let (answer, _, _) = ran(nested(&format!("{{{{ .vars.{name} }}}}")), json!({}));
        let error = answer["no result"].as_str().unwrap();
        assert!(error.contains(&format!("map has no entry for key \"{name}\"")), "{error}");
    }
}

#[test]
fn a_failing_loop_stops_at_its_item() {
    let spec = |tool: &str, inner: bool, outer: bool| {
        json!({"steps": [
            {"id": "e", "allow_failure": outer, "forEach": {"items": ["x", "y"], "steps": [
                {"id": "a", "tool": "echo", "args": {"v": "{{ .vars.item }}"}},
                {"id": "b", "tool": tool, "allow_failure": inner},
            ]}},
            {"id": "c", "tool": "echo", "args": {"known": "{{ hasKey .results \"b_0\" }}"}, "output": true},
        ]})
    };
    let ids = |answer: &Json| -> String {
        let steps = answer["steps"].as_array().unwrap().iter();
        steps.map(|step| step["id"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    let (answer, error, _) = ran(spec("gone", false, false), json!({}));
    assert_eq!((ids(&answer).as_str(), &answer["status"]), ("a b", &json!("failed")));
    assert_eq!(answer["steps"][1]["error"], "tool gone is not available");
    assert_eq!(error.as_deref(), Some("step b failed: tool gone is not available"));
    let (answer, _, _) = ran(spec("fail", false, false), json!({}));
    assert_eq!(answer, json!({"tool said": "it went wrong"}));
    let (answer, error, _) = ran(spec("gone", false, true), json!({}));
    assert_eq!(
        (ids(&answer).as_str(), &answer["status"], error),
        ("a b c", &json!("completed"), None)
    );
    assert_eq!(answer["steps"][2]["result"]["known"], json!(false));
    let (answer, _, _) = ran(spec("fail", true, false), json!({}));
    assert_eq!((ids(&answer).as_str(), &answer["status"]), ("a b a b c", &json!("completed")));
    assert_eq!(answer["steps"][4]["result"]["known"], json!(true));
}

#[test]
fn steps_of_two_groups_may_share_ids() {
    let group = |id: &str, x: u8| json!({"id": id, "forEach": {"items": [x], "steps": [{"id": "a", "tool": "echo", "args": {"x": x}}]}});
    let spec = json!({"steps": [group("e", 1), group("f", 2)]});
    let (first, notes, _) =
        ran_with(&spec, &json!({}), CompletedSteps::new(), ReplyDetail::Visible);
    assert_eq!(notes, "e/a_0? e/a_0! f/a_0? f/a_0!");
    // A resumed run does not take the step of one group for the step of the other.
    let done = first.reports[0].clone();
    let past = CompletedSteps::from([(done.key(), (done, json!({"x": 1})))]);
    let (_, notes, calls) = ran_with(&spec, &json!({}), past, ReplyDetail::Visible);
    assert_eq!((notes.as_str(), calls), ("f/a_0? f/a_0!", 1));
}

#[test]
fn a_group_is_in_the_result_only_if_skipped() {
    let spec = json!({"steps": [{"id": "p", "condition": {"template": "{{ eq .input.env \"prod\" }}"},
        "parallel": [{"id": "a", "tool": "echo"}]}]});
    check(spec.clone(), json!({"env": "prod"}), &[("/steps/0/id", json!("a"))]);
    let (answer, _, _) = ran(spec, json!({"env": "test"}));
    assert_eq!(
        answer["steps"],
        json!([{"id": "p", "tool": "", "status": "skipped", "condition_evaluation": false,
            "condition_result": false, "condition_tool": "template"}])
    );
}

#[test]
fn parallel_steps_see_earlier_results_only() {
    let spec = |tool: &str, allow: bool| {
        json!({"steps": [
            {"id": "p", "parallel": [
                {"id": "a", "tool": "echo", "args": {"x": 1}},
                {"id": "b", "tool": tool},
            ], "allowFailure": allow},
            {"id": "c", "tool": "echo", "args": {"a": "{{ .results.a.x }}"}},
        ]})
    };
    check(
        spec("text", false),
        json!({}),
        &[("/a", json!(1)), ("/steps/0/id", json!("a")), ("/steps/1/status", json!("completed"))],
    );
    let (answer, error, _) = ran(spec("gone", false), json!({}));
    assert_eq!(error.as_deref(), Some("step b failed: tool gone is not available"));
    assert_eq!(
        (&answer["status"], &answer["steps"][0]["status"]),
        (&json!("failed"), &json!("completed"))
    );
    check(spec("fail", true), json!({}), &[("/a", json!(1)), ("/steps/1/status", json!("failed"))]);
    // A template that cannot be resolved ends the run, although failures are allowed.
    let unresolved = json!({"steps": [{"id": "p", "allowFailure": true, "parallel": [
        {"id": "a", "tool": "gone"},
        {"id": "b", "tool": "echo", "args": {"x": "{{ .results.a }}"}},
    ]}]});
    let (answer, _, _) = ran(unresolved, json!({}));
    assert!(answer["no result"].as_str().unwrap().contains("arguments for step b"), "{answer}");
}
