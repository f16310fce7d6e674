//! Findings, as `path: message (hint)`.

#![expect(clippy::needless_pass_by_value, reason = "tables read better without borrows")]

use muster_core::json::{Raw, raw};
use serde_json::{Value as Json, json, value::RawValue};

use super::{CheckEnvironment, ToolStatus, check};
use crate::{Workflow, definition::read};

struct World(Vec<(String, Raw)>, Vec<Workflow>);

impl CheckEnvironment for World {
    fn tool(&self, name: &str) -> ToolStatus<'_> {
        match self.0.iter().find(|(known, _)| known == name) {
            Some((_, schema)) => ToolStatus::Known(schema as &RawValue),
            None if name.starts_with("x_later_") => ToolStatus::Unknown,
            None if name == "x_ech" => ToolStatus::Missing(vec!["x_echo".to_owned()]),
            None => ToolStatus::Missing(Vec::new()),
        }
    }

    fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.1.iter().find(|workflow| workflow.name == name)
    }
}

fn workflow(name: &str, spec: &Json) -> Workflow {
    Workflow::new(name, "default", read(spec).unwrap().spec)
}

#[track_caller]
fn found(spec: Json, expect: &[&str]) {
    let schema = json!({"type": "object", "required": ["text"], "properties": {
        "text": {"type": "string"}, "n": {"type": "integer"}, "e": {"enum": ["a", "b"]},
    }});
    let free = json!({"type": "object"});
    let tools = [
        ("x_echo", schema),
        ("x_any", free.clone()),
        ("workflow_w", free.clone()),
        ("workflow_v", free),
    ];
    let tools = tools.map(|(name, schema)| (name.to_owned(), raw(&schema)));
    let other = workflow("v", &json!({"steps": [{"id": "a", "tool": "workflow_w"}]}));
    let world = World(tools.into(), vec![other]);
    let said: Vec<String> = check(&workflow("w", &spec), &world)
        .into_iter()
        .map(|found| format!("{}: {} ({})", found.path.join("."), found.message, found.hint))
        .collect();
    assert_eq!(said, expect);
}

fn any(args: Json) -> Json {
    json!({"steps": [{"id": "a", "tool": "x_any", "args": args}]})
}

#[test]
fn valid_workflows_have_no_findings() {
    found(
        json!({
            "args": {"l": {"type": "array"}},
            "steps": [
                {"id": "a", "tool": "x_echo", "args": {"text": "{{ .input.l | len }}", "n": "{{ len .input.l }}", "e": "b"}},
                {"id": "e", "forEach": {"items": "{{ .input.l }}", "as": "c", "steps": [
                    {"id": "s", "tool": "x_later_tool", "args": {"c": "{{ .vars.c }} {{ .vars.c_index }} {{ .results.a }}"}},
                    {"id": "t", "tool": "x_any", "args": {"s": "{{ .results.s }}"}},
                ]}},
                {"id": "p", "parallel": [{"id": "q", "tool": "x_any"}]},
                {"id": "z", "tool": "x_any", "args": {"all": "{{ .results.s_0 }} {{ .context.q }} {{ .results.e }}"},
                    "condition": {"fromStep": "q", "expect": {"success": true}}},
            ],
            "onFailure": [{"id": "u", "tool": "x_any", "args": {"e": "{{ .vars.error }}"}}],
            "output": {"x": "{{ .results.z }}"},
        }),
        &[],
    );
}

#[test]
fn tools_and_their_arguments() {
    found(
        json!({"steps": [{"id": "a", "tool": "x_ech"}, {"id": "b", "tool": "x_nope"}]}),
        &[
            "steps.0.tool: there is no tool `x_ech`: the workflow is not available (did you mean `x_echo`?)",
            "steps.1.tool: there is no tool `x_nope`: the workflow is not available (find its name with filter_tools)",
        ],
    );
    found(
        json!({"steps": [{"id": "a", "tool": "x_echo", "args": {"n": "five", "txt": "x", "e": "c", "other": 1}}]}),
        &[
            "steps.0.args: `x_echo` needs the argument `text` (add `text: …` to `args`)",
            "steps.0.args.n: the argument `n` of `x_echo` must be of type \"integer\" (write a value of type \"integer\" in place of \"five\")",
            "steps.0.args.txt: `x_echo` takes no argument `txt` (did you mean `text`?)",
            "steps.0.args.e: the argument `e` of `x_echo` cannot be \"c\" (write one of \"a\", \"b\")",
        ],
    );
}

#[test]
fn references() {
    found(
        json!({"args": {"owner": {"type": "string"}}, "steps": [
            {"id": "a", "tool": "x_any", "args": {"x": "{{ .input.ower }}", "y": "{{ .owner }}"}},
            {"id": "b", "tool": "x_any", "args": {"x": ["{{ .results.c.id }}", "{{ .results.d }}"]}},
            {"id": "c", "tool": "x_any", "condition": {"from_step": "d", "expect": {"success": true}}},
            {"id": "longer", "tool": "x_any", "args": {"x": "{{ .vars.item }} {{ .results.longr }}"}},
        ]}),
        &[
            "steps.0.args.x: `.input.ower` is not among the arguments (did you mean `.input.owner`?)",
            "steps.0.args.y: nothing is named `.owner` (write `.input.owner`)",
            "steps.1.args.x.0: step `c` has no result yet here (move `c` before this step)",
            "steps.1.args.x.1: there is no step `d` (name an earlier step)",
            "steps.2.condition.fromStep: there is no step `d` (name an earlier step)",
            "steps.3.args.x: `.vars.item` is not known here (use it in a step inside a `forEach` whose `as` names it)",
            "steps.3.args.x: there is no step `longr` (did you mean `longer`?)",
        ],
    );
    found(
        json!({"steps": [{"id": "p", "parallel": [
            {"id": "a", "tool": "x_any"}, {"id": "b", "tool": "x_any", "args": {"x": "{{ .results.a }}"}},
        ]}]}),
        &["steps.0.parallel.1.args.x: step `a` has no result yet here (move `a` before this step)"],
    );
}

#[test]
fn inputs_without_arguments() {
    found(
        any(json!({"x": "{{ .input.zzz }}"})),
        &[
            "steps.0.args.x: `.input.zzz` is not among the arguments (declare it: `args: {zzz: {type: string}}`)",
        ],
    );
}

#[test]
fn templates() {
    found(any(json!({"x": "{{ .input.a "})), &[]);
    found(
        any(json!({"x": "{{ nope .input.a }}"})),
        &[
            "steps.0.args.x: invalid template: template: template:1: function \"nope\" not defined (correct the template; workflow files use Go's text/template)",
        ],
    );
    found(
        any(json!({"x": "{{ env \"HOME\" }}"})),
        &[
            "steps.0.args.x: the function `env` is refused: the environment of the server is not for templates to read (pass the value as an argument)",
        ],
    );
}

#[test]
fn shapes() {
    found(json!({"steps": []}), &["steps: workflow must have at least one step (add one)"]);
    found(
        json!({"args": {"a": {"type": "text"}}, "steps": [
            {"id": "a", "tool": "x_any"}, {"id": "a", "tool": "x_any"},
            {"id": "b", "tool": "x_any", "condition": {"tool": "x_any", "expect": {"json_path": {"a": 1}}}},
        ]}),
        &[
            "args.a: `text` is no type (write one of string, integer, boolean, number, object, array)",
            "steps.1: duplicate step ID 'a' found (give one of them another `id`)",
            "steps.2.condition.expect: without `success: true` this expects a failure (add `success: true`)",
        ],
    );
    found(
        json!({"steps": [{"id": "a", "tool": "workflow_v"}]}),
        &[": it calls itself: w → v → w (remove one of these calls)"],
    );
}
