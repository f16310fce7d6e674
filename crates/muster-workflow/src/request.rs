//! Parses a workflow from the arguments of a core tool. The error texts are a contract, and report one
//! problem at a time.

use std::collections::BTreeSet;

use muster_core::name::check_resource_name;
use serde_json::Value as Json;
use thiserror::Error;

use super::{JsonObject, WorkflowSpec, definition};

/// Why arguments are not a workflow.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidWorkflow {
    /// A part is missing or malformed.
    #[error("{0}")]
    Malformed(String),
    /// It is well-formed, but invalid.
    #[error("{0}")]
    Inconsistent(String),
}

impl InvalidWorkflow {
    /// The problem, without the introduction.
    pub fn plain(&self) -> &str {
        let (Self::Malformed(text) | Self::Inconsistent(text)) = self;
        text.strip_prefix("validation failed: ").unwrap_or(text)
    }
}

/// Parses the name and the spec.
pub fn read(request: &Json) -> Result<(String, WorkflowSpec), InvalidWorkflow> {
    let form = |text: &str| InvalidWorkflow::Malformed(text.to_owned());
    let name = request.get("name").and_then(Json::as_str).unwrap_or_default();
    if name.is_empty() {
        return Err(form("name argument is required"));
    }
    check_resource_name(name)
        .map_err(|invalid| InvalidWorkflow::Inconsistent(invalid.to_string()))?;
    if let Some(Json::Object(args)) = request.get("args") {
        for (name, arg) in args {
            argument(name, arg)
                .map_err(|text| form(&format!("validation failed: args: {text}")))?;
        }
    }
    let Some(steps) = request.get("steps").and_then(Json::as_array) else {
        return Err(form("steps argument is required"));
    };
    for (index, item) in steps.iter().enumerate() {
        step(item).map_err(|text| {
            let text = format!("validation failed: steps: step {index}{text}");
            InvalidWorkflow::Malformed(text)
        })?;
    }
    if steps.is_empty() {
        return Err(InvalidWorkflow::Inconsistent(
            "workflow must have at least one step".to_owned(),
        ));
    }
    let mut spec = request.clone();
    if let Json::Object(spec) = &mut spec {
        spec.remove("name");
        spec.remove("version");
    }
    let spec = definition::read(&spec).map_err(|issues| {
        let texts =
            issues.iter().map(|issue| format!("{}: {}", issue.path.join("."), issue.message));
        InvalidWorkflow::Inconsistent(texts.collect::<Vec<_>>().join("; "))
    })?;
    let mut ids = BTreeSet::new();
    for step in
        spec.spec.steps.iter().chain(&spec.spec.on_failure).flat_map(super::WorkflowStep::all)
    {
        if !ids.insert(&step.id) {
            return Err(InvalidWorkflow::Inconsistent(format!(
                "duplicate step ID '{}' found",
                step.id
            )));
        }
    }
    let spec = spec.spec.clone();
    Ok((name.to_owned(), spec))
}

fn argument(name: &str, arg: &Json) -> Result<(), String> {
    let Json::Object(arg) = arg else {
        return Err(format!("argument {name} is not a valid object"));
    };
    match arg.get("type").and_then(Json::as_str) {
        Some(kind) if !kind.is_empty() => Ok(()),
        Some(_) | None => Err(format!("argument {name}: type is required")),
    }
}

/// The text starts with what follows the number of the step.
fn step(step: &Json) -> Result<(), String> {
    let Json::Object(step) = step else { return Err(" is not a valid object".to_owned()) };
    let is_group = ["forEach", "for_each", "parallel"].iter().any(|name| step.contains_key(*name));
    let needed: &[&str] = if is_group { &["id"] } else { &["id", "tool"] };
    for name in needed {
        match step.get(*name).and_then(Json::as_str) {
            None => return Err(format!(": {name} is required")),
            Some("") => return Err(format!(": {name} cannot be empty")),
            Some(_) => (),
        }
    }
    match step.get("condition") {
        Some(Json::Object(of)) => {
            condition(of).map_err(|text| format!(": invalid condition: {text}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn condition(condition: &JsonObject) -> Result<(), String> {
    let text = |names: [&str; 2]| {
        let mut found = names.iter().filter_map(|name| condition.get(*name)?.as_str());
        found.any(|text| !text.is_empty())
    };
    if text(["template", "template"]) {
        return Ok(());
    }
    if !text(["tool", "tool"]) && !text(["from_step", "fromStep"]) {
        return Err("either tool or from_step is required".to_owned());
    }
    let side = |names: [&str; 2]| names.iter().find_map(|name| condition.get(*name)?.as_object());
    let (expect, not) = (side(["expect", "expect"]), side(["expect_not", "expectNot"]));
    if expect.is_none() && not.is_none() {
        return Err("either expect or expect_not is required".to_owned());
    }
    for (name, side) in [("expect", expect), ("expect_not", not)] {
        let Some(side) = side else { continue };
        let given = ["success", "json_path", "jsonPath"];
        if !given.iter().any(|name| side.contains_key(*name)) {
            return Err(format!(
                "invalid {name}: either success field or json_path must be provided"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "tables read better without borrows")]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{InvalidWorkflow, read};

    #[track_caller]
    fn check(request: Json, expect: &str) {
        let said = match read(&request) {
            Ok((name, spec)) => format!("{name}: {}", spec.steps.len()),
            Err(InvalidWorkflow::Malformed(text)) => format!("form: {text}"),
            Err(InvalidWorkflow::Inconsistent(text)) => format!("sense: {text}"),
        };
        assert_eq!(said, expect);
    }

    #[track_caller]
    fn steps(steps: Json, expect: &str) {
        let expect = format!("form: validation failed: steps: {expect}");
        check(json!({"name": "w", "steps": steps}), &expect);
    }

    #[test]
    fn error_texts() {
        check(json!({"steps": []}), "form: name argument is required");
        check(json!({"name": "w"}), "form: steps argument is required");
        check(json!({"name": "w", "steps": []}), "sense: workflow must have at least one step");
        check(
            json!({"name": "w", "args": {"a": 5}, "steps": []}),
            "form: validation failed: args: argument a is not a valid object",
        );
        check(
            json!({"name": "w", "args": {"a": {}}, "steps": []}),
            "form: validation failed: args: argument a: type is required",
        );
        steps(json!([1]), "step 0 is not a valid object");
        steps(json!([{"tool": "t"}]), "step 0: id is required");
        steps(json!([{"id": "", "tool": "t"}]), "step 0: id cannot be empty");
        steps(json!([{"id": "a", "tool": "t"}, {"id": "b"}]), "step 1: tool is required");
        steps(json!([{"id": "a", "tool": ""}]), "step 0: tool cannot be empty");
        let when = |condition: Json| json!([{"id": "a", "tool": "t", "condition": condition}]);
        let invalid = |text: &str| format!("step 0: invalid condition: {text}");
        steps(when(json!({})), &invalid("either tool or from_step is required"));
        steps(when(json!({"tool": "x"})), &invalid("either expect or expect_not is required"));
        steps(
            when(json!({"from_step": "x", "expect_not": {}})),
            &invalid("invalid expect_not: either success field or json_path must be provided"),
        );
        check(
            json!({"name": "w", "steps": [{"id": "a", "tool": "t"}, {"id": "a", "tool": "t"}]}),
            "sense: duplicate step ID 'a' found",
        );
        check(
            json!({"name": "../w", "steps": [{"id": "a", "tool": "t"}]}),
            "sense: invalid name '../w': it must not begin with a dot",
        );
        check(
            json!({"name": "w", "steps": [{"id": "a", "parallel": [{"id": "b", "parallel": []}]}]}),
            "sense: steps.0.parallel.0: a step inside another one can only call a tool",
        );
    }

    #[test]
    fn valid_requests() {
        check(json!({"name": "w", "version": "1", "steps": [{"id": "a", "tool": "t"}]}), "w: 1");
        let each = json!({"items": "{{ .input.l }}", "steps": [{"id": "b", "tool": "t"}]});
        check(json!({"name": "w", "steps": [{"id": "a", "forEach": each}]}), "w: 1");
        let when = json!({"template": "{{ true }}"});
        check(json!({"name": "w", "steps": [{"id": "a", "tool": "t", "condition": when}]}), "w: 1");
    }
}
