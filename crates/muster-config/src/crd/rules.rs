//! Validations that a type does not express: patterns, lengths, and rules in CEL.
//!
//! They reject only what the readers or the original's resources also reject, so that a manifest that worked is still
//! accepted.

use serde_json::{Value as Json, json};

use crate::schema::set;

/// A CEL rule and its error message.
type Rule = (&'static str, &'static str);

/// Paths of values. `[]` is an item of a list, `{}` a value of a map.
type Paths = &'static [&'static str];

/// Rules by kind and paths.
const RULES: &[(&str, Paths, &[Rule])] = &[
    (
        "MCPServer",
        &["spec"],
        &[
            (
                "has(self.command) || has(self.url)",
                "command is required for stdio, url for streamable-http and sse",
            ),
            (
                "!has(self.type) || self.type != 'stdio' || has(self.command)",
                "command is required when type is stdio",
            ),
            (
                "!has(self.type) || self.type == 'stdio' || has(self.url)",
                "url is required when type is streamable-http or sse",
            ),
        ],
    ),
    (
        "MCPServer",
        &["spec.auth"],
        &[
            (
                "!has(self.authorizationServer) || (has(self.type) && self.type == 'oauth')",
                "authorizationServer is only valid when type is oauth",
            ),
            (
                "!(has(self.forwardToken) && self.forwardToken && has(self.authorizationServer))",
                "forwardToken bypasses per-backend OAuth; set one or the other, not both",
            ),
            (
                "!(has(self.tokenExchange) && has(self.tokenExchange.enabled) && self.tokenExchange.enabled && has(self.authorizationServer))",
                "tokenExchange has its own issuer; set one or the other, not both",
            ),
        ],
    ),
    (
        "Workflow",
        &["spec.steps[]"],
        &[(
            "(has(self.tool) ? 1 : 0) + (has(self.forEach) ? 1 : 0) + (has(self.parallel) ? 1 : 0) == 1",
            "exactly one of tool, forEach or parallel is required",
        )],
    ),
    (
        "Workflow",
        &[
            "spec.steps[].condition",
            "spec.steps[].forEach.steps[].condition",
            "spec.steps[].parallel[].condition",
            "spec.onFailure[].condition",
        ],
        &[
            (
                "(has(self.template) ? 1 : 0) + (has(self.tool) ? 1 : 0) + (has(self.fromStep) ? 1 : 0) == 1",
                "exactly one of template, tool or fromStep is required",
            ),
            (
                "has(self.template) || has(self.expect) || has(self.expectNot)",
                "a condition with tool or fromStep requires expect or expectNot",
            ),
        ],
    ),
];

/// An address with TLS.
const HTTPS: &str = r"^https://[^\s/$.?#].[^\s]*$";

/// Patterns by kind and path.
const PATTERNS: &[(&str, &str, &str)] = &[
    ("MCPServer", "spec.url", r"^https?://[^\s/$.?#].[^\s]*$"),
    ("MCPServer", "spec.toolPrefix", "^[a-zA-Z][a-zA-Z0-9_-]*$"),
    ("MCPServer", "spec.family.name", "^[a-zA-Z][a-zA-Z0-9_-]*$"),
    ("MCPServer", "spec.family.instanceArg", "^[a-zA-Z][a-zA-Z0-9_]*$"),
    ("MCPServer", "spec.auth.authorizationServer.issuer", "^https://[^/?#]+(/[^?#]*[^/?#])?$"),
    ("MCPServer", "spec.auth.tokenExchange.dexTokenEndpoint", HTTPS),
    ("MCPServer", "spec.auth.tokenExchange.expectedIssuer", HTTPS),
    ("MCPServer", "spec.auth.tokenExchange.connectorId", "^[a-zA-Z][a-zA-Z0-9_-]*$"),
];

/// Values that must not be empty, by kind and path.
const NOT_EMPTY: &[(&str, &str)] = &[
    ("Workflow", "spec.steps[].tool"),
    ("Workflow", "spec.steps[].forEach.items"),
    ("Workflow", "spec.steps[].forEach.steps"),
    ("Workflow", "spec.steps[].forEach.steps[].tool"),
    ("Workflow", "spec.steps[].parallel"),
    ("Workflow", "spec.steps[].parallel[].tool"),
    ("Workflow", "spec.onFailure[].tool"),
];

/// Text fields that hold timestamps, by kind and path.
const MOMENTS: &[(&str, &str)] = &[
    ("WorkflowExecution", "spec.startedAt"),
    ("WorkflowExecution", "spec.completedAt"),
    ("WorkflowExecution", "spec.steps[].startedAt"),
    ("WorkflowExecution", "spec.steps[].completedAt"),
];

/// Adds the validations of a value, and of everything below it, to its schema.
pub(super) fn add(kind: &str, path: &mut Vec<&str>, schema: &mut Json) {
    let place = path.join(".").replace(".[]", "[]").replace(".{}", "{}");
    let here = RULES.iter().find(|(of, at, _)| *of == kind && at.contains(&place.as_str()));
    if let Some((_, _, rules)) = here {
        let rules: Vec<Json> =
            rules.iter().map(|(rule, message)| json!({"rule": rule, "message": message})).collect();
        set(schema, "x-kubernetes-validations", json!(rules));
    }
    let pattern = PATTERNS.iter().find(|(of, at, _)| *of == kind && *at == place);
    if let Some((_, _, pattern)) = pattern {
        set(schema, "pattern", json!(pattern));
    }
    if NOT_EMPTY.contains(&(kind, place.as_str())) {
        let keyword = match schema.get("type").and_then(Json::as_str) {
            Some("array") => "minItems",
            _ => "minLength",
        };
        set(schema, keyword, json!(1));
    }
    if MOMENTS.contains(&(kind, place.as_str())) {
        set(schema, "format", json!("date-time"));
    }
    let Json::Object(members) = schema else { return };
    if let Some(Json::Object(properties)) = members.get_mut("properties") {
        for (name, below) in properties {
            let mut deeper: Vec<&str> = path.clone();
            deeper.push(name);
            add(kind, &mut deeper, below);
        }
    }
    for (key, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if let Some(below) = members.get_mut(key) {
            let mut deeper: Vec<&str> = path.clone();
            deeper.push(mark);
            add(kind, &mut deeper, below);
        }
    }
}
