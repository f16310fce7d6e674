//! `core_stats`: the metrics of calls by backend.

use std::time::Duration;

use muster_api::{
    state::BackendState,
    stats::{BackendStats, Stats},
};
use muster_core::{call::Caller, name::BackendName, observer::CallStatus};
use muster_telemetry::meters::ServerCounts;
use serde_json::json;

use super::{CoreTool, ToolAudience, ToolReply, object};
use crate::handle::Handle;

pub(super) const TOOLS: &[CoreTool] = &[CoreTool {
    name: "core_stats",
    audience: ToolAudience::Everyone,
    effect: None,
    summary: "Show the backends of the gateway with their state, and how many calls each ran since the \
              gateway was started: running, failed, cancelled, and how long they took.",
    schema: || json!({"type": "object", "properties": {}}),
    run: |handle, cx, _| Box::pin(std::future::ready(stats(handle, cx.caller))),
}];

fn row(name: &str, state: BackendState, tools: usize, counts: &ServerCounts) -> BackendStats {
    let ServerCounts { running, all, .. } = counts;
    BackendStats {
        name: name.to_owned(),
        state,
        tools,
        calls: all.calls() + running,
        running: *running,
        failed: all.errors(),
        cancelled: all.ended(CallStatus::Cancelled),
        average_ms: milliseconds(all.average()),
        p95_ms: milliseconds(all.p95()),
        longest_ms: milliseconds(all.longest()),
    }
}

fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of every tool")]
fn stats(handle: &Handle, caller: &Caller) -> ToolReply {
    let meters = handle.telemetry.meters();
    let (counted, none) = (meters.servers(), ServerCounts::default());
    let (view, visible) = (handle.now(), handle.visible_servers(caller));
    let of = |name: &BackendName| counted.get(name).unwrap_or(&none);
    let mut backends: Vec<BackendStats> = Vec::new();
    for source in visible.snapshot().catalog.sources() {
        let name = source.backend.as_str();
        let server = view.servers.get(name);
        let state = server.map_or(BackendState::Ready, |server| server.status.condition.state());
        backends.push(row(name, state, source.own_tools().len(), of(&source.backend)));
    }
    for (name, server) in view.servers.iter().filter(|(name, _)| visible.has(name)) {
        if !backends.iter().any(|row| row.name == *name) {
            let counts = of(&BackendName::new(name.as_str()));
            backends.push(row(name, server.status.condition.state(), 0, counts));
        }
    }
    backends.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(object(&Stats { uptime_seconds: meters.uptime().as_secs(), backends }))
}
