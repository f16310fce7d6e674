//! Service classes and services.
//!
//! A class names the tools that start, stop and check something that lives longer than a call; a service
//! is an instance of it. Decisions only: the engine runs the tools.

pub mod arguments;
pub mod class;
pub mod health;
pub mod machine;
pub mod order;
pub mod values;

use serde_json::{Map, Value as Json};

pub use self::{
    class::ServiceClass,
    machine::{ServiceEvent, ServiceState, Transition, next},
};

/// A requested service.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// The namespace of its events.
    pub namespace: String,
    /// Its class.
    pub class: String,
    /// Its arguments, with defaults.
    pub args: Map<String, Json>,
    /// Whether it is started with the gateway.
    pub auto_start: bool,
}

/// The status of a service in its file. Times are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceRecord {
    /// Its state.
    pub state: String,
    /// The error, if any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// The stored results of its tools, by tool.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub given: Map<String, Json>,
    /// Its outputs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Json>,
    /// Its creation time.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    /// The time of its last change.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub updated_at: String,
}
