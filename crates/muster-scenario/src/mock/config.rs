//! Reading what a mock server answers, from a scenario or from a file of its own.

use std::{fs, path::Path, time::Duration};

use muster_config::yaml::{self, Node};
use serde_json::{Map, Value, json};

use super::{Extra, Failing, MockConfig, MockResponse, MockTool, Shelf, fault::Fault};
use crate::load::{
    Severity,
    node::{Fields, Notes, json, object, span, text, truth},
};

/// What makes a server a mock, and goes into its file if it is a process.
pub(crate) const WRITTEN: [&str; 4] = ["tools", "resources", "resource_templates", "prompts"];

/// The file of a mock that is a process.
#[derive(Debug)]
pub struct MockFile {
    /// What it answers.
    pub config: MockConfig,
    /// Where the runner listens for it, if it does: a port on this machine.
    pub control: Option<u16>,
}

/// Reads the file of a mock. The error is one sentence for each problem.
pub fn read_file(path: &Path) -> Result<MockFile, String> {
    let text = fs::read_to_string(path)
        .map_err(|err| format!("cannot read `{}`: {err}", path.display()))?;
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let node = yaml::parse(&text).map_err(|err| wrong(err.to_string()))?;
    let mut notes = Notes::default();
    let file = Fields::open(&node, "", &mut notes).map(|mut fields| {
        let control = fields.get("control").and_then(Node::written);
        let control = control.and_then(|port| port.parse().ok());
        MockFile { config: read(&node, &mut fields, &mut notes), control }
    });
    let problems = notes.into_problems();
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|problem| wrong(problem.to_string())).collect();
    match file {
        Some(file) if errors.is_empty() => Ok(file),
        Some(_) | None => Err(errors.join("\n")),
    }
}

/// Reads the keys of a mock; other keys of the mapping are left for the caller.
pub(crate) fn read(node: &Node, fields: &mut Fields<'_>, notes: &mut Notes) -> MockConfig {
    let tools = fields.items("tools", notes);
    let mut written = object(node).unwrap_or_default();
    written.retain(|key, _| WRITTEN.contains(&key.as_str()));
    let mut list = |key| match fields.get(key).map(json) {
        Some(Value::Array(items)) => items,
        Some(_) => {
            notes.error(fields.line(), &fields.at(key), "expected a list");
            Vec::new()
        }
        None => Vec::new(),
    };
    let shelf = Shelf {
        resources: list("resources"),
        templates: list("resource_templates"),
        prompts: list("prompts"),
    };
    let fault = fields.read("fault", notes, |node| Fault::read(&json(node)));
    let prefix = fields.read("toolPrefix", notes, text);
    let tools = tools.into_iter().filter_map(|(path, node)| tool(node, &path, notes)).collect();
    MockConfig { tools, fault, prefix, shelf, written, failing: Failing::default() }
}

/// Reads one tool from JSON, as a step gives it. The error is one sentence.
pub(crate) fn tool_from_json(value: &Value) -> Result<MockTool, String> {
    let text = value.to_string();
    let node = yaml::parse(&text).map_err(|err| err.message)?;
    let mut notes = Notes::default();
    let tool = tool(&node, "", &mut notes);
    let problems = notes.into_problems();
    match (problems.into_iter().find(|problem| problem.severity == Severity::Error), tool) {
        (None, Some(tool)) => Ok(tool),
        (Some(problem), _) => Err(problem.message),
        (None, None) => Err("no tool".to_owned()),
    }
}

fn tool(node: &Node, path: &str, notes: &mut Notes) -> Option<MockTool> {
    let mut fields = Fields::open(node, path, notes)?;
    let name = fields.required("name", notes, "tool name is required");
    let schema = fields.read("input_schema", notes, object).unwrap_or_default();
    let shows = fields.read("show_schema", notes, truth).unwrap_or_default();
    let responses = fields.items("responses", notes);
    let tool = MockTool {
        name,
        description: fields.read("description", notes, text).unwrap_or_default(),
        defaults: defaults(&schema),
        shown_schema: match shows {
            true => Value::Object(schema),
            false => json!({"type": "object", "properties": {}}),
        },
        responses: responses
            .into_iter()
            .filter_map(|(path, node)| response(node, &path, notes))
            .collect(),
        written: json(node),
    };
    fields.finish(&[], notes);
    Some(tool)
}

fn defaults(schema: &Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let defaults = properties.into_iter().flatten().filter_map(|(name, property)| {
        property.get("default").map(|default| (name.clone(), default.clone()))
    });
    defaults.collect()
}

fn response(node: &Node, path: &str, notes: &mut Notes) -> Option<MockResponse> {
    let mut fields = Fields::open(node, path, notes)?;
    let delay = fields.get("delay").map(span);
    let delay = match delay {
        Some(Ok(delay)) => delay,
        Some(Err(message)) => {
            notes.warning(fields.line(), &fields.at("delay"), format!("{message}; it is ignored"));
            Duration::ZERO
        }
        None => Duration::ZERO,
    };
    let response = MockResponse {
        condition: fields.read("condition", notes, object),
        response: fields.get("response").map(json).unwrap_or_default(),
        extra: Extra {
            content: fields.get("content").map(json).filter(Value::is_array),
            structured: fields.get("structured_content").map(json).filter(Value::is_object),
            is_error: fields.read("is_error", notes, truth).unwrap_or_default(),
        },
        error: fields.read("error", notes, text).filter(|text| !text.is_empty()),
        delay,
        fault: fields.read("fault", notes, |node| Fault::read(&json(node))),
    };
    fields.finish(&[], notes);
    Some(response)
}
