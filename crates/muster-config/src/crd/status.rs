//! The schemas of statuses.

use serde_json::{Value as Json, json};

/// The states of a server, including one that is not approved yet.
const STATES: &[&str] = &[
    "Running",
    "Starting",
    "Stopped",
    "Connected",
    "Auth Required",
    "Connecting",
    "Disconnected",
    "Failed",
    "Awaiting Approval",
];

/// The status of a kind whose only state is whether it is accepted.
pub(super) fn accepted_only() -> Json {
    status(&json!({}))
}

pub(super) fn mcp_server() -> Json {
    status(&json!({
        "state": {"type": "string", "enum": STATES},
        "lastError": {"type": "string"},
        "lastConnected": moment(),
        "lastAttempt": moment(),
        "nextRetryAfter": moment(),
        "restartCount": count(),
        "consecutiveFailures": count(),
    }))
}

pub(super) fn workflow() -> Json {
    status(&json!({
        "valid": {"type": "boolean"},
        "validationErrors": texts(),
        "referencedTools": texts(),
        "stepCount": count(),
    }))
}

pub(super) fn service_class() -> Json {
    status(&json!({
        "valid": {"type": "boolean"},
        "validationErrors": texts(),
        "referencedTools": texts(),
    }))
}

/// The status of a service. Unknown fields are preserved, because its stored data depends on what its tools return.
pub(super) fn service() -> Json {
    let mut schema = status(&json!({
        "state": {"type": "string"},
        "lastError": {"type": "string"},
    }));
    crate::schema::set(&mut schema, "x-kubernetes-preserve-unknown-fields", json!(true));
    schema
}

fn status(fields: &Json) -> Json {
    let mut properties = fields.clone();
    crate::schema::set(&mut properties, "conditions", conditions());
    json!({
        "type": "object",
        "description": "Its last known state; written by muster",
        "properties": properties,
    })
}

/// Conditions as `metav1.Condition` has them.
fn conditions() -> Json {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "message", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string", "maxLength": 316},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
                "lastTransitionTime": moment(),
                "reason": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1024,
                    "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
                },
                "message": {"type": "string", "maxLength": 32768},
            },
        },
    })
}

pub(super) fn moment() -> Json {
    json!({"type": "string", "format": "date-time"})
}

fn count() -> Json {
    json!({"type": "integer", "format": "int64", "minimum": 0})
}

fn texts() -> Json {
    json!({"type": "array", "items": {"type": "string"}})
}
