//! `core_stats`: the metrics of calls by backend.

use std::time::Duration;

use muster_api::stats::{BackendStats, Stats};
use muster_core::{call::Caller, name::BackendName};
use muster_gateway::dispatch::BackendMetrics;
use serde_json::json;

use super::{CoreTool, ToolAudience, ToolReply, object};
use crate::handle::Handle;

pub(super) const TOOLS: &[CoreTool] = &[CoreTool {
    name: "core_stats",
    audience: ToolAudience::Everyone,
    summary: "Show the backends of the gateway with their state, and how many calls each ran since the \
              gateway was started: running, failed, cancelled, and how long they took.",
    schema: || json!({"type": "object", "properties": {}}),
    run: |handle, cx, _| Box::pin(std::future::ready(stats(handle, cx.caller))),
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
fn stats(handle: &Handle, caller: &Caller) -> ToolReply {
    let metrics = handle.metrics.backends();
    let (view, visible) = (handle.now(), handle.visible_servers(caller));
    let of = |name: &BackendName| metrics.get(name).copied().unwrap_or_default();
    let mut backends: Vec<BackendStats> = Vec::new();
    for source in visible.snapshot().catalog.sources() {
        let name = source.backend.as_str();
        let server = view.servers.get(name);
        let state = server.map_or("Ready", |server| server.status.condition.as_str());
        backends.push(row(name, state, source.own_tools().len(), of(&source.backend)));
    }
    for (name, server) in view.servers.iter().filter(|(name, _)| visible.has(name)) {
        if !backends.iter().any(|row| row.name == *name) {
            let metrics = of(&BackendName::new(name.as_str()));
            backends.push(row(name, server.status.condition.as_str(), 0, metrics));
        }
    }
    backends.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(object(&Stats { uptime_seconds: handle.metrics.uptime().as_secs(), backends }))
}
