//! `core_serviceclass_list` and `core_serviceclass_get`.

use indexmap::IndexMap;
pub use muster_workflow::service::class::ClassArg;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{MissingTool, UnavailableServer, is_false};

/// The reply of `core_serviceclass_list`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceClassList {
    /// Where definitions are stored; always `filesystem`.
    pub mode: String,
    /// The classes, by name; null if there are none.
    pub service_classes: Option<Vec<ServiceClassInfo>>,
    /// Their number.
    pub total: usize,
}

/// A service class, and which of its tools can be called.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the reply")]
pub struct ServiceClassInfo {
    /// Its name.
    pub name: String,
    /// Always empty; other clients expect the key.
    pub version: String,
    /// One line about it.
    pub description: String,
    /// The arguments of its services, by name.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<String, ClassArg>,
    /// How its services are run.
    pub service_config: ServiceConfigInfo,
    /// Whether all of its tools can be called.
    #[serde(skip_serializing_if = "is_false")]
    pub available: bool,
    /// Whether the start tool can be called.
    #[serde(skip_serializing_if = "is_false")]
    pub create_tool_available: bool,
    /// Whether the stop tool can be called.
    #[serde(skip_serializing_if = "is_false")]
    pub delete_tool_available: bool,
    /// Whether the health check tool can be called.
    #[serde(skip_serializing_if = "is_false")]
    pub health_check_tool_available: bool,
    /// Whether the status tool can be called.
    #[serde(skip_serializing_if = "is_false")]
    pub status_tool_available: bool,
    /// All of its tools.
    pub required_tools: Vec<String>,
    /// Those that cannot be called.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing_tools: Vec<String>,
    /// The servers of those.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unavailable: Vec<UnavailableServer>,
    /// The reasons for those that are missing for another one than their server.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<MissingTool>,
}

/// How the services of a class are run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceConfigInfo {
    /// Always empty; other clients expect the key.
    pub service_type: String,
    /// The name to propose for a service.
    pub default_name: String,
    /// Services, servers or classes that must be up first; null if there are none.
    pub dependencies: Option<Vec<String>>,
    /// The tools that start, stop and check a service.
    pub lifecycle_tools: LifecycleToolsInfo,
    /// How often the health check tool is called.
    pub health_check: HealthCheckInfo,
    /// The timeouts of the tools.
    pub timeout: TimeoutInfo,
    /// The templates of a service's outputs, by name.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub outputs: Map<String, Value>,
}

/// The tools of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleToolsInfo {
    /// Starts a service.
    pub start: LifecycleToolInfo,
    /// Stops a service.
    pub stop: LifecycleToolInfo,
    /// Restarts a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restart: Option<LifecycleToolInfo>,
    /// Checks the health of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_check: Option<HealthCheckToolInfo>,
    /// Reports the status of a service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<LifecycleToolInfo>,
}

/// A call of a lifecycle tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LifecycleToolInfo {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments, with templates.
    pub args: Value,
    /// The values to keep of its reply: name to path.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<String, String>,
}

/// A call of a health check tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthCheckToolInfo {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments, with templates.
    pub args: Value,
    /// The reply of a healthy service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect: Option<ExpectationInfo>,
    /// The reply of an unhealthy service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expect_not: Option<ExpectationInfo>,
}

/// An expected reply of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExpectationInfo {
    /// Whether the call succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// Values by path.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub json_path: Map<String, Value>,
}

/// How often the health of a service is checked.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthCheckInfo {
    /// Whether it is checked.
    pub enabled: bool,
    /// The interval in nanoseconds.
    pub interval: u64,
    /// The number of failed checks until a service is unhealthy.
    pub failure_threshold: i64,
    /// The number of good checks until a service is healthy again.
    pub success_threshold: i64,
}

/// The timeouts of lifecycle tools, in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TimeoutInfo {
    /// For the start tool.
    pub create: u64,
    /// For the stop tool.
    pub delete: u64,
    /// For the health check tool.
    pub health_check: u64,
}
