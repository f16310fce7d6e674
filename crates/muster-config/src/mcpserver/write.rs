//! An MCP server as text.

use muster_core::{json::raw, value::Value};

use super::{McpServer, Status, parse};
use crate::{
    writer,
    yaml::{self, Node, NodeValue},
};

/// The whole file, in the long form.
pub fn text(server: &McpServer) -> String {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut metadata =
        vec![(text("name"), text(&server.name)), (text("namespace"), text(&server.namespace))];
    metadata.extend(server.extra.metadata.iter().cloned());
    let mut spec = pairs(&server.spec);
    spec.extend(server.extra.spec.iter().cloned());
    let mut document = vec![
        (text("apiVersion"), text("muster.giantswarm.io/v1alpha1")),
        (text("kind"), text("MCPServer")),
        (text("metadata"), Value::Map(metadata)),
        (text("spec"), Value::Map(spec)),
    ];
    if server.status != Status::default() {
        document.push((text("status"), Value::Map(pairs(&server.status))));
    }
    writer::document(&document)
}

pub(crate) fn pairs(value: &impl serde::Serialize) -> Vec<(Value, Value)> {
    match Value::from_json(&raw(value)) {
        Value::Map(pairs) => pairs,
        _ => Vec::new(),
    }
}

/// The file with another status and everything else, comments included, as it was. None where that
/// cannot be done, as in a file that is one flow mapping.
pub fn with_status(file: &str, status: &Status) -> Option<String> {
    let next = put_status(file, status)?;
    // Whatever the file looks like: nothing but the status may have changed.
    let before = parse(file, "x").ok()?.value;
    let after = parse(&next, "x").ok()?.value;
    (after == McpServer { status: status.clone(), ..before }).then_some(next)
}

/// The file of any resource with another status, by lines. Whoever asks looks at what came of it.
pub(crate) fn put_status(file: &str, status: &impl serde::Serialize) -> Option<String> {
    let root = yaml::parse(file).ok()?;
    let block = writer::document(&[(Value::Text("status".to_owned()), Value::Map(pairs(status)))]);
    Some(match lines_of_status(&root)? {
        None => append(file, &block),
        Some(Place { first, next }) => replace(file, &block, first, next),
    })
}

/// The line of `status:` and the line of the key behind it, from 1.
struct Place {
    first: usize,
    next: Option<usize>,
}

#[expect(clippy::option_option, reason = "no status is not no block mapping")]
fn lines_of_status(root: &Node) -> Option<Option<Place>> {
    let NodeValue::Map(pairs) = &root.value else { return None };
    if pairs.iter().any(|(key, _)| key.column != 1) {
        return None;
    }
    let Some((key, _)) = pairs.iter().find(|(key, _)| key.as_text() == Some("status")) else {
        return Some(None);
    };
    let first = key.line;
    let next = pairs.iter().map(|(key, _)| key.line).filter(|line| *line > first).min();
    Some(Some(Place { first, next }))
}

fn append(file: &str, block: &str) -> String {
    let end = if file.is_empty() || file.ends_with('\n') { "" } else { "\n" };
    format!("{file}{end}{block}")
}

fn replace(file: &str, block: &str, first: usize, next: Option<usize>) -> String {
    let lines: Vec<&str> = file.split_inclusive('\n').collect();
    let before = lines.iter().take(first.saturating_sub(1)).copied();
    let until = next.map_or(lines.len(), |next| next.saturating_sub(1));
    let inside = lines.get(first..until).unwrap_or_default();
    // Comments and blank lines at the end belong to what follows.
    let is_status = |line: &&&str| !line.trim().is_empty() && !line.starts_with('#');
    let kept = inside.iter().rposition(|line| is_status(&line)).map_or(0, |last| last + 1);
    let after = inside.get(kept..).unwrap_or_default().iter().copied();
    let after = after.chain(lines.get(until..).unwrap_or_default().iter().copied());
    before.chain([block]).chain(after).collect()
}
