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
