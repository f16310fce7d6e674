//! Workflows and their executions.

use muster_api::{
    execution::{ExecutionList, ExecutionReply, RunRecord, RunSummary, StepReply, StepStatus},
    workflow::{WorkflowArgInfo, WorkflowInfo, WorkflowList, WorkflowStepInfo, WorkflowSummary},
};
use muster_core::text::shell_quoted;
use serde_json::{Map, Value};

use super::{
    ReplyView, section,
    service::{described, details, unavailable},
    time, title, with_notes,
};
use crate::output::{
    format::OutputStyle,
    properties,
    table::{self, Column, Table},
};

const COLUMNS: &[Column<WorkflowSummary>] = &[
    Column::new("name", |workflow| workflow.name.clone()),
    Column::cut("description", 60, |workflow| workflow.description.clone()),
    Column::new("available", |workflow| {
        if workflow.available { "Available" } else { "Unavailable" }.to_owned()
    }),
];

impl ReplyView for WorkflowList {
    fn show(&self, style: OutputStyle) -> String {
        match self.workflows.as_slice() {
            [] => "No workflows found".to_owned(),
            workflows => {
                let lacking = workflows.iter().find(|workflow| !workflow.available);
                let why = lacking.map(|workflow| {
                    let name = shell_quoted(&workflow.name);
                    format!("Why one is unavailable: muster check workflow {name}")
                });
                with_notes(table::list(COLUMNS, workflows, style), why, style)
            }
        }
    }
}

impl ReplyView for WorkflowInfo {
    fn show(&self, style: OutputStyle) -> String {
        let workflow = &self.workflow;
        let available = if workflow.available { "Available" } else { "Unavailable" };
        let mut facts = vec![
            ("name".to_owned(), workflow.name.clone()),
            ("description".to_owned(), workflow.description.clone()),
            ("available".to_owned(), available.to_owned()),
        ];
        if !self.missing_tools.is_empty() {
            facts.push(("missing tools".to_owned(), self.missing_tools.join("\n")));
        }
        facts.extend(unavailable(&self.unavailable));
        if let Some(output) = &workflow.output {
            facts.push(("output".to_owned(), details(output)));
        }
        let mut page = vec![properties::of_rows(["property", "value"], facts, style)];
        let mut args = Table::new(["argument", "type", "description", "required"], style);
        for (name, WorkflowArgInfo { r#type, required, default, description }) in &workflow.args {
            let about = described(description, default.as_ref());
            let required = if *required { "Yes" } else { "No" };
            args.row([name.clone(), r#type.clone(), about, required.to_owned()]);
        }
        section(&mut page, "Input Args", &args);
        section(&mut page, "Workflow Steps", &steps(&workflow.steps, style));
        section(&mut page, "Steps After a Failure", &steps(&workflow.on_failure, style));
        page.join("\n\n")
    }
}

/// The table of steps, with everything in their definitions.
fn steps(steps: &[WorkflowStepInfo], style: OutputStyle) -> Table {
    let mut table = Table::new(["step", "id", "tool", "description", "details"], style);
    for (number, step) in (1..).zip(steps) {
        let WorkflowStepInfo { id, tool, description, .. } = step.clone();
        let mut rest = serde_json::to_value(step).unwrap_or_default();
        if let Some(members) = rest.as_object_mut() {
            members.retain(|key, _| !["id", "tool", "description"].contains(&key.as_str()));
        }
        table.row([number.to_string(), id, tool, description, details(&rest)]);
    }
    table
}

const EXECUTIONS: &[Column<RunSummary>] = &[
    Column::new("workflow_name", |run| run.workflow_name.clone()),
    Column::new("status", |run| run.status.as_str().to_owned()),
    Column::new("started_at", |run| time(&run.started_at)),
    Column::new("duration_ms", |run| duration(run.duration_ms)),
    Column::new("completed_at", |run| run.completed_at.as_deref().map(time).unwrap_or_default()),
    Column::new("execution_id", |run| run.execution_id.clone()),
    Column::wide("steps", |run| run.step_count.to_string()),
    Column::wide("error", |run| run.error.clone().unwrap_or_default()),
];

impl ReplyView for ExecutionList {
    fn show(&self, style: OutputStyle) -> String {
        if self.executions.is_empty() {
            return "No executions found".to_owned();
        }
        let table = table::list(EXECUTIONS, &self.executions, style);
        let (shown, total) = (self.executions.len(), self.total);
        let more = self.has_more.then(|| format!("The newest {shown} of {total} executions"));
        with_notes(table, more, style)
    }
}

impl ReplyView for RunRecord {
    fn show(&self, style: OutputStyle) -> String {
        let facts = [
            ("execution_id", self.execution_id.clone()),
            ("workflow_name", self.workflow_name.clone()),
            ("status", self.status.as_str().to_owned()),
            ("started_at", time(&self.started_at)),
            ("completed_at", self.completed_at.as_deref().map(time).unwrap_or_default()),
            ("duration", duration(self.duration_ms)),
            ("error", self.error.clone().unwrap_or_default()),
        ];
        let mut page = vec![heading(self.status.as_str(), facts, style)];
        section(&mut page, "Input Parameters", &parameters(&self.input, style));
        let mut steps = Table::new(["step", "status", "tool", "duration", "details"], style);
        for step in &self.steps {
            steps.row([
                step.step_id.clone(),
                step.status.as_str().to_owned(),
                step.tool.clone(),
                duration(step.duration_ms),
                outcome(step.error.as_ref(), &step.result),
            ]);
        }
        section(&mut page, "Step Results", &steps);
        section(&mut page, "Result", &result(&self.result, style));
        page.join("\n\n")
    }
}

impl ReplyView for ExecutionReply {
    fn show(&self, style: OutputStyle) -> String {
        let report = match self {
            Self::Report(report) => report,
            Self::Output(members) => return properties::table(members, &["execution_id"], style),
        };
        let status = report.status.as_str();
        let facts = [
            ("execution_id", report.execution_id.clone()),
            ("workflow", report.workflow.clone()),
            ("status", status.to_owned()),
            ("error", report.error.clone().unwrap_or_default()),
        ];
        let mut page = vec![heading(status, facts, style)];
        section(&mut page, "Input Parameters", &parameters(&report.input, style));
        let steps = report.steps.as_deref().unwrap_or_default();
        section(&mut page, "Step Results", &step_results(steps, style));
        section(&mut page, "Result", &members(&report.output, ["property", "value"], style));
        page.join("\n\n")
    }
}

fn heading<const N: usize>(status: &str, facts: [(&str, String); N], style: OutputStyle) -> String {
    let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
    let facts = facts.map(|(name, value)| (name.to_owned(), value));
    let facts = properties::of_rows(["property", "value"], facts, style);
    format!("Workflow Execution {}\n\n{facts}", title(status))
}

fn step_results(steps: &[StepReply], style: OutputStyle) -> Table {
    let mut table = Table::new(["step", "status", "details"], style);
    for step in steps {
        let outcome = outcome(step.error.as_ref(), &step.result);
        let status = step.status.map(StepStatus::as_str).unwrap_or_default();
        table.row([step.id.clone(), status.to_owned(), outcome]);
    }
    table
}

/// The error of a step, or else its result.
fn outcome(error: Option<&String>, result: &Value) -> String {
    error.cloned().unwrap_or_else(|| properties::text(result))
}

fn parameters(input: &Map<String, Value>, style: OutputStyle) -> Table {
    let mut sorted: Vec<(&String, &Value)> = input.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let mut table = Table::new(["parameter", "value"], style);
    sorted.into_iter().for_each(|(name, value)| table.row([name.clone(), properties::text(value)]));
    table
}

/// The table of a workflow's result, without the report of its execution.
fn result(result: &Value, style: OutputStyle) -> Table {
    let output = match serde_json::from_value(result.clone()) {
        Ok(ExecutionReply::Report(report)) => report.output,
        Ok(ExecutionReply::Output(members)) => members,
        Err(_) => Map::new(),
    };
    members(&output, ["property", "value"], style)
}

fn members(members: &Map<String, Value>, headings: [&str; 2], style: OutputStyle) -> Table {
    let mut table = Table::new(headings, style);
    properties::rows(members).into_iter().for_each(|(name, value)| table.row([name, value]));
    table
}

fn duration(milliseconds: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one digit after the point is shown")]
    let seconds = milliseconds as f64 / 1000.0;
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{seconds:.1}s"),
        60_000..3_600_000 => format!("{:.1}m", seconds / 60.0),
        _ => format!("{:.1}h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::{super::tests::shown, duration};
    use crate::output::format::OutputFormat;

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(tool: &str, reply: Value, expect: Expect) {
        expect.assert_eq(&shown(tool, &reply, OutputFormat::Table));
    }

    #[test]
    fn durations() {
        let shown = [12, 1500, 90_000, 5_400_000].map(duration);
        assert_eq!(shown, ["12ms", "1.5s", "1.5m", "1.5h"]);
    }

    #[test]
    fn workflows() {
        check("core_workflow_list", json!({"workflows": []}), expect!["No workflows found"]);
        check(
            "core_workflow_list",
            json!({"workflows": [{"name": "deploy", "description": "Ship it", "available": true}]}),
            expect![[r"
                NAME     DESCRIPTION   AVAILABLE
                deploy   Ship it       Available"]],
        );
        check(
            "core_workflow_get",
            json!({"yaml": "", "workflow": {"name": "deploy", "description": "Ship it",
                "args": {"env": {"type": "string", "required": true, "default": "prod", "description": "Where"}},
                "steps": [
                    {"id": "build", "tool": "x_ci_build", "args": {"env": "{{ .input.env }}"}, "store": true},
                    {"id": "b", "tool": "core_x", "description": "Look"}]}}),
            expect![[r#"
                PROPERTY      VALUE
                name          deploy
                description   Ship it
                available     Unavailable

                Input Args:
                ARGUMENT   TYPE     DESCRIPTION             REQUIRED
                env        string   Where (default: prod)   Yes

                Workflow Steps:
                STEP   ID      TOOL         DESCRIPTION   DETAILS
                1      build   x_ci_build                 args.env: {{ .input.env }}
                                                          store: true
                2      b       core_x       Look"#]],
        );
    }

    #[test]
    fn executions() {
        check(
            "core_workflow_execution_list",
            json!({"total": 1, "limit": 50, "offset": 0, "has_more": false, "executions": [
                {"execution_id": "1-2", "workflow_name": "deploy", "status": "failed",
                 "started_at": "2026-01-01T00:00:00Z", "completed_at": "2026-01-01T00:00:01Z",
                 "duration_ms": 1000, "step_count": 1, "error": "no"}]}),
            expect![[r"
                WORKFLOW_NAME   STATUS   STARTED_AT            DURATION_MS   COMPLETED_AT          EXECUTION_ID
                deploy          failed   2026-01-01 00:00:00   1.0s          2026-01-01 00:00:01   1-2"]],
        );
        check(
            "core_workflow_execution_get",
            json!({"execution_id": "8", "workflow_name": "deploy", "status": "failed", "input": {},
                   "started_at": "2026-01-01T00:00:00Z", "duration_ms": 5,
                   "error": "step b: no", "result": {"execution_id": "", "status": "failed", "workflow": "deploy",
                   "steps": null, "template_vars": [], "greeting": "hello"}, "steps": [
                {"step_id": "a", "tool": "t", "status": "completed", "started_at": "", "result": {"said": "x"}},
                {"step_id": "b", "tool": "t", "status": "failed", "started_at": "", "error": "no\nway"}]}),
            expect![[r#"
                Workflow Execution Failed

                PROPERTY        VALUE
                execution_id    8
                workflow_name   deploy
                status          failed
                started_at      2026-01-01 00:00:00
                duration        5ms
                error           step b: no

                Step Results:
                STEP   STATUS      TOOL   DURATION   DETAILS
                a      completed   t      0ms        {"said":"x"}
                b      failed      t      0ms        no
                                                     way

                Result:
                PROPERTY   VALUE
                greeting   hello"#]],
        );
    }

    #[test]
    fn replies_of_workflows() {
        check(
            "workflow_deploy",
            json!({"execution_id": "7", "workflow": "deploy", "status": "completed",
                   "input": {"b": 1, "a": "x"}, "steps": [{"id": "s", "status": "skipped"}], "template_vars": ["a"],
                   "said": {"n": 1}}),
            expect![[r"
                Workflow Execution Completed

                PROPERTY       VALUE
                execution_id   7
                workflow       deploy
                status         completed

                Input Parameters:
                PARAMETER   VALUE
                a           x
                b           1

                Step Results:
                STEP   STATUS    DETAILS
                s      skipped

                Result:
                PROPERTY   VALUE
                said.n     1"]],
        );
        check(
            "workflow_deploy",
            json!({"execution_id": "7", "total": 3}),
            expect![[r"
                PROPERTY       VALUE
                execution_id   7
                total          3"]],
        );
        // An output may have members with the names of a report's.
        check(
            "workflow_deploy",
            json!({"status": "green", "workflow": 2, "execution_id": "7", "steps": ["a"]}),
            expect![[r"
                PROPERTY       VALUE
                execution_id   7
                status         green
                workflow       2
                steps          a"]],
        );
    }
}
