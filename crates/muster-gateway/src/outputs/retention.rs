//! The retention of outputs: expired ones are removed, and the oldest ones beyond limits of size and number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    time::{Duration, SystemTime},
};

use super::{PREFIX, StoredOutput, described, read};

/// The number of outputs, beyond which the oldest are evicted.
const MAX_OUTPUTS: usize = 10_000;

/// The stored outputs. They are read from the directory once, so that storing one takes the same time however many
/// there are.
#[derive(Debug, Default)]
pub(super) struct Retention {
    /// The size of each, by time of expiry and handle.
    outputs: BTreeMap<(i64, String), u64>,
    bytes: u64,
}

impl Retention {
    /// Loads the outputs that an earlier process left in a directory. Files without a description are unfinished
    /// writes; they are removed if they have not changed for `lifetime`.
    pub(super) fn load(directory: &Path, lifetime: Duration) -> Self {
        let Ok(entries) = fs::read_dir(directory) else { return Self::default() };
        let paths = entries.flatten().map(|entry| entry.path());
        let (descriptions, files): (Vec<_>, Vec<_>) =
            paths.partition(|path| path.extension().is_some_and(|ext| ext == "json"));
        let found: Vec<StoredOutput> =
            descriptions.iter().filter_map(|path| read(&path.with_extension(""))).collect();
        let known: BTreeSet<&Path> = found.iter().map(|output| &*output.path).collect();
        for file in files.iter().filter(|file| !known.contains(file.as_path())) {
            let is_output = file.file_name().and_then(|name| name.to_str());
            let is_output = is_output.is_some_and(|name| name.starts_with(PREFIX));
            if is_output && is_older(file, lifetime) {
                drop(fs::remove_file(file));
                drop(fs::remove_file(described(file)));
            }
        }
        let mut retention = Self::default();
        for output in &found {
            retention.add(output);
        }
        retention
    }

    /// Adds an output.
    pub(super) fn add(&mut self, output: &StoredOutput) {
        let key = (output.expires, output.handle.clone());
        let before = self.outputs.insert(key, output.stored);
        self.bytes = self.bytes + output.stored - before.unwrap_or_default();
    }

    /// Removes and returns the handles of outputs to delete: expired ones, and the oldest beyond the limits, but never
    /// `newest`.
    pub(super) fn evict(&mut self, now: i64, max_bytes: u64, newest: &str) -> Vec<String> {
        let (mut evicted, mut bytes) = (Vec::new(), self.bytes);
        for (key, size) in self.outputs.iter().filter(|((_, handle), _)| handle != newest) {
            let count = self.outputs.len() - evicted.len();
            if key.0 > now && bytes <= max_bytes && count <= MAX_OUTPUTS {
                break;
            }
            bytes -= size;
            evicted.push(key.clone());
        }
        self.bytes = bytes;
        for key in &evicted {
            self.outputs.remove(key);
        }
        evicted.into_iter().map(|(_, handle)| handle).collect()
    }
}

fn is_older(file: &Path, age: Duration) -> bool {
    let changed = fs::metadata(file).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| {
        SystemTime::now().duration_since(changed).is_ok_and(|since| since > age)
    })
}
