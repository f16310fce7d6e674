//! JSON as YAML for people.

use muster_config::writer;
use muster_core::value::Value;
use serde_json::value::RawValue;

/// Writes a JSON value as a YAML document, without the last line end.
pub fn document(json: &RawValue) -> String {
    writer::page(&Value::from_json(json))
}
