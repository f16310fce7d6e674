//! The workflows: their steps as a graph, their runs as a timeline.

use jiff::Timestamp;
use muster_api::{
    execution::{ExecutionList, RunRecord, RunState, StepRecord, StepState, TOOL_PREFIX},
    workflow::{WorkflowInfo, WorkflowList, WorkflowStepInfo},
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    PageContext, PageReply,
    chart::{Node, Span, graph, timeline},
    gateway::CoreError,
    html::{Element, el},
    page::{Page, Section, crumb, form, heading},
    request::link,
    schema_form::SchemaForm,
    widgets::{
        cell, cut, empty, live, milliseconds, notice, notice_of, number, state, table, text, time,
    },
};

/// The maximum length of a value on a page, in bytes.
const MAX_JSON: usize = 32 * 1024;
/// The maximum number of runs on a page.
const RUNS: usize = 25;

pub(super) async fn list(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let list: WorkflowList = cx.gateway.reply("core_workflow_list", &json!({})).await?;
    let page = Page::new(Section::Workflows, "Workflows", &list).command("muster list workflows");
    let rows = list.workflows.iter().map(|workflow| {
        vec![
            cell(el("a").attr("href", link(&["workflows", &workflow.name])).put(&workflow.name)),
            cell(state(if workflow.available { "available" } else { "unavailable" })),
            cell(&workflow.description),
        ]
    });
    let workflows = match list.workflows.is_empty() {
        true => empty(
            "There are no workflows. Create one here, create one from recorded calls on the Calls page, or add a file to workflows/.",
        ),
        false => table(&[text("Name"), text("State"), text("About")], rows.collect()),
    };
    let lead = "Saved sequences of tool calls. Agents call one like any other tool.";
    let new = el("a").class("button primary").attr("href", link(&["workflows", "-", "new"]));
    let page = page.put(heading("Workflows").put(new.put("New workflow")));
    Ok(page.put(el("p").class("lead").put(lead)).put(workflows).into())
}

/// A workflow and its newest runs.
#[derive(Serialize)]
struct WorkflowView<'a> {
    #[serde(flatten)]
    workflow: &'a WorkflowInfo,
    runs: &'a ExecutionList,
}

pub(super) async fn one(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    let info: WorkflowInfo = cx.gateway.reply("core_workflow_get", &json!({"name": name})).await?;
    let wanted = json!({"workflow_name": name, "limit": RUNS});
    let runs: ExecutionList = cx.gateway.reply("core_workflow_execution_list", &wanted).await?;
    let page = Page::new(Section::Workflows, name, &WorkflowView { workflow: &info, runs: &runs });
    let page = page.command(format!("muster get workflow {}", super::quoted(name)));
    let definition = &info.workflow;
    let is_available = if definition.available { "available" } else { "unavailable" };
    let page = page
        .put((crumb("Workflows", "workflows"), notice_of(cx.request)))
        .put(heading(name).put(state(is_available)))
        .put(el("p").class("lead").put(&definition.description));
    let nodes = rows(&definition.steps);
    let on_failure = (!definition.on_failure.is_empty()).then(|| {
        let nodes = rows(&definition.on_failure);
        el("div").put(el("h3").put("After a failure")).put(graph("Steps after a failure", &nodes))
    });
    let steps = el("div")
        .put(el("h2").put("Steps"))
        .put(graph("Steps of the workflow", &nodes))
        .put(on_failure);
    let tool = format!("{TOOL_PREFIX}{name}");
    let described = cx
        .gateway
        .meta("describe_tool", &json!({"name": tool, "max_tokens": 50_000}))
        .await?
        .value();
    let schema = described.get("inputSchema").cloned().unwrap_or_default();
    let fields = el("div").class("fields").put(SchemaForm::new(&schema).fields(cx.request));
    let run = form(&link(&["tools", &tool]), cx.form_token);
    let run = run.put(fields).put(el("button").class("primary").put("Run the workflow"));
    let run = el("div").put(el("h2").put("Run it")).put(run);
    let yaml = el("pre").attr("tabindex", "0").attr("aria-label", "Definition").put(&info.yaml);
    let yaml = el("details").put(el("summary").put("Definition as YAML")).put(yaml);
    let page = page.put(el("div").class("split").put((steps, run)));
    let runs = live("runs").put(el("h2").put("Runs")).put(run_table(&runs));
    Ok(page.put(runs).put(el("h2").put("Definition")).put(yaml).into())
}

fn run_table(runs: &ExecutionList) -> Element {
    if runs.executions.is_empty() {
        return empty("It has not run yet.");
    }
    let columns =
        [text("Started"), text("State"), number("Steps"), number("Duration"), text("Error")];
    let rows = runs.executions.iter().map(|run| {
        let path = link(&["runs", &run.execution_id]);
        vec![
            cell(el("a").attr("href", path).put(time(&run.started_at))),
            cell(state(word(run.status))),
            cell(run.step_count.to_string()),
            cell(duration(run.duration_ms)),
            cell(run.error.as_ref()),
        ]
    });
    table(&columns, rows.collect())
}

const fn word(state: RunState) -> &'static str {
    match state {
        RunState::Inprogress => "running now",
        other => other.as_str(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn duration(ms: u64) -> String {
    milliseconds(ms as f64)
}

/// The steps as rows of a graph. Steps in one row run in parallel.
fn rows(steps: &[WorkflowStepInfo]) -> Vec<Vec<Node>> {
    let node = |step: &WorkflowStepInfo| {
        let about = match &step.for_each {
            Some(each) => {
                let inner: Vec<&str> = each.steps.iter().map(|step| step.id.as_str()).collect();
                format!("for each {}: {}", each.r#as, inner.join(", "))
            }
            None => step.tool.clone(),
        };
        let mark = if step.condition.is_some() { "if " } else { "" };
        Node { name: format!("{mark}{}", step.id), about }
    };
    let row = |step: &WorkflowStepInfo| match step.parallel.as_slice() {
        [] => vec![node(step)],
        parallel => parallel.iter().map(node).collect(),
    };
    steps.iter().map(row).collect()
}

pub(super) async fn run(cx: PageContext<'_>, id: &str) -> Result<PageReply, CoreError> {
    let record: RunRecord =
        cx.gateway.reply("core_workflow_execution_get", &json!({"execution_id": id})).await?;
    let page = Page::new(Section::Workflows, &record.workflow_name, &record);
    let page = page.command(format!("muster get workflow-execution {}", super::quoted(id)));
    let back = el("a")
        .attr("href", link(&["workflows", &record.workflow_name]))
        .put(&record.workflow_name);
    let top = heading(&format!("Run of {}", record.workflow_name)).put(state(word(record.status)));
    let about = (time(&record.started_at), ", ", duration(record.duration_ms));
    let live = live("run")
        .put(top)
        .put(el("p").class("lead").put(about))
        .put(record.error.as_ref().map(|error| notice("bad", error)))
        .put(
            el("div").class("split").put((
                el("div").put(el("h2").put("Timeline")).put(
                    el("div").class("card").put(timeline("Steps of the run", &spans(&record))),
                ),
                el("div")
                    .class("steps")
                    .put(el("h2").put("Steps"))
                    .put(record.steps.iter().map(step).collect::<Vec<_>>()),
            )),
        );
    let page = page.put(crumb("Workflows", "workflows").put(" / ").put(back)).put(live);
    let arguments = Value::Object(record.input.clone());
    let page = page.put(el("h2").put("Arguments")).put(json_block("Arguments", &arguments));
    Ok(page.put(el("h2").put("Result")).put(json_block("Result", &record.result)).into())
}

/// The steps as spans of a timeline, in milliseconds since the start of the run.
fn spans(record: &RunRecord) -> Vec<Span> {
    let moment = |text: &str| text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond);
    let start = moment(&record.started_at).unwrap_or_default();
    let span = |step: &StepRecord| Span {
        name: step.step_id.clone(),
        from: u64::try_from(moment(&step.started_at).unwrap_or(start) - start).unwrap_or_default(),
        length: step.duration_ms,
        is_bad: step.status == StepState::Failed,
        label: duration(step.duration_ms),
    };
    record.steps.iter().map(span).collect()
}

fn step(step: &StepRecord) -> Element {
    let title = el("summary")
        .put(el("b").put(&step.step_id))
        .put(state(step.status.as_str()))
        .put(el("span").class("muted small").put(duration(step.duration_ms)));
    let tool = el("a").class("mono").attr("href", link(&["tools", &step.tool])).put(&step.tool);
    let tool = el("p").put(tool);
    el("details")
        .put(title)
        .put(tool)
        .put(step.error.as_ref().map(|error| notice("bad", error)))
        .put(json_block("Arguments of the step", &Value::Object(step.input.clone())))
        .put(json_block("Result of the step", &step.result))
}

fn json_block(label: &str, value: &Value) -> Element {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    el("pre").attr("tabindex", "0").attr("aria-label", label).put(cut(&text, MAX_JSON))
}
