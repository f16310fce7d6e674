//! What became of an MCP server, as its file keeps it. Only muster writes it.

use muster_core::value::Value;
use serde::Serialize;

use super::nothing;
use crate::{
    reader::Reader,
    yaml::{Node, NodeValue},
};

/// What became of an MCP server. Moments are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Capitalised: `Connected`, `Auth Required`.
    pub state: String,
    /// Why it is not as it should be.
    #[serde(skip_serializing_if = "nothing")]
    pub last_error: String,
    /// When it was last up.
    #[serde(skip_serializing_if = "nothing")]
    pub last_connected: Option<String>,
    /// How often it was started anew.
    #[serde(skip_serializing_if = "nothing")]
    pub restart_count: u64,
    /// How often in a row it could not be started.
    #[serde(skip_serializing_if = "nothing")]
    pub consecutive_failures: u64,
    /// When it was last tried.
    #[serde(skip_serializing_if = "nothing")]
    pub last_attempt: Option<String>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "nothing")]
    pub next_retry_after: Option<String>,
}

/// A status is read as far as it can be: it is no reason to refuse a file.
pub(super) fn read(_: &mut Reader, node: &Node) -> Option<Status> {
    let NodeValue::Map(pairs) = &node.value else { return Some(Status::default()) };
    let find = |name: &str| {
        pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
    };
    let text = |name: &str| find(name).and_then(written).unwrap_or_default();
    let moment = |name: &str| find(name).and_then(written).filter(|text| !text.is_empty());
    let count = |name: &str| text(name).parse().unwrap_or_default();
    Some(Status {
        state: text("state"),
        last_error: text("lastError"),
        last_connected: moment("lastConnected"),
        restart_count: count("restartCount"),
        consecutive_failures: count("consecutiveFailures"),
        last_attempt: moment("lastAttempt"),
        next_retry_after: moment("nextRetryAfter"),
    })
}

fn written(node: &Node) -> Option<String> {
    let NodeValue::Scalar(scalar) = &node.value else { return None };
    match (&scalar.value, &scalar.written) {
        (Value::Null, _) => None,
        (Value::Text(text), _) => Some(text.clone()),
        (_, Some(written)) => Some(written.to_string()),
        (Value::Int(digits), None) => Some(digits.clone()),
        (Value::Stamp(stamp), None) => Some(stamp.iso.clone()),
        (_, None) => None,
    }
}
