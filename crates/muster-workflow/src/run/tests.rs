//! Runs with tools that are made up.

#![expect(clippy::needless_pass_by_value, reason = "tables read better without borrows")]

use std::{
    future::ready,
    pin::pin,
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context as Polled, Poll, Wake, Waker},
};

use muster_core::{backend::BoxFuture, call::Outcome};
use muster_template::RenderContext;
use serde_json::{Value as Json, json};

use super::{CallOutcome, CompletedSteps, Host, JournalNote, RunOutcome, RunResult, run};
use crate::{JsonObject, Workflow, content::ToolContent, definition::read};

/// Tools: `echo` gives its arguments, `fail` says it failed, `lost` cannot be called, `text` gives text.
#[derive(Default)]
struct World {
    notes: RwLock<Vec<String>>,
    calls: AtomicUsize,
}

struct Noop;

impl Wake for Noop {
    fn wake(self: Arc<Self>) {}
}

impl Host for World {
    fn call<'a>(&'a self, tool: &'a str, arguments: JsonObject) -> BoxFuture<'a, CallOutcome> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let outcome = match tool {
            "echo" => Outcome::text(Json::Object(arguments).to_string()),
            "fail" => Outcome::failure("it went wrong"),
            "text" => Outcome::text("only words"),
            _ => {
                return Box::pin(ready(CallOutcome::Failed(format!(
                    "tool {tool} is not available"
                ))));
            }
        };
        Box::pin(ready(CallOutcome::Returned(ToolContent::of(outcome).unwrap())))
    }

    fn journal(&self, note: JournalNote) -> BoxFuture<'_, ()> {
        let line = match note {
            JournalNote::Begins { step, .. } => format!("{step}?"),
            JournalNote::Ended { report, .. } => format!("{}!", report.id),
        };
        self.notes.write().unwrap().push(line);
        Box::pin(ready(()))
    }

    fn context(&self) -> RenderContext<'_> {
        RenderContext::default()
    }
}

fn ran_with(spec: &Json, input: &Json, past: CompletedSteps) -> (RunOutcome, String, usize) {
    let workflow = Workflow::new("w", "default", read(spec).unwrap().spec);
    let host = World::default();
    let Json::Object(input) = input.clone() else { panic!("not an object") };
    let ended = {
        let mut future = pin!(run(&workflow, input, &host, past));
        let waker = Waker::from(Arc::new(Noop));
        match future.as_mut().poll(&mut Polled::from_waker(&waker)) {
            Poll::Ready(ended) => ended,
            Poll::Pending => panic!("nothing here waits"),
        }
    };
    (ended, host.notes.into_inner().unwrap().join(" "), host.calls.into_inner())
}

fn ran(spec: Json, input: Json) -> (Json, Option<String>, String) {
    let (ended, notes, _) = ran_with(&spec, &input, CompletedSteps::new());
    let answer = match ended.result {
        RunResult::Value(result) => result,
        RunResult::Tool(Outcome::Text { text, .. }) => json!({"tool said": text}),
        RunResult::Error(error) => json!({"no result": error}),
        RunResult::Tool(other) => panic!("{other:?}"),
    };
    (answer, ended.error, notes)
}

#[track_caller]
fn check(spec: Json, input: Json, pointers: &[(&str, Json)]) {
    let (answer, _, _) = ran(spec, input);
    for (pointer, expect) in pointers {
        assert_eq!(answer.pointer(pointer).unwrap_or(&Json::Null), expect, "{pointer} in {answer}");
    }
}

#[test]
fn results_go_from_step_to_step() {
    let spec = json!({"steps": [
        {"id": "a", "tool": "echo", "args": {"n": "{{ .input.n }}", "t": "n is {{ .input.n }}"}, "store": true},
        {"id": "b", "tool": "echo", "args": {"all": "{{ .results.a }}", "n": "{{ .context.a.n }}"}, "store": true},
    ]});
    let (answer, error, notes) = ran(spec, json!({"n": 5}));
    assert_eq!(
        answer,
        json!({
            "execution_id": "", "input": {"n": 5}, "status": "completed", "workflow": "w",
            "steps": [
                {"id": "a", "tool": "echo", "status": "completed", "result": {"n": 5, "t": "n is 5"}},
                {"id": "b", "tool": "echo", "status": "completed",
                    "result": {"all": {"n": 5, "t": "n is 5"}, "n": 5}},
            ],
            "template_vars": ["input.n"],
        })
    );
    assert_eq!((error, notes.as_str()), (None, "a? a! b? b!"));
}

#[test]
fn the_last_result_is_at_the_top_unless_stored() {
    let last = |store: bool| json!({"steps": [{"id": "a", "tool": "echo", "args": {"status": "mine", "x": 1}, "store": store}]});
    check(last(false), json!({}), &[("/status", json!("mine")), ("/x", json!(1))]);
    check(last(true), json!({}), &[("/status", json!("completed")), ("/x", Json::Null)]);
}

#[test]
fn a_failure_ends_the_run_unless_allowed() {
    let spec = |tool: &str, allow: bool| {
        json!({"steps": [
            {"id": "a", "tool": tool, "allow_failure": allow, "store": true},
            {"id": "b", "tool": "echo", "args": {"a": "{{ .results.a }}"}, "store": true},
        ]})
    };
    let (answer, error, notes) = ran(spec("gone", false), json!({}));
    assert_eq!(answer["status"], "failed");
    assert_eq!(
        answer["steps"],
        json!([{"error": "tool gone is not available", "id": "a", "status": "failed", "tool": "gone"}])
    );
    assert_eq!(error.as_deref(), Some("step a failed: tool gone is not available"));
    assert_eq!(notes, "a? a!");
    let (answer, error, _) = ran(spec("fail", false), json!({}));
    assert_eq!(answer, json!({"tool said": "it went wrong"}));
    assert_eq!(error.as_deref(), Some("step a failed: it went wrong"));
    let failed = json!({"success": false, "isError": true, "error": "it went wrong"});
    check(
        spec("fail", true),
        json!({}),
        &[
            ("/status", json!("completed")),
            ("/steps/0/status", json!("failed")),
            ("/steps/0/error", Json::Null),
            ("/steps/0/allow_failure", json!(true)),
            ("/steps/1/result/a", failed),
        ],
    );
}

#[test]
fn conditions_decide() {
    let spec = |condition: Json| {
        json!({"steps": [
            {"id": "a", "tool": "echo", "args": {"s": "ready"}, "store": true},
            {"id": "f", "tool": "fail", "allow_failure": true},
            {"id": "b", "tool": "text", "condition": condition},
        ]})
    };
    let status = |condition: Json, expect: &str, source: &str| {
        check(
            spec(condition),
            json!({"want": "ready"}),
            &[
                ("/steps/2/status", json!(expect)),
                ("/steps/2/condition_evaluation", json!(expect == "completed")),
                ("/steps/2/condition_tool", json!(source)),
            ],
        );
    };
    let from = |step: &str, expect: Json| json!({"from_step": step, "expect": expect});
    let ready = json!({"success": true, "json_path": {"s": "{{ .input.want }}"}});
    status(from("a", ready), "completed", "from_step:a");
    status(from("a", json!({"success": false})), "skipped", "from_step:a");
    status(from("f", json!({"success": false})), "completed", "from_step:f");
    status(
        json!({"tool": "echo", "args": {"x": 1}, "expect": {"success": true, "json_path": {"x": "1"}}}),
        "completed",
        "echo",
    );
    status(json!({"tool": "fail", "expect": {"success": false}}), "completed", "fail");
    status(json!({"tool": "gone", "expect": {"success": false}}), "skipped", "gone");
    status(json!({"template": "{{ eq .input.want \"ready\" }}"}), "completed", "template");
    status(json!({"template": "{{ ne .input.want \"ready\" }}"}), "skipped", "template");
    let (answer, _, _) = ran(spec(from("nope", json!({"success": true}))), json!({}));
    assert_eq!(
        answer,
        json!({"no result": "step b condition references non-existent step result: nope"})
    );
}

#[test]
fn template_errors_end_the_run() {
    let spec = json!({"steps": [{"id": "a", "tool": "echo", "args": {"x": "{{ .input.nope }}"}}]});
    let (answer, _, _) = ran(spec, json!({}));
    assert_eq!(
        answer["no result"],
        "failed to resolve arguments for step a: failed to render arguments for argument 'x': failed to \
         render arguments: template execution failed: template: template:1:9: executing \"template\" at \
         <.input.nope>: map has no entry for key \"nope\""
    );
}

#[test]
fn loops_run_their_steps_for_each_item() {
    let spec = json!({"steps": [
        {"id": "each", "forEach": {"items": "{{ .input.list }}", "as": "it", "steps": [
            {"id": "one", "tool": "echo", "args": {"v": "{{ .vars.it }}", "i": "{{ .vars.it_index }}"}},
            {"id": "two", "tool": "echo", "args": {"was": "{{ .results.one.v }}"}},
        ]}, "store": true},
        {"id": "end", "tool": "echo", "args": {"first": "{{ .results.one_0.v }}", "last": "{{ .results.two.was }}",
            "n": "{{ len .results.each }}"}},
    ]});
    let (answer, error, notes) = ran(spec.clone(), json!({"list": ["x", "y"]}));
    assert_eq!(error, None);
    assert_eq!(notes, "one_0? one_0! two_0? two_0! one_1? one_1! two_1? two_1! end? end!");
    assert_eq!(
        (&answer["first"], &answer["last"], &answer["n"]),
        (&json!("x"), &json!("y"), &json!("2"))
    );
    assert_eq!(answer["steps"][0]["steps"][2]["id"], "one_1");
    assert_eq!(
        answer["steps"][0]["result"][1],
        json!({"one": {"v": "y", "i": 1}, "two": {"was": "y"}})
    );
    let (answer, _, _) = ran(spec, json!({"list": "x"}));
    assert_eq!(
        answer["no result"],
        "failed to resolve the items of step each: they are no list but text"
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
        &[("/a", json!(1)), ("/steps/0/steps/1/status", json!("completed"))],
    );
    let (answer, error, _) = ran(spec("fail", false), json!({}));
    assert_eq!(error.as_deref(), Some("step p failed: step b failed: it went wrong"));
    assert_eq!(answer["steps"][0]["steps"][0]["status"], "completed");
    check(spec("fail", true), json!({}), &[("/a", json!(1)), ("/steps/0/status", json!("failed"))]);
}

#[test]
fn on_failure_steps() {
    let spec = json!({
        "steps": [{"id": "a", "tool": "gone"}],
        "onFailure": [
            {"id": "undo", "tool": "fail"},
            {"id": "tell", "tool": "echo", "args": {"why": "{{ .vars.error }}", "which": "{{ .vars.failed_step }}"}, "store": true},
        ],
    });
    let (answer, error, notes) = ran(spec, json!({}));
    assert_eq!(error.as_deref(), Some("step a failed: tool gone is not available"));
    assert_eq!(notes, "a? a! undo? undo! tell? tell!");
    assert_eq!(answer["on_failure"][1]["result"], json!({"why": error.unwrap(), "which": "a"}));
}

#[test]
fn output_replaces_the_result() {
    let spec = json!({
        "steps": [{"id": "a", "tool": "echo", "args": {"l": [1, 2]}}],
        "output": {"list": "{{ .results.a.l }}", "n": "{{ len .results.a.l }}", "text": "{{ .input.x }}!", "inner": [{"x": "{{ .input.x }}"}]},
    });
    let (answer, _, _) = ran(spec, json!({"x": "v"}));
    assert_eq!(answer, json!({"list": [1, 2], "n": 2, "text": "v!", "inner": [{"x": "v"}]}));
}

#[test]
fn completed_steps_are_not_repeated() {
    let spec = json!({"steps": [
        {"id": "a", "tool": "echo", "args": {"x": 1}, "store": true},
        {"id": "b", "tool": "echo", "args": {"x": "{{ .results.a.x }}"}},
    ]});
    let (first, _, calls) = ran_with(&spec, &json!({}), CompletedSteps::new());
    assert_eq!(calls, 2);
    let known = first.reports[0].clone();
    let past = CompletedSteps::from([("a".to_owned(), (known, json!({"x": 7})))]);
    let (ended, notes, calls) = ran_with(&spec, &json!({}), past);
    let RunResult::Value(result) = ended.result else { panic!("no result") };
    assert_eq!((result["x"].clone(), notes.as_str(), calls), (json!(7), "b? b!", 1));
}
