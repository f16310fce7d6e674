//! Runs with tools that are made up.

#![expect(clippy::needless_pass_by_value, reason = "tables read better without borrows")]

mod groups;

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

use super::{
    CallOutcome, CompletedSteps, Host, JournalNote, RunBounds, RunOutcome, RunResult, run,
};
use crate::{
    JsonObject, Workflow,
    content::ToolContent,
    definition::read,
    report::{ReplyDetail, StepStatus},
};

/// Tools: `echo` gives its arguments, `fail` says it failed, `lost` cannot be called, `text` gives text.
#[derive(Default)]
struct World {
    limits: Option<RunBounds>,
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
            JournalNote::Begins { key, .. } => format!("{key}?"),
            JournalNote::Ended { report, .. } => format!("{}!", report.key()),
        };
        self.notes.write().unwrap().push(line);
        Box::pin(ready(()))
    }

    fn context(&self) -> RenderContext<'_> {
        RenderContext::default()
    }

    fn limits(&self) -> Option<RunBounds> {
        self.limits
    }
}

fn ran_with(
    spec: &Json,
    input: &Json,
    past: CompletedSteps,
    detail: ReplyDetail,
) -> (RunOutcome, String, usize) {
    ran_in(World::default(), spec, input, past, detail)
}

fn ran_in(
    host: World,
    spec: &Json,
    input: &Json,
    past: CompletedSteps,
    detail: ReplyDetail,
) -> (RunOutcome, String, usize) {
    let workflow = Workflow::new("w", "default", read(spec).unwrap().spec);
    let Json::Object(input) = input.clone() else { panic!("not an object") };
    let ended = {
        let mut future = pin!(run(&workflow, input, &host, past, detail));
        let waker = Waker::from(Arc::new(Noop));
        match future.as_mut().poll(&mut Polled::from_waker(&waker)) {
            Poll::Ready(ended) => ended,
            Poll::Pending => panic!("nothing here waits"),
        }
    };
    (ended, host.notes.into_inner().unwrap().join(" "), host.calls.into_inner())
}

fn ran(spec: Json, input: Json) -> (Json, Option<String>, String) {
    ran_in_detail(spec, input, ReplyDetail::Visible)
}

fn ran_in_detail(spec: Json, input: Json, detail: ReplyDetail) -> (Json, Option<String>, String) {
    let (ended, notes, _) = ran_with(&spec, &input, CompletedSteps::new(), detail);
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
    let last = |flags: Json| {
        let mut step = json!({"id": "a", "tool": "echo", "args": {"status": "mine", "x": 1}});
        step.as_object_mut().unwrap().extend(flags.as_object().unwrap().clone());
        json!({"steps": [step]})
    };
    let at_the_top =
        [("/status", json!("mine")), ("/x", json!(1)), ("/steps/0/result", Json::Null)];
    for flags in [json!({}), json!({"store": false}), json!({"output": false, "store": true})] {
        check(last(flags), json!({}), &at_the_top);
    }
    let in_its_step =
        [("/status", json!("completed")), ("/x", Json::Null), ("/steps/0/result/x", json!(1))];
    for flags in [json!({"store": true}), json!({"output": true})] {
        check(last(flags), json!({}), &in_its_step);
    }
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
fn on_failure_steps() {
    let spec = json!({
        "steps": [{"id": "a", "tool": "gone"}],
        "onFailure": [
            {"id": "undo", "tool": "fail"},
            {"id": "tell", "tool": "echo", "args": {"why": "{{ .vars.error }}", "which": "{{ .vars.failed_step }}",
                "record": "{{ .results.a.success }}"}, "output": true},
        ],
    });
    let (answer, error, notes) = ran(spec, json!({}));
    assert_eq!(error.as_deref(), Some("step a failed: tool gone is not available"));
    assert_eq!(notes, "a? a! onFailure/undo? onFailure/undo! onFailure/tell? onFailure/tell!");
    assert_eq!(
        answer["steps"],
        json!([
            {"id": "a", "tool": "gone", "status": "failed", "error": "tool gone is not available"},
            {"id": "undo", "tool": "fail", "status": "failed", "allow_failure": true},
            {"id": "tell", "tool": "echo", "status": "completed", "allow_failure": true,
                "result": {"why": error.unwrap(), "which": "a", "record": false}},
        ])
    );
}

#[test]
fn output_replaces_the_result() {
    let spec = json!({
        "steps": [
            {"id": "a", "tool": "echo", "args": {"l": [1, 2], "o": [{"n": "first"}]}},
            {"id": "get-all", "tool": "echo", "args": {"o": {"n": "{{ .results.a.o }}"}}},
            {"id": "b", "tool": "echo", "args": {"o": "{{ .results.get-all.o }}"}},
        ],
        "output": {"list": "{{ .results.a.l }}", "n": "{{ len .results.a.l }}", "text": "{{ .input.x }}!",
            "inner": [{"x": "{{ .input.x }}"}], "indexed": "{{ .results.a.o[0].n }}",
            "dashed": "{{ .results.get-all.o.n[0].n }}", "old": "{{ .context.get-all.o }}",
            "passed": "{{ .context.b.o.n[0] }}"},
    });
    let output = json!({"list": [1, 2], "n": 2, "text": "v!", "inner": [{"x": "v"}], "indexed": "first",
        "dashed": "first", "old": {"n": [{"n": "first"}]}, "passed": {"n": "first"}});
    let (answer, _, _) = ran(spec.clone(), json!({"x": "v"}));
    assert_eq!(answer, output);
    let (answer, error, _) = ran_in_detail(spec, json!({"x": "v"}), ReplyDetail::Debug);
    assert_eq!((&answer["output"], error), (&output, None));
    assert_eq!((&answer["status"], &answer["workflow"]), (&json!("completed"), &json!("w")));
    assert_eq!(answer["steps"][0]["result"]["l"], json!([1, 2]));
}

#[test]
fn an_output_that_cannot_be_rendered_keeps_the_results() {
    let spec = |value: &str| {
        json!({
            "steps": [{"id": "a", "tool": "echo", "args": {"x": 1}}],
            "output": {"fine": 1, "inner": {"value": value}},
        })
    };
    let (answer, error, _) = ran(spec("{{ .results.missing.field }}"), json!({}));
    let error = error.unwrap();
    assert!(
        error.starts_with(
            "failed to render output template: output.inner.value: template execution failed"
        ),
        "{error}"
    );
    assert_eq!(answer["output_error"], error);
    assert_eq!(
        (&answer["status"], &answer["steps"][0]["result"]["x"]),
        (&json!("completed"), &json!(1))
    );
    let (answer, _, _) = ran(spec("{{ .results.a.x[3] }}"), json!({}));
    assert_eq!(
        answer["output_error"],
        "failed to render output template: output.inner.value: path 'results.a.x[3]' not found"
    );
}

#[test]
fn paths_of_conditions_may_be_templates() {
    let spec = |path: &str, value: &str| {
        json!({"steps": [{"id": "a", "tool": "text", "condition": {"tool": "echo", "args": {"items": [1, {"n": "b"}]},
            "expect": {"success": true, "json_path": {path: value}}}}]})
    };
    let status = |path: &str, value: &str, expect: &str| {
        check(spec(path, value), json!({"want": "b"}), &[("/steps/0/status", json!(expect))]);
    };
    status("{{ (index .result.items 1).n }}", "b", "completed");
    status("{{ .result.items[1].n }}", "{{ .input.want }}", "completed");
    status("items[1].n", "b", "completed");
    status("{{ (index .result.items 1).n }}", "c", "skipped");
    status("{{ .result.items.nope.n }}", "b", "skipped");
    let (answer, _, _) = ran(
        json!({"steps": [{"id": "a", "tool": "text", "condition": {"template": "{{ .input.nope }}"}}]}),
        json!({}),
    );
    let error = answer["no result"].as_str().unwrap();
    assert!(error.starts_with("failed to evaluate condition template for step a: "), "{error}");
}

#[test]
fn completed_steps_are_not_repeated() {
    let spec = json!({"steps": [
        {"id": "a", "tool": "echo", "args": {"x": 1}, "store": true},
        {"id": "b", "tool": "echo", "args": {"x": "{{ .results.a.x }}"}},
    ]});
    let (first, _, calls) =
        ran_with(&spec, &json!({}), CompletedSteps::new(), ReplyDetail::Visible);
    assert_eq!(calls, 2);
    let known = first.reports[0].clone();
    let past = CompletedSteps::from([("a".to_owned(), (known, json!({"x": 7})))]);
    let (ended, notes, calls) = ran_with(&spec, &json!({}), past, ReplyDetail::Visible);
    let RunResult::Value(result) = ended.result else { panic!("no result") };
    assert_eq!((result["x"].clone(), notes.as_str(), calls), (json!(7), "b? b!", 1));
}

#[track_caller]
fn check_limits(limits: RunBounds, spec: Json, error: &str, calls: usize) {
    let host = World { limits: Some(limits), ..World::default() };
    let (ended, notes, made) =
        ran_in(host, &spec, &json!({}), CompletedSteps::new(), ReplyDetail::Visible);
    let said = ended.error.unwrap_or_default();
    assert!(said.contains(error), "{said}");
    assert_eq!(made, calls, "{notes}");
}

#[test]
fn limits_end_a_run_also_where_steps_may_fail() {
    let limits = RunBounds { calls: 5, bytes: 1 << 20, rendered: 1 << 20 };
    let each = |step: Json| {
        let items = json!([1, 2, 3, 4, 5, 6, 7, 8]);
        json!({"steps": [{"id": "all", "forEach": {"items": items, "steps": [step]}, "allowFailure": true}],
            "onFailure": [{"id": "after", "tool": "echo"}]})
    };
    let made = "the run makes more than 5 calls";
    check_limits(limits, each(json!({"id": "a", "tool": "echo", "allowFailure": true})), made, 6);
    // Steps that are skipped are journaled, too.
    let skipped = json!({"id": "a", "tool": "echo", "condition": {"template": "{{ false }}"}});
    check_limits(limits, each(skipped), made, 1);
    let asking = json!({"id": "a", "tool": "echo", "condition": {"tool": "fail", "expect": {"success": true}}});
    check_limits(limits, each(asking), made, 3);
    let limits = RunBounds { calls: 100, bytes: 3_000, rendered: 1 << 20 };
    let text = "x".repeat(400);
    let long = json!({"id": "a", "tool": "echo", "args": {"t": text}, "allowFailure": true});
    let large = "the arguments and results of the run are larger than 0 MiB together";
    check_limits(limits, each(long.clone()), large, 5);
    let parallel: Vec<Json> = (0..8)
        .map(|n| {
            let mut step = long.clone();
            step["id"] = json!(format!("s{n}"));
            step
        })
        .collect();
    let spec = json!({"steps": [{"id": "all", "parallel": parallel}]});
    // What follows is not called any more.
    check_limits(limits, spec, large, 4);
}

#[test]
fn results_that_double_end_a_run_before_the_call_that_is_too_large() {
    let steps = |times: usize| {
        let doubled = |n: usize| {
            let again = format!("{{{{ toJson .results.s{n} }}}}").repeat(2);
            json!({"id": format!("s{}", n + 1), "tool": "echo", "args": {"t": again}})
        };
        let first = json!({"id": "s0", "tool": "echo", "args": {"t": "x".repeat(1_000)}});
        let steps: Vec<Json> = std::iter::once(first).chain((0..times).map(doubled)).collect();
        json!({"steps": steps})
    };
    // 1, 2, 4, 8 and 16 KiB as arguments and as results; then 32 as arguments.
    let bounds = |bytes, rendered| RunBounds { calls: 100, bytes, rendered };
    let large = "the arguments and results of the run are larger than 0 MiB together";
    check_limits(bounds(80_000, 1 << 30), steps(12), large, 5);
    // What templates make and nothing keeps is limited as well.
    let many = "it and those before it make too much text together";
    check_limits(bounds(1 << 30, 80_000), steps(12), many, 4);
    let length = "{{ len (toJson .results.s0) }}";
    let wasteful: JsonObject = (0..100).map(|n| (format!("a{n}"), json!(length))).collect();
    let mut spec = steps(0);
    let step = json!({"id": "s1", "tool": "echo", "args": wasteful});
    spec["steps"].as_array_mut().unwrap().push(step);
    check_limits(bounds(1 << 30, 80_000), spec, many, 1);
    let whole: JsonObject =
        (0..100).map(|n| (format!("a{n}"), json!("{{ .results.s-0 }}"))).collect();
    let mut spec = steps(0);
    spec["steps"][0]["id"] = json!("s-0");
    spec["output"] = json!(whole);
    check_limits(bounds(1 << 30, 80_000), spec, "are too large together", 1);
}

#[test]
fn a_step_over_the_limit_of_bytes_was_carried_out() {
    let limits = RunBounds { calls: 5, bytes: 500, rendered: 1 << 20 };
    let host = World { limits: Some(limits), ..World::default() };
    let text = "x".repeat(400);
    let spec = json!({"steps": [
        {"id": "a", "tool": "echo", "args": {"t": text}},
        {"id": "b", "tool": "echo"},
    ]});
    let (ended, _, made) =
        ran_in(host, &spec, &json!({}), CompletedSteps::new(), ReplyDetail::Visible);
    let said = ended.error.unwrap_or_default();
    let large = "step a was carried out, but the arguments and results of the run are ";
    assert!(said.starts_with(large), "{said}");
    let [report] = ended.reports.as_slice() else { panic!("{:?}", ended.reports) };
    assert_eq!((report.status, report.error.as_deref()), (StepStatus::Completed, Some(&*said)));
    assert_eq!(made, 1);
}
