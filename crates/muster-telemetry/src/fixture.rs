//! Calls for tests.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use muster_core::{
    call::Caller,
    catalog::{ToolAudience, ToolEntry},
    json::RawObject,
    name::{BackendName, ToolName},
    observer::{CallStatus, FinishedCall},
    schema::validator::Validator,
};

/// A tool of a server.
pub(crate) fn entry(server: &str, tool: &str) -> Arc<ToolEntry> {
    Arc::new(ToolEntry {
        name: ToolName::new(tool),
        backend: BackendName::new(server),
        local_name: tool.into(),
        description: "".into(),
        input_schema: RawObject::new().to_raw().into(),
        params: None,
        definition: None,
        effect: None,
        validator: Arc::new(Validator::unchecked()),
        audience: ToolAudience::Callers,
    })
}

/// A call that is over, after so many microseconds in its backend.
pub(crate) fn finished(
    entry: Option<&Arc<ToolEntry>>,
    status: CallStatus,
    micros: Option<u64>,
) -> FinishedCall {
    FinishedCall {
        began: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000),
        duration: Duration::from_micros(micros.unwrap_or_default() + 10),
        backend_duration: micros.map(Duration::from_micros),
        caller: Caller::local(),
        surface: "meta",
        tool: entry.map_or_else(|| ToolName::new("nothing"), |entry| entry.name.clone()),
        entry: entry.cloned(),
        policy: Arc::default(),
        status,
        error: None,
        arguments: None,
        argument_bytes: 2,
        result_bytes: 100,
        span: None,
        sent: None,
    }
}
