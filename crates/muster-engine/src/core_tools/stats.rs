//! `core_stats`: the metrics of calls by backend.

use std::time::Duration;

use muster_api::stats::{BackendStats, Stats};
use muster_core::name::BackendName;
use muster_gateway::dispatch::BackendMetrics;
use serde_json::json;

use super::{Audience, CoreTool, ToolReply, object};
use crate::handle::Handle;

pub(super) const TOOLS: &[CoreTool] = &[CoreTool {
    name: "core_stats",
    audience: Audience::Everyone,
    summary: "Show the backends of the gateway with their state, and how many calls each ran since the \
              gateway was started: running, failed, cancelled, and how long they took.",
    schema: || json!({"type": "object", "properties": {}}),
    run: |handle, _, _| Box::pin(std::future::ready(stats(handle))),
}];

fn row(name: &str, state: &str, tools: usize, metrics: BackendMetrics) -> BackendStats {
    let BackendMetrics { running, succeeded, failed, cancelled, average, p95, longest } = metrics;
    BackendStats {
        name: name.to_owned(),
        state: state.to_owned(),
        tools,
        calls: succeeded + failed + cancelled + running,
        running,
        failed,
        cancelled,
        average_ms: milliseconds(average),
        p95_ms: milliseconds(p95.min(longest)),
        longest_ms: milliseconds(longest),
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every tool")]
fn stats(handle: &Handle) -> ToolReply {
    let metrics = handle.metrics.backends();
    let snapshot = handle.state.borrow().clone();
    let view = handle.now();
    let of = |name: &BackendName| metrics.get(name).copied().unwrap_or_default();
    let mut backends: Vec<BackendStats> = Vec::new();
    for source in snapshot.catalog.sources() {
        let name = source.backend.as_str();
        let server = view.servers.get(name);
        let state = server.map_or("Ready", |server| server.status.condition.as_str());
        backends.push(row(name, state, source.entries().len(), of(&source.backend)));
    }
    for (name, server) in &view.servers {
        if !backends.iter().any(|row| row.name == *name) {
            let metrics = of(&BackendName::new(name.as_str()));
            backends.push(row(name, server.status.condition.as_str(), 0, metrics));
        }
    }
    backends.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(object(&Stats { uptime_seconds: handle.metrics.uptime().as_secs(), backends }))
}
