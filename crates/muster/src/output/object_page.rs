//! One object, or an object around a list, for people.

use serde_json::{Map, Value};

use super::{
    cell::{capitalised, cell, cut, plain, without_prefix},
    format::OutputStyle,
    grid::Grid,
    object_table,
};

/// The members of an answer that hold its list.
const LISTS: [&str; 11] = [
    "services",
    "serviceClasses",
    "mcpServers",
    "workflows",
    "executions",
    "capabilities",
    "items",
    "results",
    "tools",
    "resources",
    "prompts",
];

/// Any JSON for people.
pub fn show(value: &Value, style: OutputStyle) -> String {
    match value {
        Value::Object(object) => show_object(object, style),
        Value::Array(items) => object_table::table(items, style),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => plain(value),
    }
}

fn show_object(object: &Map<String, Value>, style: OutputStyle) -> String {
    let found = LISTS.iter().find_map(|key| match object.get(*key) {
        Some(value @ (Value::Array(_) | Value::Null)) => Some((*key, value)),
        Some(_) | None => None,
    });
    match found {
        Some((key, Value::Array(items))) => {
            format!("{}{}", object_table::table(items, style), footer(object, key, items))
        }
        Some((key, _)) => format!("No {} found", readable(key)),
        None => detail(object, style),
    }
}

fn readable(key: &str) -> &str {
    match key {
        "serviceClasses" => "service classes",
        "mcpServers" => "MCP servers",
        key => key,
    }
}

/// What has to be said below a list.
fn footer(object: &Map<String, Value>, key: &str, items: &[Value]) -> String {
    let mut footer = String::new();
    if let Some(hint) = object.get("hint").and_then(Value::as_str).filter(|hint| !hint.is_empty()) {
        footer.push_str("\n\n");
        footer.push_str(hint);
    }
    let troubled: Vec<String> = items.iter().filter_map(trouble).collect();
    if key == "mcpServers" && !troubled.is_empty() {
        footer.push_str("\n\nServers requiring attention:\n");
        footer.push_str(&troubled.join("\n"));
    }
    footer
}

fn trouble(server: &Value) -> Option<String> {
    let text = |key: &str| server.get(key).and_then(Value::as_str);
    let message = text("statusMessage").filter(|message| !message.is_empty())?;
    let state = text("state")?.to_lowercase().replace(' ', "_");
    let needs = matches!(state.as_str(), "auth_required" | "unreachable" | "failed");
    // The gateway gives the reason only to those who want to know.
    let why = text("error").filter(|why| !why.is_empty());
    let why = why.map(|why| format!(": {}", why.lines().collect::<Vec<_>>().join("\n    ")));
    let name = text("name").unwrap_or_default();
    needs.then(|| format!("  {name}: {message}{}", why.unwrap_or_default()))
}

fn detail(object: &Map<String, Value>, style: OutputStyle) -> String {
    let has = |key: &str| object.contains_key(key);
    if has("execution_id") && has("status") && (has("results") || has("input")) {
        return execution(object, style);
    }
    if has("workflow") || (has("name") && has("steps")) {
        let inner = object.get("workflow").and_then(Value::as_object);
        return workflow(inner.unwrap_or(object), style);
    }
    let mut grid = Grid::new(&["property", "value"]).headed(style.headings);
    let is_remote =
        matches!(object.get("type").and_then(Value::as_str), Some("streamable-http" | "sse"));
    let mut keys: Vec<&String> = object.keys().collect();
    keys.sort();
    for key in keys {
        let shown = if is_remote && key == "autoStart" { "autoConnect" } else { key };
        grid.row([shown.to_owned(), cell(key, object.get(key), object)]);
    }
    grid.text()
}

/// A part of a page under its own heading; nothing if it has no rows.
fn part(
    page: &mut String,
    heading: &str,
    mut rows: Vec<Vec<String>>,
    columns: &[&str],
    style: OutputStyle,
) {
    if rows.is_empty() {
        return;
    }
    let mut grid = Grid::new(columns).headed(style.headings);
    rows.drain(..).for_each(|row| grid.row(row));
    page.push_str("\n\n");
    page.push_str(heading);
    page.push('\n');
    page.push_str(&grid.text());
}

fn properties(object: &Map<String, Value>, keys: &[&str], style: OutputStyle) -> String {
    let mut grid = Grid::new(&["property", "value"]).headed(style.headings);
    for key in keys.iter().filter(|key| object.contains_key(**key)) {
        let value = object.get(*key).map(plain).unwrap_or_default();
        grid.row([(*key).to_owned(), value]);
    }
    grid.text()
}

/// The most bytes of what a step answered that are shown.
const LONGEST_DETAILS: usize = 100;

fn execution(object: &Map<String, Value>, style: OutputStyle) -> String {
    let keys = ["execution_id", "workflow", "workflow_name", "status", "error"];
    let facts = properties(object, &keys, style);
    let status = object.get("status").and_then(Value::as_str).unwrap_or_default();
    let mut page = format!("Workflow Execution {}\n\n{facts}", capitalised(status));
    let pairs = |key: &str| {
        let members = object.get(key).and_then(Value::as_object);
        let mut members: Vec<(String, Value)> =
            members.cloned().unwrap_or_default().into_iter().collect();
        members.sort_by(|(one, _), (other, _)| one.cmp(other));
        members
    };
    let input: Vec<Vec<String>> =
        pairs("input").into_iter().map(|(name, value)| vec![name, plain(&value)]).collect();
    part(&mut page, "Input Parameters:", input, &["parameter", "value"], style);
    let results = pairs("results").into_iter().map(|(step, result)| {
        let status = result.get("status").map_or_else(|| "completed".to_owned(), plain);
        vec![step, status, cell("details", Some(&result), &Map::new())]
    });
    let steps = object.get("steps").and_then(Value::as_array).into_iter().flatten();
    let rows = results.chain(steps.map(step_result)).collect();
    part(&mut page, "Step Results:", rows, &["step", "status", "details"], style);
    part(&mut page, "Result:", last_answer(object), &["property", "value"], style);
    page
}

/// What a run says of itself; all else in its answer is what its last step answered.
const OF_THE_RUN: [&str; 15] = [
    "execution_id",
    "workflow",
    "workflow_name",
    "owner",
    "status",
    "error",
    "started_at",
    "completed_at",
    "duration_ms",
    "input",
    "results",
    "steps",
    "on_failure",
    "template_vars",
    "result",
];

fn last_answer(object: &Map<String, Value>) -> Vec<Vec<String>> {
    // A record has the whole answer in one place.
    let answer = object.get("result").and_then(Value::as_object).unwrap_or(object);
    let said = answer.iter().filter(|(key, _)| !OF_THE_RUN.contains(&key.as_str()));
    said.map(|(key, value)| vec![key.clone(), on_a_line(value)]).collect()
}

fn on_a_line(value: &Value) -> String {
    let text = plain(value).split_whitespace().collect::<Vec<_>>().join(" ");
    cut(&text, LONGEST_DETAILS)
}

/// A step of a run: what it answered, or why it failed.
fn step_result(step: &Value) -> Vec<String> {
    let first = |keys: [&str; 2]| keys.into_iter().find_map(|key| step.get(key));
    vec![
        first(["id", "step_id"]).map(plain).unwrap_or_default(),
        step.get("status").map(plain).unwrap_or_default(),
        first(["error", "result"]).map(on_a_line).unwrap_or_default(),
    ]
}

fn workflow(object: &Map<String, Value>, style: OutputStyle) -> String {
    let mut page = properties(object, &["name", "description"], style);
    let args = object.get("args").and_then(Value::as_object).cloned().unwrap_or_default();
    let args = args.iter().map(|(name, about)| {
        let text = |key: &str| about.get(key).map(plain).unwrap_or_default();
        let default = about.get("default").filter(|default| !default.is_null());
        let default =
            default.map_or_else(String::new, |value| format!(" (default: {})", plain(value)));
        let required = about.get("required").and_then(Value::as_bool).unwrap_or(false);
        let required = if required { "Yes" } else { "No" }.to_owned();
        vec![
            name.clone(),
            text("type"),
            format!("{}{default}", cut(&text("description"), 40)).trim_start().to_owned(),
            required,
        ]
    });
    let columns = ["argument", "type", "description", "required"];
    part(&mut page, "Input Args:", args.collect(), &columns, style);
    let steps = object.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
    let steps = steps.iter().enumerate().map(|(index, step)| {
        let text = |key: &str| step.get(key).map(plain).unwrap_or_default();
        let about = match text("description") {
            about if about.is_empty() => format!("Execute {}", text("id")),
            about => about,
        };
        let tool = without_prefix(&text("tool")).to_owned();
        vec![(index + 1).to_string(), tool, cut(&about, 50)]
    });
    part(&mut page, "Workflow Steps:", steps.collect(), &["step", "tool", "description"], style);
    page
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::show;
    use crate::output::format::{OutputFormat, OutputStyle};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(value: Value, expect: Expect) {
        expect
            .assert_eq(&show(&value, OutputStyle { format: OutputFormat::Table, headings: true }));
    }

    #[test]
    fn lists_and_what_stands_below() {
        check(json!({"mcpServers": null, "total": 0}), expect!["No MCP servers found"]);
        check(json!({"workflows": [], "total": 0}), expect!["No items found"]);
        check(
            json!({"hint": "see --all", "mcpServers": [
                {"name": "a", "type": "sse", "state": "Failed", "statusMessage": "no route"},
                {"name": "b", "type": "sse", "state": "Failed", "statusMessage": "no route",
                    "error": "it ended:\nno such module"}]}),
            expect![[r"
                NAME   STATE    TYPE
                a      Failed   sse
                b      Failed   sse

                see --all

                Servers requiring attention:
                  a: no route
                  b: no route: it ended:
                    no such module"]],
        );
        check(json!("done"), expect!["done"]);
    }

    #[test]
    fn one_object() {
        check(
            json!({"name": "k", "type": "sse", "autoStart": true, "tools": 2}),
            expect![[r"
                PROPERTY      VALUE
                autoConnect   Yes
                name          k
                tools         2
                type          sse"]],
        );
    }

    #[test]
    fn a_workflow_and_a_run_of_it() {
        check(
            json!({"workflow": {"name": "deploy", "description": "Ship it",
                "args": {"env": {"type": "string", "required": true, "default": "prod", "description": "Where"}},
                "steps": [{"id": "build", "tool": "x_ci_build"}, {"id": "b", "tool": "core_x", "description": "Look"}]}}),
            expect![[r"
                PROPERTY      VALUE
                name          deploy
                description   Ship it

                Input Args:
                ARGUMENT   TYPE     DESCRIPTION             REQUIRED
                env        string   Where (default: prod)   Yes

                Workflow Steps:
                STEP   TOOL       DESCRIPTION
                1      ci_build   Execute build
                2      x          Look"]],
        );
        check(
            json!({"execution_id": "7", "workflow": "deploy", "status": "completed",
                   "input": {"b": 1, "a": "x"}, "steps": []}),
            expect![[r"
                Workflow Execution Completed

                PROPERTY       VALUE
                execution_id   7
                workflow       deploy
                status         completed

                Input Parameters:
                PARAMETER   VALUE
                a           x
                b           1"]],
        );
        check(
            json!({"execution_id": "8", "workflow_name": "deploy", "status": "failed", "input": {},
                   "error": "step b: no", "result": {"status": "failed", "greeting": "hello"}, "steps": [
                {"step_id": "a", "tool": "t", "status": "completed", "result": {"said": "x"}},
                {"id": "b", "status": "failed", "error": "no\nway"}, {"id": "c", "status": "skipped"}]}),
            expect![[r#"
                Workflow Execution Failed

                PROPERTY        VALUE
                execution_id    8
                workflow_name   deploy
                status          failed
                error           step b: no

                Step Results:
                STEP   STATUS      DETAILS
                a      completed   {"said":"x"}
                b      failed      no way
                c      skipped

                Result:
                PROPERTY   VALUE
                greeting   hello"#]],
        );
    }
}
