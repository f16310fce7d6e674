//! Static check of the arguments of a step against the schema of its tool.
//!
//! Only certain problems are reported: a template may render as anything.

use muster_core::suggest;
use muster_template::Template;
use serde_json::{Value as Json, value::RawValue};

use super::{JsonObject, check::WorkflowFinding};

/// The problems, with paths below the arguments.
pub(super) fn check_arguments(
    tool: &str,
    schema: &RawValue,
    args: &JsonObject,
) -> Vec<WorkflowFinding> {
    let Ok(Json::Object(schema)) = serde_json::from_str(schema.get()) else { return Vec::new() };
    let mut findings = Vec::new();
    let properties = schema.get("properties").and_then(Json::as_object);
    let required = schema.get("required").and_then(Json::as_array).into_iter().flatten();
    for name in required.filter_map(Json::as_str).filter(|name| !args.contains_key(*name)) {
        findings.push(WorkflowFinding {
            path: Vec::new(),
            message: format!("`{tool}` needs the argument `{name}`"),
            hint: format!("add `{name}: …` to `args`"),
        });
    }
    let Some(properties) = properties else { return findings };
    let closed = schema.get("additionalProperties") == Some(&Json::Bool(false));
    for (name, value) in args {
        let path = vec![name.clone()];
        let Some(property) = properties.get(name) else {
            let known = properties.keys().map(String::as_str);
            let near = suggest::similar(name, known.clone());
            if closed || !near.is_empty() {
                let message = format!("`{tool}` takes no argument `{name}`");
                let hint = match near.first() {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("it takes: {}", known.collect::<Vec<_>>().join(", ")),
                };
                findings.push(WorkflowFinding { path, message, hint });
            }
            continue;
        };
        findings.extend(
            value_problem(tool, name, property, value).map(|(message, hint)| WorkflowFinding {
                path,
                message,
                hint,
            }),
        );
    }
    findings
}

fn value_problem(
    tool: &str,
    name: &str,
    property: &Json,
    value: &Json,
) -> Option<(String, String)> {
    if has_template(value) {
        return None;
    }
    if let Some(kinds) = property.get("type")
        && !of_type(kinds, value)
    {
        let message = format!("the argument `{name}` of `{tool}` must be of type {kinds}");
        return Some((message, format!("write a value of type {kinds} in place of {value}")));
    }
    let choices = property.get("enum").and_then(Json::as_array)?;
    if choices.contains(value) {
        return None;
    }
    let choices: Vec<String> = choices.iter().map(Json::to_string).collect();
    let message = format!("the argument `{name}` of `{tool}` cannot be {value}");
    Some((message, format!("write one of {}", choices.join(", "))))
}

fn of_type(kinds: &Json, value: &Json) -> bool {
    match kinds {
        Json::String(kind) => match kind.as_str() {
            "string" => value.is_string(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            "null" => value.is_null(),
            _ => true,
        },
        Json::Array(kinds) => kinds.iter().any(|kind| of_type(kind, value)),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::Object(_) => true,
    }
}

fn has_template(value: &Json) -> bool {
    match value {
        Json::String(text) => Template::is_template(text),
        Json::Array(items) => items.iter().any(has_template),
        Json::Object(object) => object.values().any(has_template),
        Json::Null | Json::Bool(_) | Json::Number(_) => false,
    }
}
