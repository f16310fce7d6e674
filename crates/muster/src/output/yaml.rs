//! Formats JSON as YAML.

use muster_config::writer;
use muster_core::value::Value;
use serde_json::value::RawValue;

/// Writes a JSON value as a YAML document, without the final line end.
pub fn document(json: &RawValue) -> String {
    writer::page(&Value::from_json(json))
}
