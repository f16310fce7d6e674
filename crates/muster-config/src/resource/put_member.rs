//! Changes of single members that preserve the rest of a file, comments included.

use muster_core::value::Value;

use super::pairs;
use crate::{
    writer,
    yaml::{self, Node, NodeValue},
};

/// Replaces the status in the text of a file, line by line. `None` where that is impossible, as in a flow
/// mapping. The caller must verify that nothing else changed.
pub(crate) fn put_status(file: &str, status: &impl serde::Serialize) -> Option<String> {
    put_member(file, None, "status", Some(Value::Map(pairs(status))))
}

/// Sets or removes a member of the mapping at the top, or of the mapping that `section` names there. `None` where that
/// is impossible. The caller must verify that nothing else changed.
pub(crate) fn put_member(
    file: &str,
    section: Option<&str>,
    name: &str,
    value: Option<Value>,
) -> Option<String> {
    let root = yaml::parse(file).ok()?;
    let top = block_keys(&root)?;
    let (keys, end) = match section {
        None => (top, None),
        Some(section) => {
            let NodeValue::Map(pairs) = &root.value else { return None };
            let (key, mapping) = pairs.iter().find(|(key, _)| key.as_text() == Some(section))?;
            let end = top.iter().map(|key| key.line).filter(|line| *line > key.line).min();
            (block_keys(mapping)?, end)
        }
    };
    let indent = " ".repeat(keys.first().map_or(1, |key| key.column).checked_sub(1)?);
    let block = value.map(|value| {
        let block = writer::document(&[(Value::Text(name.to_owned()), value)]);
        block.lines().map(|line| format!("{indent}{line}\n")).collect::<String>()
    });
    let lines: Vec<&str> = file.split_inclusive('\n').collect();
    let Some(key) = keys.iter().find(|key| key.as_text() == Some(name)) else {
        let last = end.map_or(lines.len(), |end| content_end(&lines, 0, end - 1));
        return Some(spliced(&lines, last..last, &block.unwrap_or_default()));
    };
    let next = keys.iter().map(|key| key.line).filter(|line| *line > key.line).min().or(end);
    let until = next.map_or(lines.len(), |next| next - 1);
    let first = key.line.checked_sub(1)?;
    let range = first..content_end(&lines, first, until);
    Some(spliced(&lines, range, &block.unwrap_or_default()))
}

/// The keys of a mapping in block style, each on a line of its own.
fn block_keys(mapping: &Node) -> Option<Vec<&Node>> {
    let NodeValue::Map(pairs) = &mapping.value else { return None };
    let keys: Vec<&Node> = pairs.iter().map(|(key, _)| key).collect();
    let first = keys.first()?;
    let is_block = keys.iter().all(|key| key.column == first.column)
        && keys.iter().zip(keys.iter().skip(1)).all(|(one, other)| one.line < other.line);
    // In a flow mapping a key is not the first of its line.
    (is_block && (mapping.line, mapping.column) == (first.line, first.column)).then_some(keys)
}

/// The line after the last one with content. Comments and blank lines before `until` belong to what follows.
fn content_end(lines: &[&str], first: usize, until: usize) -> usize {
    let is_content = |line: &&str| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    };
    let inside = lines.get(first..until).unwrap_or_default();
    first + inside.iter().rposition(is_content).map_or(0, |last| last + 1)
}

/// The lines with some replaced by a block.
fn spliced(lines: &[&str], range: std::ops::Range<usize>, block: &str) -> String {
    let before: String = lines.get(..range.start).unwrap_or_default().concat();
    let after: String = lines.get(range.end..).unwrap_or_default().concat();
    let end = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    format!("{before}{end}{block}{after}")
}
