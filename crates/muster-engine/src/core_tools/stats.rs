//! `core_stats`: how many calls each backend ran, and how long they took.

use std::time::Duration;

use muster_gateway::dispatch::Counted;
use serde::Serialize;
use serde_json::json;

use super::{Answer, Builtin, object};
use crate::handle::Handle;

pub(super) const TOOLS: &[Builtin] = &[Builtin {
    name: "core_stats",
    summary: "Show the backends of the gateway with their state, and how many calls each ran since the \
              gateway was started: running, failed, cancelled, and how long they took.",
    schema: || json!({"type": "object", "properties": {}}),
    run: |handle, _, _| Box::pin(std::future::ready(stats(handle))),
}];

#[derive(Serialize)]
struct Stats {
    uptime_seconds: u64,
    backends: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: String,
    state: String,
    tools: usize,
    calls: u64,
    running: u64,
    failed: u64,
    cancelled: u64,
    average_ms: f64,
    p95_ms: f64,
    longest_ms: f64,
}

impl Row {
    fn new(name: &str, state: &str, tools: usize, counted: Counted) -> Self {
        Self {
            name: name.to_owned(),
            state: state.to_owned(),
            tools,
            calls: counted.worked + counted.failed + counted.cancelled + counted.running,
            running: counted.running,
            failed: counted.failed,
            cancelled: counted.cancelled,
            average_ms: milliseconds(counted.average),
            p95_ms: milliseconds(counted.most.min(counted.longest)),
            longest_ms: milliseconds(counted.longest),
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[expect(clippy::unnecessary_wraps, reason = "the shape of every tool")]
fn stats(handle: &Handle) -> Answer {
    let counted = handle.tally.counted();
    let state = handle.state.borrow().clone();
    let view = handle.now();
    let mut backends: Vec<Row> = Vec::new();
    for source in state.catalog.sources() {
        let name = source.backend.as_str();
        let known = view.servers.get(name);
        let word = known.map_or("Ready", |known| known.status.condition.as_str());
        let counted = counted.get(&source.backend).copied().unwrap_or_default();
        backends.push(Row::new(name, word, source.entries().len(), counted));
    }
    for (name, known) in &view.servers {
        if !backends.iter().any(|row| row.name == *name) {
            let counted = counted.iter().find(|(backend, _)| backend.as_str() == name);
            let counted = counted.map(|(_, counted)| *counted).unwrap_or_default();
            backends.push(Row::new(name, known.status.condition.as_str(), 0, counted));
        }
    }
    backends.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(object(&Stats { uptime_seconds: handle.tally.age().as_secs(), backends }))
}
