//! `core_service_list`, `core_service_status`, `core_service_get` and `core_service_create`.

pub use muster_workflow::service::health::ServiceHealth;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::state::BackendState;

/// The service type of MCP servers.
pub const MCP_SERVER: &str = "MCPServer";

/// The reply of `core_service_list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceList {
    /// The gateway itself, the MCP servers and the services made from classes.
    pub services: Vec<ServiceStatus>,
    /// Their number.
    pub total: usize,
}

/// The status of one service: the reply of `core_service_status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// `Aggregator`, `MCPServer`, `generic` or `unknown`.
    pub service_type: String,
    /// Its state.
    pub state: BackendState,
    /// Its health.
    pub health: ServiceHealth,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Details that depend on the type.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// The outputs of a service made from a class.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
}

/// One service in full: the reply of `core_service_get` and `core_service_create`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceInfo {
    /// Its name.
    pub name: String,
    /// The class it was made from; empty for the gateway itself and for MCP servers.
    pub service_class_name: String,
    /// The type of that class.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_class_type: String,
    /// The arguments it was made with.
    pub args: Option<Map<String, Value>>,
    /// Always false; other clients expect the key.
    pub enabled: bool,
    /// Its state.
    pub state: BackendState,
    /// Its health.
    pub health: ServiceHealth,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// The values that its lifecycle tools returned.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub service_data: Map<String, Value>,
    /// Its outputs.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
    /// When it was made, in RFC 3339.
    pub created_at: String,
    /// When it last changed, in RFC 3339.
    pub updated_at: String,
}
