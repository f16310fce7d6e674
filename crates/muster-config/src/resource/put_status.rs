//! Status updates that preserve the rest of a file.

use muster_core::value::Value;

use super::pairs;
use crate::{
    writer,
    yaml::{self, Node, NodeValue},
};

/// Replaces the status in the text of a file, line by line. `None` where that is impossible, as in a flow
/// mapping. The caller must verify that nothing else changed.
pub(crate) fn put_status(file: &str, status: &impl serde::Serialize) -> Option<String> {
    let root = yaml::parse(file).ok()?;
    let block = writer::document(&[(Value::Text("status".to_owned()), Value::Map(pairs(status)))]);
    Some(match lines_of_status(&root)? {
        None => append(file, &block),
        Some(StatusLines { first, next }) => replace(file, &block, first, next),
    })
}

/// The line of `status:` and the line of the next key, from 1.
struct StatusLines {
    first: usize,
    next: Option<usize>,
}

#[expect(
    clippy::option_option,
    reason = "a file without a status is not one without a block mapping"
)]
fn lines_of_status(root: &Node) -> Option<Option<StatusLines>> {
    let NodeValue::Map(pairs) = &root.value else { return None };
    if pairs.iter().any(|(key, _)| key.column != 1) {
        return None;
    }
    let Some((key, _)) = pairs.iter().find(|(key, _)| key.as_text() == Some("status")) else {
        return Some(None);
    };
    let first = key.line;
    let next = pairs.iter().map(|(key, _)| key.line).filter(|line| *line > first).min();
    Some(Some(StatusLines { first, next }))
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
    // Comments and blank lines at the end belong to the next key.
    let is_status = |line: &&&str| !line.trim().is_empty() && !line.starts_with('#');
    let status_lines = inside.iter().rposition(|line| is_status(&line)).map_or(0, |last| last + 1);
    let after = inside.get(status_lines..).unwrap_or_default().iter().copied();
    let after = after.chain(lines.get(until..).unwrap_or_default().iter().copied());
    before.chain([block]).chain(after).collect()
}
