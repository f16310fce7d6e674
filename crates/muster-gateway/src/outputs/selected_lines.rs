//! The items of a JSON array of any length as lines, or the values that a path selects in each.

use std::{
    collections::VecDeque,
    io::{self, BufRead, BufReader, Read},
};

use muster_core::json::scan::JsonScanner;
use serde_json::Value;
use serde_json_path::JsonPath;

use super::{
    CHUNK,
    json_lines::{JsonLines, LineBreaks},
    path_cost::PathCost,
    select::{Step, follow},
};
use crate::background_job::StopSignal;

/// The longest item that is parsed.
const MOST_ITEM: u64 = 16 << 20;

/// The selection in each item.
pub(super) enum ItemSelector {
    /// All of it.
    Whole,
    /// The value that plain steps lead to, found without parsing.
    Steps(Vec<Step>),
    /// The values that a path selects in a list of this item alone.
    Path {
        /// The path.
        path: JsonPath,
        /// Its cost on each item.
        cost: PathCost,
    },
}

/// Reads one line for each item, or for each value that is selected in it.
pub(super) struct SelectedLines<R> {
    items: BufReader<JsonLines<R>>,
    selector: ItemSelector,
    pending: VecDeque<u8>,
    stop: StopSignal,
}

impl<R: BufRead> SelectedLines<R> {
    /// Reads the items of `array`.
    pub(super) fn new(array: R, selector: ItemSelector) -> Self {
        let items = JsonLines::new(array, LineBreaks::Items);
        let items = BufReader::with_capacity(CHUNK, items);
        Self { items, selector, pending: VecDeque::new(), stop: StopSignal::default() }
    }

    /// Stops reading at a signal.
    #[must_use]
    pub(super) fn stopped_by(self, stop: &StopSignal) -> Self {
        Self { stop: stop.clone(), ..self }
    }

    /// Reads items until there is a line; false at the end.
    fn refill(&mut self) -> io::Result<bool> {
        let mut item = Vec::new();
        while self.pending.is_empty() {
            self.stop.check()?;
            item.clear();
            if self.items.by_ref().take(MOST_ITEM).read_until(b'\n', &mut item)? == 0 {
                return Ok(false);
            }
            if item.pop_if(|last| *last == b'\n').is_none() && item.len() as u64 == MOST_ITEM {
                return Err(io::Error::other("an item is too long; go deeper with `path`"));
            }
            match &self.selector {
                ItemSelector::Whole => self.pending = line(&item).into(),
                ItemSelector::Steps(steps) => {
                    let found = follow(&mut JsonScanner::new(&*item, 0), steps)?;
                    let found = found.and_then(|found| {
                        let place = found.start.try_into().ok()?..found.end.try_into().ok()?;
                        item.get::<std::ops::Range<usize>>(place)
                    });
                    self.pending = found.map(line).unwrap_or_default().into();
                }
                ItemSelector::Path { path, cost } => {
                    let alone = Value::Array(vec![serde_json::from_slice(&item)?]);
                    cost.check(&alone).map_err(io::Error::other)?;
                    for found in path.query(&alone).all() {
                        self.pending.extend(line_of(found).as_bytes());
                        self.pending.push_back(b'\n');
                    }
                }
            }
        }
        Ok(true)
    }
}

impl<R: BufRead> Read for SelectedLines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.pending.is_empty() && !self.refill()? {
            return Ok(0);
        }
        self.pending.read(out)
    }
}

/// A JSON value as a line: a text without quotes and escapes, anything else as written.
fn line(value: &[u8]) -> Vec<u8> {
    let is_text = value.first() == Some(&b'"');
    let text: Option<String> =
        Some(value).filter(|_| is_text).and_then(|value| serde_json::from_slice(value).ok());
    let mut line = match text {
        Some(text) if !text.contains('\n') => text.into_bytes(),
        _ => value.to_owned(),
    };
    line.push(b'\n');
    line
}

/// A value as one line: a text as it is, unless it has several lines.
pub(super) fn line_of(value: &Value) -> String {
    match value {
        Value::String(text) if !text.contains('\n') => text.clone(),
        other => other.to_string(),
    }
}
