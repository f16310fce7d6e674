//! Reads the definition of a mock server from a scenario or a file of its own.

use std::{fs, path::Path, time::Duration};

use muster_config::{
    Severity,
    yaml::{self, Node},
};
use serde_json::{Map, Value, json};

use super::{
    ErrorStyle, MockConfig, MockContent, MockResponse, MockTool, ResponseExtras, fault::Fault,
};
use crate::load::node::{Diagnostics, Fields, boolean, json, object, span, text};

/// The keys that make a server a mock, copied to the file of a mock process.
pub(crate) const WRITTEN: [&str; 4] = ["tools", "resources", "resource_templates", "prompts"];

/// The file of a mock process.
#[derive(Debug)]
pub struct MockFile {
    /// What it answers.
    pub config: MockConfig,
    /// The port of the runner's control server, if any.
    pub control: Option<u16>,
}

/// Reads the file of a mock. The error has one line per problem.
pub fn read_file(path: &Path) -> Result<MockFile, String> {
    let text = fs::read_to_string(path)
        .map_err(|err| format!("cannot read `{}`: {err}", path.display()))?;
    let wrong = |problem: String| format!("{}: {problem}", path.display());
    let node = yaml::parse(&text).map_err(|err| wrong(err.to_string()))?;
    let mut diagnostics = Diagnostics::default();
    let file = Fields::open(&node, "", &mut diagnostics).map(|mut fields| {
        let control = fields.get("control").and_then(Node::written);
        let control = control.and_then(|port| port.parse().ok());
        MockFile { config: read(&node, &mut fields, false, &mut diagnostics), control }
    });
    let problems = diagnostics.into_problems();
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    let errors: Vec<String> = errors.map(|problem| wrong(problem.to_string())).collect();
    match file {
        Some(file) if errors.is_empty() => Ok(file),
        Some(_) | None => Err(errors.join("\n")),
    }
}

/// Reads the keys of a mock; the caller reads the other keys of the mapping. `shows_schemas` is whether clients see
/// the schemas of tools that do not say it.
pub(crate) fn read(
    node: &Node,
    fields: &mut Fields<'_>,
    shows_schemas: bool,
    diagnostics: &mut Diagnostics,
) -> MockConfig {
    let tools = fields.items("tools", diagnostics);
    let mut written = object(node).unwrap_or_default();
    written.retain(|key, _| WRITTEN.contains(&key.as_str()));
    let family = fields.read("family", diagnostics, object);
    // Whether the tools of a family are grouped depends on their schemas.
    let shows_schemas = shows_schemas || family.is_some();
    if let Some(Value::Array(tools)) = written.get_mut("tools").filter(|_| shows_schemas) {
        for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
            tool.entry("show_schema").or_insert(true.into());
        }
    }
    let mut list = |key| match fields.get(key).map(json) {
        Some(Value::Array(items)) => items,
        Some(_) => {
            diagnostics.error(fields.line(), &fields.at(key), "expected a list");
            Vec::new()
        }
        None => Vec::new(),
    };
    let content = MockContent {
        resources: list("resources"),
        templates: list("resource_templates"),
        prompts: list("prompts"),
    };
    let fault = fields.read("fault", diagnostics, |node| Fault::read(&json(node)));
    let prefix = fields.read("toolPrefix", diagnostics, text);
    let tools = tools
        .into_iter()
        .filter_map(|(path, node)| tool(node, &path, shows_schemas, diagnostics))
        .collect();
    MockConfig {
        tools,
        fault,
        prefix,
        family,
        content,
        written,
        error_style: ErrorStyle::default(),
    }
}

/// Reads one tool from the JSON arguments of a step.
pub(crate) fn tool_from_json(value: &Value) -> Result<MockTool, String> {
    let text = value.to_string();
    let node = yaml::parse(&text).map_err(|err| err.message)?;
    let mut diagnostics = Diagnostics::default();
    let tool = tool(&node, "", false, &mut diagnostics);
    let problems = diagnostics.into_problems();
    match (problems.into_iter().find(|problem| problem.severity == Severity::Error), tool) {
        (None, Some(tool)) => Ok(tool),
        (Some(problem), _) => Err(problem.message),
        (None, None) => Err("no tool".to_owned()),
    }
}

fn tool(
    node: &Node,
    path: &str,
    shows_schema: bool,
    diagnostics: &mut Diagnostics,
) -> Option<MockTool> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let name = fields.required("name", diagnostics, "tool name is required");
    let schema = fields.read("input_schema", diagnostics, object).unwrap_or_default();
    let shows = fields.read("show_schema", diagnostics, boolean).unwrap_or(shows_schema);
    let responses = fields.items("responses", diagnostics);
    let tool = MockTool {
        name,
        description: fields.read("description", diagnostics, text).unwrap_or_default(),
        defaults: defaults(&schema),
        shown_schema: match shows {
            true if !schema.is_empty() => Value::Object(schema),
            _ => json!({"type": "object", "properties": {}}),
        },
        responses: responses
            .into_iter()
            .filter_map(|(path, node)| response(node, &path, diagnostics))
            .collect(),
        echo_token: fields.read("echo_token", diagnostics, boolean).unwrap_or_default(),
        written: json(node),
    };
    fields.finish(&[], diagnostics);
    Some(tool)
}

fn defaults(schema: &Map<String, Value>) -> Map<String, Value> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let defaults = properties.into_iter().flatten().filter_map(|(name, property)| {
        property.get("default").map(|default| (name.clone(), default.clone()))
    });
    defaults.collect()
}

fn response(node: &Node, path: &str, diagnostics: &mut Diagnostics) -> Option<MockResponse> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let delay = fields.get("delay").map(span);
    let delay = match delay {
        Some(Ok(delay)) => delay,
        Some(Err(message)) => {
            diagnostics.warning(
                fields.line(),
                &fields.at("delay"),
                format!("{message}; it is ignored"),
            );
            Duration::ZERO
        }
        None => Duration::ZERO,
    };
    let response = MockResponse {
        condition: fields.read("condition", diagnostics, object),
        response: fields.get("response").map(json).unwrap_or_default(),
        extra: ResponseExtras {
            content: fields.get("content").map(json).filter(Value::is_array),
            structured: fields.get("structured_content").map(json).filter(Value::is_object),
            is_error: fields.read("is_error", diagnostics, boolean).unwrap_or_default(),
        },
        error: fields.read("error", diagnostics, text).filter(|text| !text.is_empty()),
        delay,
        fault: fields.read("fault", diagnostics, |node| Fault::read(&json(node))),
    };
    fields.finish(&[], diagnostics);
    Some(response)
}
