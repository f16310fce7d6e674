//! The `status` of an MCP server file, which only muster writes.

use muster_core::value::Value;
use serde::Serialize;

use super::is_default;
use crate::yaml::{Node, NodeValue};

/// The last known state of an MCP server. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    /// The state as displayed, such as `Auth Required`.
    pub state: String,
    /// The error behind that state.
    #[serde(skip_serializing_if = "is_default")]
    pub last_error: String,
    /// When it was last connected.
    #[serde(skip_serializing_if = "is_default")]
    pub last_connected: Option<String>,
    /// The number of restarts.
    #[serde(skip_serializing_if = "is_default")]
    pub restart_count: u64,
    /// Failed connection attempts in a row.
    #[serde(skip_serializing_if = "is_default")]
    pub consecutive_failures: u64,
    /// The last connection attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub last_attempt: Option<String>,
    /// The next connection attempt.
    #[serde(skip_serializing_if = "is_default")]
    pub next_retry_after: Option<String>,
}

/// Reads a status as far as possible: a broken one does not invalidate the file.
pub(super) fn read(node: &Node) -> McpServerStatus {
    let NodeValue::Map(pairs) = &node.value else { return McpServerStatus::default() };
    let find = |name: &str| {
        pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
    };
    let text = |name: &str| find(name).and_then(written).unwrap_or_default();
    let time = |name: &str| find(name).and_then(written).filter(|text| !text.is_empty());
    let count = |name: &str| text(name).parse().unwrap_or_default();
    McpServerStatus {
        state: text("state"),
        last_error: text("lastError"),
        last_connected: time("lastConnected"),
        restart_count: count("restartCount"),
        consecutive_failures: count("consecutiveFailures"),
        last_attempt: time("lastAttempt"),
        next_retry_after: time("nextRetryAfter"),
    }
}

fn written(node: &Node) -> Option<String> {
    let NodeValue::Scalar(scalar) = &node.value else { return None };
    match (&scalar.value, &scalar.written) {
        (Value::Null, _) => None,
        (Value::Text(text), _) => Some(text.clone()),
        (_, Some(written)) => Some(written.to_string()),
        (Value::Int(digits), None) => Some(digits.clone()),
        (Value::Timestamp(stamp), None) => Some(stamp.iso.clone()),
        (_, None) => None,
    }
}
