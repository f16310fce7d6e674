//! Formats tools and prompts in full, with a readable input schema.

use muster_client::inventory::{PromptArgument, PromptInfo, ToolInfo};
use serde_json::{Map, Value};

/// The column at which descriptions are wrapped.
const WIDTH: usize = 60;

/// Formats a tool in full.
pub fn tool(tool: &ToolInfo) -> String {
    let mut lines = head(&tool.name, &tool.description);
    let members = properties(&tool.schema, 2);
    if !members.is_empty() {
        lines.push(String::new());
        lines.push("Arguments:".to_owned());
        lines.extend(members);
    }
    lines.join("\n")
}

/// Formats a prompt in full.
pub fn prompt(prompt: &PromptInfo) -> String {
    let mut lines = head(&prompt.name, prompt.description.as_deref().unwrap_or_default());
    if !prompt.arguments.is_empty() {
        lines.push(String::new());
        lines.push("Arguments:".to_owned());
    }
    for PromptArgument { name, description, required } in &prompt.arguments {
        lines.push(format!("  {name} (string{})", if *required { ", required" } else { "" }));
        described(description, 4, &mut lines);
    }
    lines.join("\n")
}

fn head(name: &str, description: &str) -> Vec<String> {
    vec![format!("Name:         {name}"), format!("Description:  {description}")]
}

/// A value as text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn properties(schema: &Value, indent: usize) -> Vec<String> {
    let nothing = Map::new();
    let members = schema.get("properties").and_then(Value::as_object).unwrap_or(&nothing);
    let required = schema.get("required").and_then(Value::as_array);
    let mut names: Vec<&String> = members.keys().collect();
    names.sort();
    let mut lines = Vec::new();
    for name in names {
        let member = members.get(name).unwrap_or(&Value::Null);
        let needed = required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)));
        let (kind, needed) = (kind(member), if needed { ", required" } else { "" });
        lines.push(format!("{:indent$}{name} ({kind}{needed})", ""));
        about(member, indent + 2, &mut lines);
    }
    lines
}

fn about(member: &Value, indent: usize, lines: &mut Vec<String>) {
    description(member, indent, lines);
    if let Some(default) = member.get("default") {
        lines.push(format!("{:indent$}Default: {}", "", plain(default)));
    }
    if let Some(values) = member.get("enum").and_then(Value::as_array) {
        let values: Vec<String> = values.iter().map(plain).collect();
        lines.push(format!("{:indent$}Values: {}", "", values.join(", ")));
    }
    nested(member, indent, lines);
    let blocks = [("additionalProperties", "Value Schema:"), ("items", "Items:")];
    for (key, label) in blocks {
        let Some(inner) = member.get(key).filter(|inner| inner.is_object()) else { continue };
        let below = indent + 2;
        lines.push(format!("{:indent$}{label}", ""));
        lines.push(format!("{:below$}Type: {}", "", kind(inner)));
        description(inner, below, lines);
        nested(inner, below, lines);
    }
}

fn nested(member: &Value, indent: usize, lines: &mut Vec<String>) {
    let inner = properties(member, indent + 2);
    if !inner.is_empty() {
        lines.push(format!("{:indent$}Properties:", ""));
        lines.extend(inner);
    }
}

/// The type of a value, or all of them if several are allowed.
fn kind(member: &Value) -> String {
    match member.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().map(plain).collect::<Vec<_>>().join(" or "),
        Some(kind) => plain(kind),
        None => "any".to_owned(),
    }
}

fn description(member: &Value, indent: usize, lines: &mut Vec<String>) {
    let text = member.get("description").and_then(Value::as_str).unwrap_or_default();
    described(text, indent, lines);
}

fn described(text: &str, indent: usize, lines: &mut Vec<String>) {
    const LABEL: &str = "Description: ";
    let mut line = String::new();
    let mut label = LABEL;
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push(format!("{:indent$}{label:<13}{line}", ""));
            label = "";
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(format!("{:indent$}{label:<13}{line}", ""));
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::tool;

    #[test]
    fn a_tool_in_full() {
        let about = json!({"name": "x_deploy", "description": "Ship it", "inputSchema": {
        "type": "object", "required": ["where"], "properties": {
            "where": {"type": "string", "enum": ["lab", "prod"], "default": "lab",
                "description": "The place where it goes, which has to be one of those that are known here"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "parts": {"type": "array", "items": {"type": "object", "properties": {"n": {}}}},
        }}});
        expect![[r"
            Name:         x_deploy
            Description:  Ship it

            Arguments:
              labels (object)
                Value Schema:
                  Type: string
              parts (array)
                Items:
                  Type: object
                  Properties:
                    n (any)
              where (string, required)
                Description: The place where it goes, which has to be one of those that
                             are known here
                Default: lab
                Values: lab, prod"]]
        .assert_eq(&tool(&serde_json::from_value(about).unwrap()));
    }
}
