//! The names of JSON types in Go, which are part of error texts that clients know.

use serde_json::Value;

/// The name of a value's type, as Go prints it with `%T`.
pub(crate) const fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
