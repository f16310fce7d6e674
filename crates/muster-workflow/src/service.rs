//! Service classes, and the services made from them.
//!
//! A class says which tools start, stop and watch something that lives longer than a call; a service
//! is one such thing. Here is what is decided about them. Running the tools is done elsewhere.

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

/// One service as somebody asked for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Where events about it belong.
    pub namespace: String,
    /// The class it is made from.
    pub class: String,
    /// What it was made with, defaults included.
    pub args: Map<String, Json>,
    /// Whether it is started with the gateway.
    pub auto_start: bool,
}

/// What became of a service, as its file keeps it. Moments are RFC 3339.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceRecord {
    /// The word for its state.
    pub state: String,
    /// Why it is not as it should be.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub last_error: String,
    /// What its tools gave, by the tool that gave it.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub given: Map<String, Json>,
    /// Its outputs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Json>,
    /// When it was made.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    /// When it last changed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub updated_at: String,
}
