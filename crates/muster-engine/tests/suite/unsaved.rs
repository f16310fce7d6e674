//! Unsaved workflows: `run_steps`, and workflows that are saved from its runs.

use std::time::Duration;

use muster_core::{
    backend::CallContext,
    call::{Caller, Outcome},
    client::NoClient,
    effect::Effect,
    json::raw,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::{
    fake::{Fake, Plan, Said},
    rig::{REMOTE, Rig, operator},
    workflows::recorded,
};

async fn rig() -> Rig {
    rig_with(&[]).await
}

async fn rig_with(files: &[(&str, &str)]) -> Rig {
    let fake = Fake::default();
    fake.plan("a", [Plan::Up(vec!["list", "get", "delete"])]);
    fake.says("list", [Said::Text(r#"{"items": [{"id": 1}, {"id": 2}]}"#)]);
    fake.says("get", [Said::Text(r#"{"secret": "x", "name": "Ada"}"#)]);
    let rig = Rig::with(fake, &[&[("mcpservers/a.yaml", REMOTE)], files].concat());
    rig.until_is("a", "connected").await;
    rig
}

/// The reply to steps, with `E: ` before an error.
async fn run_as(rig: &Rig, caller: &Caller, steps: Value) -> String {
    let client = NoClient::shared();
    let cx = CallContext { client: &client, caller, tools: &*rig.dispatcher, sent: None };
    match rig.engine().step_runner().run_steps(cx, raw(&steps)).await {
        Outcome::Text { text, failed: true, .. } => format!("E: {text}"),
        Outcome::Text { text, .. } => text,
        Outcome::Raw(result) => result.get().to_owned(),
        Outcome::InputRequired(_) => panic!("requests input"),
    }
}

async fn run(rig: &Rig, steps: Value) -> String {
    run_as(rig, &operator(), steps).await
}

fn two() -> Value {
    json!({
        "input": {"which": 1},
        "steps": [
            {"id": "all", "tool": "x_a_list"},
            {"id": "one", "tool": "x_a_get", "args": {"id": "{{ (index .results.all.items (int .input.which)).id }}"}},
        ],
        "output": {"name": "{{ .results.one.name }}"},
    })
}

#[tokio::test(start_paused = true)]
async fn only_the_output_comes_back() {
    let rig = rig().await;
    let text = run(&rig, two()).await;
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["name"], "Ada");
    assert!(!text.contains("secret") && !text.contains("items"), "{text}");
    assert_eq!(rig.fake.called(), ["list {}", r#"get {"id":"2"}"#]);
    // The record has all of it.
    let id = result["execution_id"].as_str().unwrap();
    let record = rig.ask("core_workflow_execution_get", json!({"execution_id": id})).await;
    assert_eq!(
        (&record["workflow_name"], &record["status"]),
        (&json!("run_steps"), &json!("completed"))
    );
    assert_eq!(record["steps"][1]["input"], json!({"id": "2"}));
    assert_eq!(record["definition"]["steps"][0]["tool"], "x_a_list");
}

#[tokio::test(start_paused = true)]
async fn without_an_output_the_last_result_comes_back() {
    let rig = rig().await;
    let steps = json!([{"id": "a", "tool": "x_a_list"}, {"id": "b", "name": "x_a_get", "arguments": {"id": 1}}]);
    let text = run(&rig, json!({"steps": steps.to_string(), "input": r#"{"n":1}"#})).await;
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&result["name"], &result["items"]), (&json!("Ada"), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_taken_out_of_call_tool() {
    let rig = rig().await;
    let call = json!({"name": "x_a_get", "arguments": {"id": 1}});
    let steps = json!([
        {"id": "a", "tool": "call_tool", "args": {"name": "x_a_list"}},
        {"id": "b", "name": "call_tool", "arguments": call},
    ]);
    let text = run(&rig, json!({"steps": steps})).await;
    assert!(text.contains("Ada"), "{text}");
    assert_eq!(rig.fake.called(), ["list {}", r#"get {"id":1}"#]);
}

#[tokio::test(start_paused = true)]
async fn loops_and_conditions_as_in_a_file() {
    let rig = rig().await;
    rig.fake.says("get", [Said::Text(r#"{"name": "Ada"}"#), Said::Text(r#"{"name": "Bob"}"#)]);
    let each = json!({"items": "{{ .results.all.items }}", "as": "item", "steps": [
        {"id": "one", "tool": "x_a_get", "args": {"id": "{{ .vars.item.id }}"}}]});
    let steps = json!([
        {"id": "all", "tool": "x_a_list"},
        {"id": "each", "forEach": each},
        {"id": "never", "tool": "x_a_delete", "condition": {"template": "{{ eq 1 2 }}"}},
    ]);
    let output = json!("{{ .results.each }}");
    let text = run(&rig, json!({"steps": steps, "output": output})).await;
    assert!(text.contains("Ada") && text.contains("Bob"), "{text}");
    assert_eq!(rig.fake.called(), ["list {}", r#"get {"id":1}"#, r#"get {"id":2}"#]);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_keeps_all_of_it_from_running() {
    let rig = rig().await;
    let step = |tool: &str, args: Value| json!({"id": "a", "tool": tool, "args": args});
    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let many: Vec<Value> =
        (0..101).map(|n| json!({"id": format!("s{n}"), "tool": "x_a_list"})).collect();
    let later = json!([{"id": "a", "tool": "x_a_list"}, {"id": "b", "tool": "x_a_get", "args": {"id": "{{ .results.c.id }}"}}]);
    for (request, expect) in [
        (json!({}), "E: nothing ran: steps argument is required"),
        (json!({"steps": []}), "E: nothing ran: workflow must have at least one step"),
        (json!({"steps": "x_a_list"}), "E: nothing ran: steps must be a list such as [{"),
        (
            json!({"steps": [step("x_a_list", json!({}))], "onFailure": {}}),
            "E: nothing ran: onFailure must be a list such as [{",
        ),
        (
            json!({"steps": [step("x_a_list", json!({"deep": deep}))]}),
            "E: nothing ran: the steps are nested too deeply",
        ),
        (
            json!({"steps": [step("filter_tools", json!({}))]}),
            "E: nothing ran: steps.0.tool: `filter_tools` cannot be called: it is a meta-tool\nhint: name the tool",
        ),
        (
            json!({"steps": [step("call_tool", json!({"name": "x_a_list", "head": 1}))]}),
            "E: nothing ran: steps.0.tool: `call_tool` cannot be called: it is a meta-tool\nhint: name the tool",
        ),
        (json!({"steps": [{"tool": "x_a_list"}]}), "E: nothing ran: steps: step 0: id is required"),
        (json!({"steps": many}), "E: nothing ran: 101 steps are more than 100"),
        (json!({"steps": [step("x_a_lst", json!({}))]}), "E: nothing ran: steps.0.tool: "),
        (json!({"steps": later}), "E: nothing ran: steps.1.args.id: "),
        (
            json!({"steps": [{"id": "a", "tool": "x_a_list", "argz": {}}]}),
            "E: nothing ran: there is no field `steps.0.argz`; did you mean `args`?",
        ),
        (
            json!({"steps": [step("x_a_list", json!({}))], "input": 5}),
            "E: nothing ran: input must be",
        ),
        (
            json!({"steps": [step("x_a_list", json!({}))], "input": {"n": null}}),
            "E: nothing ran: `input.n` is null: leave it out, or give it a value",
        ),
        (
            json!({"steps": [step("x_a_list", json!({"text": "x".repeat(70_000)}))]}),
            "E: nothing ran: the steps are larger than 64 KiB",
        ),
    ] {
        let text = run(&rig, request).await;
        assert!(text.starts_with(expect), "{text}");
    }
    let steps = json!({"steps": [step("x_a_list", json!({})), {"id": "b", "tool": "x_a_delete"}]});
    let text = run_as(&rig, &operator().within(Effect::Read), steps).await;
    assert!(text.starts_with("E: nothing ran: `x_a_delete` is "), "{text}");
    assert_eq!(rig.fake.called().len(), 0);
    let list = rig.ask("core_workflow_execution_list", json!({})).await;
    assert_eq!(list["total"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_says_what_is_done() {
    let rig = rig().await;
    rig.fake.says("get", [Said::Failure("no such id")]);
    let text = run(&rig, two()).await;
    let reply: Value = serde_json::from_str(text.strip_prefix("E: ").unwrap()).unwrap();
    assert_eq!(reply["completed"], json!(["all"]));
    assert!(reply["error"].as_str().unwrap().starts_with("step one failed: "), "{reply}");
    let id = reply["execution_id"].as_str().unwrap();
    let record = rig.ask("core_workflow_execution_get", json!({"execution_id": id})).await;
    assert_eq!(record["status"], "failed");
}

#[tokio::test(start_paused = true)]
async fn a_run_is_saved_as_a_workflow() {
    let rig = rig().await;
    let result: Value = serde_json::from_str(&run(&rig, two()).await).unwrap();
    let id = result["execution_id"].as_str().unwrap();
    let create = |args: Value| rig.call("core_workflow_create", args);
    let said = create(json!({"name": "person", "description": "Shows one", "from_run": id})).await;
    assert_eq!(said, "Workflow created successfully");
    let saved = rig.ask("workflow_person", json!({"which": 0})).await;
    assert_eq!(saved["name"], "Ada");
    assert_eq!(rig.fake.called().last().unwrap(), r#"get {"id":"1"}"#);
    let missing = rig.call("workflow_person", json!({})).await;
    assert!(missing.contains("which"), "{missing}");
    let of_saved = saved["execution_id"].as_str().unwrap();
    for (args, expect) in [
        (json!({"name": "b", "from_run": "none"}), "none"),
        (json!({"name": "b", "from_run": of_saved}), "is one of the saved workflow person"),
        (
            json!({"name": "b", "from_run": id, "steps": [{"id": "a", "tool": "x_a_list"}]}),
            "give either from_run or steps",
        ),
        (json!({"name": "b"}), "steps argument is required"),
    ] {
        let said = create(args).await;
        assert!(said.starts_with("E: ") && said.contains(expect), "{said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_run_leaves_a_record() {
    let rig = rig().await;
    rig.fake.says("get", [Said::Nothing]);
    assert!(timeout(Duration::from_secs(5), run(&rig, two())).await.is_err());
    let mut rig = rig;
    rig.again().await;
    let list = rig.ask("core_workflow_execution_list", json!({})).await;
    assert_eq!(list["executions"][0]["status"], "failed");
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_run_are_limited() {
    let rig = rig().await;
    let items: Vec<usize> = (0..400).collect();
    let each = |id: &str| {
        let step = json!({"id": format!("{id}_get"), "tool": "x_a_get", "allowFailure": true});
        json!({"id": id, "forEach": {"items": "{{ .input.items }}", "as": "n", "steps": [step]}})
    };
    let steps = json!({"input": {"items": items}, "steps": [each("a"), each("b"), each("c")]});
    let text = run(&rig, steps).await;
    assert!(text.contains("the run makes more than 1000 calls"), "{text}");
    assert_eq!(rig.fake.called().len(), 1_000);
}

#[tokio::test(start_paused = true)]
async fn pictures_of_the_last_step_come_back() {
    let rig = rig().await;
    let picture = r#"{"content":[{"type":"text","text":"seen"},{"type":"image","data":"aGk=","mimeType":"image/png"}]}"#;
    for (output, expect) in [(None, true), (Some(json!("{{ .results.b }}")), false)] {
        rig.fake.says("get", [Said::Result(picture)]);
        let mut steps =
            json!({"steps": [{"id": "a", "tool": "x_a_list"}, {"id": "b", "tool": "x_a_get"}]});
        if let Some(output) = output {
            steps["output"] = output;
        }
        let text = run(&rig, steps).await;
        assert_eq!(text.contains("aGk="), expect, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_runs_steps_within_the_policy() {
    let rig = rig_with(&[("policies/a.yaml", "default: enabled\neffect: read\n")]).await;
    let agent = Caller::local();
    let delete = json!({"steps": [{"id": "a", "tool": "x_a_delete"}]});
    let text = run_as(&rig, &agent, delete).await;
    assert!(text.starts_with("E: nothing ran: steps.0.tool: "), "{text}");
    let core =
        json!({"steps": [{"id": "a", "tool": "core_mcpserver_delete", "args": {"name": "a"}}]});
    let text = run_as(&rig, &agent, core).await;
    assert!(text.starts_with("E: "), "{text}");
    assert_eq!(rig.fake.called().len(), 0);
    let text = run_as(&rig, &agent, two()).await;
    assert!(text.contains("Ada"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_unsaved_run_goes_on_after_a_restart() {
    let mut rig = rig().await;
    rig.fake.says("get", [Said::Nothing]);
    let mut steps = two();
    steps["steps"][1]["idempotent"] = json!(true);
    let agent = Caller::local();
    {
        let mut running = std::pin::pin!(run_as(&rig, &agent, steps));
        let mut called = Vec::new();
        while called.len() < 2 {
            called.extend(rig.fake.called());
            assert!(timeout(Duration::from_millis(1), &mut running).await.is_err());
        }
        rig.engine().interrupter()();
    }
    rig.fake.says("get", [Said::Text(r#"{"name": "Ada"}"#)]);
    rig.again().await;
    rig.until_is("a", "connected").await;
    let list = rig.ask("core_workflow_execution_list", json!({})).await;
    let id = list["executions"][0]["execution_id"].as_str().unwrap();
    recorded(&rig, id, "completed").await;
    // The first step is not repeated.
    assert_eq!(rig.fake.called(), [r#"get {"id":"2"}"#]);
}

#[tokio::test(start_paused = true)]
async fn a_saved_workflow_may_have_the_name_of_unsaved_ones() {
    let rig = rig_with(&[("workflows/run_steps.yaml", "steps: [{id: a, tool: x_a_list}]\n")]).await;
    let text = run(&rig, json!({"steps": [{"id": "a", "tool": "workflow_run_steps"}]})).await;
    assert!(!text.starts_with("E:"), "{text}");
    assert_eq!(rig.fake.called(), ["list {}"]);
}
