//! `core_config_get` and `core_config_get_aggregator`.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The settings of `config.yaml`, or of one of its sections. Secrets are redacted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigInfo {
    /// The settings, by the names that replies use.
    pub settings: IndexMap<String, ConfigValue>,
}

/// A setting.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ConfigValue {
    /// A section of settings.
    Section(ConfigInfo),
    /// A value: a scalar or a list.
    Value(Value),
}

/// A problem of a configuration file, in the reply of `core_config_problems`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConfigProblem {
    /// The file.
    pub file: String,
    /// The line, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// What is wrong, beginning with the field.
    pub message: String,
    /// How to fix it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
    /// Whether the file cannot be used.
    pub error: bool,
}
