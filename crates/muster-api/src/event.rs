//! `core_events`.

use serde::{Deserialize, Serialize};

/// One event. `core_events` replies with a list of them, newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct EventInfo {
    /// What happened, in a sentence.
    pub message: String,
    /// The namespace of the resource.
    pub namespace: String,
    /// What happened, as an identifier.
    pub reason: String,
    /// The name of the resource.
    pub resource_name: String,
    /// The kind of the resource, such as `MCPServer`.
    pub resource_type: String,
    /// When it happened, in the gateway's time zone: `2006-01-02 15:04:05`.
    pub timestamp: String,
    /// `Normal` or `Warning`.
    pub r#type: String,
}

/// The parameters of the notification that starts a call with `follow`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PastEvents {
    /// The events before the call, newest first.
    pub events: Vec<EventInfo>,
}
