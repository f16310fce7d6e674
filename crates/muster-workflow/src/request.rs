//! Parses a workflow from the arguments of a core tool. The error texts are a contract, and report one
//! problem at a time.

use muster_core::name::check_resource_name;
use serde_json::Value as Json;
use thiserror::Error;

use super::{WorkflowSpec, definition};

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
        step(item)
            .map_err(|text| form(&format!("validation failed: steps: step {index}{text}")))?;
    }
    if let Some(after) = field(request, ["onFailure", "on_failure"]).and_then(Json::as_array) {
        sub_steps(after).map_err(|text| form(&format!("validation failed: onFailure: {text}")))?;
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
    match spec.spec.duplicate_ids().into_iter().next() {
        Some((_, message)) => Err(InvalidWorkflow::Inconsistent(message)),
        None => Ok((name.to_owned(), spec.spec)),
    }
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

/// A field by either of its spellings.
fn field<'j>(object: &'j Json, names: [&str; 2]) -> Option<&'j Json> {
    names.iter().find_map(|name| object.get(*name)).filter(|value| !value.is_null())
}

/// The text starts with what follows the number of the step.
fn step(step: &Json) -> Result<(), String> {
    if !step.is_object() {
        return Err(" is not a valid object".to_owned());
    }
    let id = id(step).map_err(|text| format!(": {text}"))?;
    action(step).map_err(|text| format!(" ({id}): {text}"))?;
    match step.get("condition").filter(|of| of.is_object()) {
        Some(of) => condition(of).map_err(|text| format!(": invalid condition: {text}")),
        None => Ok(()),
    }
}

fn id(step: &Json) -> Result<&str, String> {
    match step.get("id").and_then(Json::as_str) {
        None => Err("id is required".to_owned()),
        Some("") => Err("id cannot be empty".to_owned()),
        Some(id) => Ok(id),
    }
}

/// Exactly one of a tool, a loop and a group.
fn action(step: &Json) -> Result<(), String> {
    let for_each = field(step, ["forEach", "for_each"]);
    if let Some(for_each) = for_each {
        let steps =
            for_each.get("steps").and_then(Json::as_array).filter(|steps| !steps.is_empty());
        let checked = match (for_each.get("items"), steps) {
            (Some(Json::String(items)), _) if items.is_empty() => None,
            (Some(Json::String(_) | Json::Array(_)), None) => {
                Some(Err("steps is required and must contain at least one sub-step".to_owned()))
            }
            (Some(Json::String(_) | Json::Array(_)), Some(steps)) => Some(sub_steps(steps)),
            (Some(_) | None, _) => None,
        };
        let unusable = "items is required and must be a template string";
        checked
            .unwrap_or_else(|| Err(unusable.to_owned()))
            .map_err(|text| format!("invalid forEach: {text}"))?;
    }
    let parallel = match field(step, ["parallel", "parallel"]) {
        Some(Json::Array(steps)) => {
            sub_steps(steps).map_err(|text| format!("invalid parallel: {text}"))?;
            !steps.is_empty()
        }
        Some(_) => return Err("invalid parallel: it must be a list of sub-steps".to_owned()),
        None => false,
    };
    let tool = step.get("tool").and_then(Json::as_str);
    let problem = match (tool, for_each.is_some(), parallel) {
        (Some(""), ..) => "tool cannot be empty",
        (None, false, false) => "one of tool, forEach, or parallel is required",
        (Some(_), true, _) | (Some(_), _, true) => {
            "tool is mutually exclusive with forEach/parallel"
        }
        (None, true, true) => "forEach and parallel are mutually exclusive",
        (Some(_), false, false) | (None, true, false) | (None, false, true) => return Ok(()),
    };
    Err(problem.to_owned())
}

fn sub_steps(steps: &[Json]) -> Result<(), String> {
    for (index, step) in steps.iter().enumerate() {
        let id = id(step).map_err(|text| format!("sub-step {index}: {text}"))?;
        let at = |text: &str| format!("sub-step {index} ({id}): {text}");
        match step.get("tool").and_then(Json::as_str) {
            Some("") | None => return Err(at("tool is required")),
            Some(_) => (),
        }
        if let Some(of) = step.get("condition").filter(|of| of.is_object()) {
            condition(of).map_err(|text| at(&format!("invalid condition: {text}")))?;
        }
    }
    Ok(())
}

fn condition(condition: &Json) -> Result<(), String> {
    let given = |names: [&str; 2]| {
        field(condition, names).and_then(Json::as_str).is_some_and(|text| !text.is_empty())
    };
    let sources = [
        given(["template", "template"]),
        given(["tool", "tool"]),
        given(["fromStep", "from_step"]),
    ];
    match sources {
        [true, false, false] => return Ok(()),
        [true, ..] => {
            return Err("condition.template is mutually exclusive with tool/fromStep".to_owned());
        }
        [false, false, false] => {
            return Err("condition requires exactly one of template, tool, or fromStep".to_owned());
        }
        [false, true, true] => {
            return Err("condition: tool and fromStep are mutually exclusive (set exactly one of template, \
                        tool, or fromStep)"
                .to_owned());
        }
        [false, true, false] | [false, false, true] => (),
    }
    let side = |names: [&str; 2]| field(condition, names).filter(|side| side.is_object());
    let (expect, not) = (side(["expect", "expect"]), side(["expectNot", "expect_not"]));
    if expect.is_none() && not.is_none() {
        return Err("a tool or fromStep condition requires expect or expectNot".to_owned());
    }
    for (name, side) in [("expect", expect), ("expectNot", not)] {
        let Some(side) = side else { continue };
        let given = ["success", "json_path", "jsonPath"];
        if !given.iter().any(|name| side.get(*name).is_some()) {
            return Err(format!("invalid {name}: either success or jsonPath must be provided"));
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
        let one_of = "step 1 (b): one of tool, forEach, or parallel is required";
        steps(json!([{"id": "a", "tool": "t"}, {"id": "b"}]), one_of);
        steps(json!([{"id": "a", "tool": "t"}, {"id": "b", "parallel": []}]), one_of);
        steps(json!([{"id": "a", "tool": ""}]), "step 0 (a): tool cannot be empty");
        let group = |step: Json, text: &str| steps(json!([step]), &format!("step 0 (a): {text}"));
        let each = |each: Json, text: &str| {
            group(json!({"id": "a", "forEach": each}), &format!("invalid forEach: {text}"));
        };
        let no_items = "items is required and must be a template string";
        each(json!({"steps": [{"id": "b", "tool": "t"}]}), no_items);
        each(json!({"items": "", "steps": [{"id": "b", "tool": "t"}]}), no_items);
        each(json!({"items": 5, "steps": [{"id": "b", "tool": "t"}]}), no_items);
        let no_steps = "steps is required and must contain at least one sub-step";
        each(json!({"items": "{{ .input.l }}"}), no_steps);
        each(json!({"items": "{{ .input.l }}", "steps": []}), no_steps);
        each(json!({"items": "x", "steps": [{"tool": "t"}]}), "sub-step 0: id is required");
        group(
            json!({"id": "a", "parallel": [{"id": "b", "parallel": []}]}),
            "invalid parallel: sub-step 0 (b): tool is required",
        );
        let inner = json!([{"id": "b", "tool": "t"}]);
        let loop_of = json!({"items": "x", "steps": inner});
        group(
            json!({"id": "a", "tool": "t", "parallel": inner}),
            "tool is mutually exclusive with forEach/parallel",
        );
        group(
            json!({"id": "a", "forEach": loop_of, "parallel": inner}),
            "forEach and parallel are mutually exclusive",
        );
    }

    #[test]
    fn error_texts_of_conditions_and_names() {
        let when = |condition: Json| json!([{"id": "a", "tool": "t", "condition": condition}]);
        let invalid = |text: &str| format!("step 0: invalid condition: {text}");
        let exactly = "condition requires exactly one of template, tool, or fromStep";
        steps(when(json!({})), &invalid(exactly));
        steps(
            when(json!({"template": "{{ true }}", "tool": "x", "expect": {"success": true}})),
            &invalid("condition.template is mutually exclusive with tool/fromStep"),
        );
        steps(
            when(json!({"tool": "x", "from_step": "y"})),
            &invalid(
                "condition: tool and fromStep are mutually exclusive (set exactly one of template, \
                 tool, or fromStep)",
            ),
        );
        let needs = "a tool or fromStep condition requires expect or expectNot";
        steps(when(json!({"tool": "x"})), &invalid(needs));
        steps(
            when(json!({"from_step": "x", "expect_not": {}})),
            &invalid("invalid expectNot: either success or jsonPath must be provided"),
        );
        let twice = json!([{"id": "b", "tool": "t"}, {"id": "b", "tool": "t"}]);
        check(
            json!({"name": "w", "steps": [{"id": "a", "parallel": twice}]}),
            "sense: step a parallel: duplicate sub-step id 'b'",
        );
        check(
            json!({"name": "w", "steps": [{"id": "a", "forEach": {"items": "x", "steps": twice}}]}),
            "sense: step a forEach: duplicate sub-step id 'b'",
        );
        check(
            json!({"name": "w", "steps": [{"id": "b", "tool": "t"}], "onFailure": twice}),
            "sense: onFailure: duplicate sub-step id 'b'",
        );
        check(
            json!({"name": "w", "steps": [{"id": "b", "tool": "t"}], "on_failure": [{"id": "c"}]}),
            "form: validation failed: onFailure: sub-step 0 (c): tool is required",
        );
        check(
            json!({"name": "w", "steps": [{"id": "a", "tool": "t"}, {"id": "a", "tool": "t"}]}),
            "sense: duplicate step ID 'a' found",
        );
        check(
            json!({"name": "../w", "steps": [{"id": "a", "tool": "t"}]}),
            "sense: invalid name '../w': it must not begin with a dot",
        );
    }

    #[test]
    fn valid_requests() {
        check(json!({"name": "w", "version": "1", "steps": [{"id": "a", "tool": "t"}]}), "w: 1");
        let each = json!({"items": "{{ .input.l }}", "steps": [{"id": "b", "tool": "t"}]});
        check(json!({"name": "w", "steps": [{"id": "a", "forEach": each}]}), "w: 1");
        // Each group has names of its own.
        let group = |id: &str| json!({"id": id, "parallel": [{"id": "b", "tool": "t"}]});
        check(json!({"name": "w", "steps": [group("a"), group("b")]}), "w: 2");
        let when = json!({"template": "{{ true }}"});
        check(json!({"name": "w", "steps": [{"id": "a", "tool": "t", "condition": when}]}), "w: 1");
    }
}
