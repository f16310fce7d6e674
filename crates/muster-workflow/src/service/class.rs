//! Service classes.

use std::time::Duration;

use indexmap::IndexMap;
use muster_core::name::{InvalidName, check_resource_name};
use muster_template::duration;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value as Json};
use thiserror::Error;

/// The default timeout of tools that start or stop a service.
const DEFAULT_TOOL_TIMEOUT: Duration = Duration::from_secs(10);
/// The default interval of health checks.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// The default number of failed checks in a row that make a service unhealthy.
const DEFAULT_FAILURE_THRESHOLD: u32 = 3;

/// A service class.
#[derive(Debug, Clone, PartialEq)]
pub struct ServiceClass {
    /// Its name.
    pub name: String,
    /// The namespace of its events.
    pub namespace: String,
    /// Its definition.
    pub spec: ClassSpec,
}

/// The definition of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClassSpec {
    /// Its description.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
    /// The arguments of its services.
    #[serde(skip_serializing_if = "is_default")]
    pub args: IndexMap<String, ClassArg>,
    /// How its services are run.
    pub service_config: ServiceConfig,
}

/// One argument of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassArg {
    /// `string`, `integer`, `boolean`, `number`, `object` or `array`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it is required.
    #[serde(skip_serializing_if = "is_default")]
    pub required: bool,
    /// Its default.
    #[serde(skip_serializing_if = "is_default")]
    pub default: Option<Json>,
    /// Its description.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
}

/// How the services of a class are run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceConfig {
    /// The default name of services; only shown.
    #[serde(skip_serializing_if = "is_default")]
    pub default_name: String,
    /// Services, servers or classes that must be up first.
    #[serde(skip_serializing_if = "is_default")]
    pub dependencies: Vec<String>,
    /// The tools.
    pub lifecycle_tools: LifecycleTools,
    /// The health checks.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check: HealthPolicy,
    /// The timeouts of tools.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: Timeouts,
    /// The outputs of a running service: templates.
    #[serde(skip_serializing_if = "is_default", deserialize_with = "texts")]
    pub outputs: IndexMap<String, String>,
}

/// The tools of a class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LifecycleTools {
    /// Starts a service.
    pub start: ToolSpec,
    /// Stops it.
    pub stop: ToolSpec,
    /// Restarts it; without one it is stopped and started.
    #[serde(skip_serializing_if = "is_default")]
    pub restart: Option<ToolSpec>,
    /// Checks its health.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check: Option<HealthTool>,
    /// Returns its status.
    #[serde(skip_serializing_if = "is_default")]
    pub status: Option<ToolSpec>,
}

/// A call of a tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolSpec {
    /// Its name.
    pub tool: String,
    /// Its arguments; texts are templates.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Option<Map<String, Json>>,
    /// The values to store from its result: a name and a path each.
    #[serde(skip_serializing_if = "is_default")]
    pub outputs: IndexMap<String, String>,
}

/// A call of a tool, and conditions on its result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthTool {
    /// Its name.
    pub tool: String,
    /// Its arguments; texts are templates.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Option<Map<String, Json>>,
    /// Conditions that must hold.
    #[serde(skip_serializing_if = "is_default")]
    pub expect: Option<HealthExpectation>,
    /// Conditions that must not hold.
    #[serde(skip_serializing_if = "is_default", alias = "expect_not")]
    pub expect_not: Option<HealthExpectation>,
}

/// Conditions on a result.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthExpectation {
    /// Whether the call succeeded.
    #[serde(skip_serializing_if = "is_default")]
    pub success: Option<bool>,
    /// Values by path.
    #[serde(skip_serializing_if = "is_default", alias = "json_path")]
    pub json_path: Map<String, Json>,
}

/// The interval and thresholds of health checks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HealthPolicy {
    /// Whether health is checked.
    pub enabled: bool,
    /// The interval between checks.
    #[serde(skip_serializing_if = "is_default")]
    pub interval: GoDuration,
    /// Failed checks in a row that make a service unhealthy.
    #[serde(skip_serializing_if = "is_default")]
    pub failure_threshold: u32,
    /// Successful checks in a row that make it healthy again.
    #[serde(skip_serializing_if = "is_default")]
    pub success_threshold: u32,
}

/// Timeouts of tools; zero for the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Timeouts {
    /// The tool that starts.
    #[serde(skip_serializing_if = "is_default")]
    pub create: GoDuration,
    /// The tool that stops.
    #[serde(skip_serializing_if = "is_default")]
    pub delete: GoDuration,
    /// The tool that checks health.
    #[serde(skip_serializing_if = "is_default")]
    pub health_check: GoDuration,
}

/// A duration: in files as Go writes it (`1m30s`), in calls nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration {
    nanoseconds: u64,
}

impl GoDuration {
    /// From nanoseconds.
    pub const fn nanoseconds(nanoseconds: u64) -> Self {
        Self { nanoseconds }
    }

    /// In nanoseconds.
    pub const fn as_nanoseconds(self) -> u64 {
        self.nanoseconds
    }

    /// From text like `30s` or `1h30m`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let nanoseconds = duration::parse(text)?;
        let nanoseconds =
            u64::try_from(nanoseconds).map_err(|_| "it must not be negative".to_owned())?;
        Ok(Self { nanoseconds })
    }

    /// The duration, or the default if it is zero.
    pub const fn or(self, usual: Duration) -> Duration {
        match self.nanoseconds {
            0 => usual,
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nanoseconds = i64::try_from(self.nanoseconds).unwrap_or(i64::MAX);
        serializer.serialize_str(&duration::format(nanoseconds))
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(i64),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self { nanoseconds: u64::try_from(number).unwrap_or(0) }),
            Written::Text(text) => Self::parse(&text).map_err(D::Error::custom),
        }
    }
}

/// Outputs of any type; values that are not text are converted.
fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<IndexMap<String, String>, D::Error> {
    let values = IndexMap::<String, Json>::deserialize(from)?;
    let text = |value: Json| match value {
        Json::String(text) => text,
        value => value.to_string(),
    };
    Ok(values.into_iter().map(|(name, value)| (name, text(value))).collect())
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl HealthPolicy {
    /// The interval between checks.
    pub const fn pause(&self) -> Duration {
        self.interval.or(DEFAULT_INTERVAL)
    }

    /// Failed checks in a row that make a service unhealthy.
    pub const fn failures(&self) -> u32 {
        if self.failure_threshold == 0 { DEFAULT_FAILURE_THRESHOLD } else { self.failure_threshold }
    }

    /// Successful checks in a row that make it healthy again.
    pub const fn successes(&self) -> u32 {
        if self.success_threshold == 0 { 1 } else { self.success_threshold }
    }
}

impl Timeouts {
    /// The timeout of starting.
    pub const fn start(&self) -> Duration {
        self.create.or(DEFAULT_TOOL_TIMEOUT)
    }

    /// The timeout of stopping.
    pub const fn stop(&self) -> Duration {
        self.delete.or(DEFAULT_TOOL_TIMEOUT)
    }

    /// The timeout of a health check.
    pub const fn check(&self) -> Duration {
        self.health_check.or(DEFAULT_TOOL_TIMEOUT)
    }
}

/// Why a class cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InvalidClass {
    /// Its name is invalid.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// Nothing starts its services.
    #[error("serviceConfig.lifecycleTools.start.tool is required")]
    NoStart,
    /// Nothing stops them.
    #[error("serviceConfig.lifecycleTools.stop.tool is required")]
    NoStop,
}

impl ServiceClass {
    /// Checks that the class is complete.
    pub fn check(&self) -> Result<(), InvalidClass> {
        check_resource_name(&self.name)?;
        self.spec.check()
    }
}

impl ClassSpec {
    /// Checks that there are tools to start and to stop.
    pub fn check(&self) -> Result<(), InvalidClass> {
        let tools = &self.service_config.lifecycle_tools;
        match (tools.start.tool.as_str(), tools.stop.tool.as_str()) {
            ("", _) => Err(InvalidClass::NoStart),
            (_, "") => Err(InvalidClass::NoStop),
            _ => Ok(()),
        }
    }

    /// The tools that it needs, without repetitions.
    pub fn required_tools(&self) -> Vec<&str> {
        let tools = &self.service_config.lifecycle_tools;
        let all = [
            Some(tools.start.tool.as_str()),
            Some(tools.stop.tool.as_str()),
            tools.restart.as_ref().map(|tool| tool.tool.as_str()),
            tools.health_check.as_ref().map(|tool| tool.tool.as_str()),
            tools.status.as_ref().map(|tool| tool.tool.as_str()),
        ];
        let mut required: Vec<&str> = Vec::new();
        for tool in all.into_iter().flatten().filter(|tool| !tool.is_empty()) {
            if !required.contains(&tool) {
                required.push(tool);
            }
        }
        required
    }
}
