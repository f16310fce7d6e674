//! The manifests are up to date, and accept what the original accepts.

use std::{fs, path::Path};

use serde_json::{Value as Json, json};

use super::{CustomResource, RESOURCES};
use crate::kinds::DefinitionKind;

/// `UPDATE_EXPECT=1` rewrites the manifests.
#[test]
fn the_manifests_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/muster/crds");
    let update = std::env::vars().any(|(name, _)| name == "UPDATE_EXPECT");
    for resource in RESOURCES {
        let path = folder.join(format!("{}.yaml", resource.plural));
        let expected = resource.manifest();
        if update {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &expected).unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(found == expected, "{} is not up to date: set UPDATE_EXPECT=1", path.display());
    }
    let files = fs::read_dir(&folder).unwrap().count();
    assert_eq!(files, RESOURCES.len(), "{} holds other files", folder.display());
}

/// The schema at a path such as `spec.steps[].tool`.
fn at(kind: &str, path: &str) -> Json {
    let definition = CustomResource::named(kind).unwrap().definition();
    let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    for part in path.replace("[]", ".[]").replace("{}", ".{}").split('.') {
        schema = match part {
            "[]" => schema["items"].clone(),
            "{}" => schema["additionalProperties"].clone(),
            name => schema["properties"][name].clone(),
        };
        assert!(schema.is_object(), "{kind} has no {path}");
    }
    schema
}

/// The fields of the original's resources, with their types.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn the_fields_of_the_original_are_there() {
    let check = |kind: &str, paths: &[(&str, &[&str])]| {
        for (holds, fields) in paths {
            for field in *fields {
                let found = at(kind, field);
                let expected = if holds.is_empty() { Json::Null } else { json!(holds) };
                assert_eq!(found["type"], expected, "{kind} {field}");
            }
        }
    };
    check(
        "MCPServer",
        &[
            (
                "string",
                &[
                    "spec.type",
                    "spec.toolPrefix",
                    "spec.description",
                    "spec.command",
                    "spec.args[]",
                    "spec.env{}",
                    "spec.url",
                    "spec.headers{}",
                    "spec.family.name",
                    "spec.family.instanceArg",
                    "spec.auth.type",
                    "spec.auth.requiredAudiences[]",
                    "spec.auth.authorizationServer.issuer",
                    "spec.auth.authorizationServer.scopes",
                    "spec.auth.tokenExchange.dexTokenEndpoint",
                    "spec.auth.tokenExchange.expectedIssuer",
                    "spec.auth.tokenExchange.connectorId",
                    "spec.auth.tokenExchange.scopes",
                    "spec.auth.tokenExchange.clientCredentialsSecretRef.name",
                    "spec.auth.tokenExchange.clientCredentialsSecretRef.namespace",
                    "spec.auth.tokenExchange.clientCredentialsSecretRef.clientIdKey",
                    "spec.auth.tokenExchange.clientCredentialsSecretRef.clientSecretKey",
                    "spec.auth.teleport.identityDir",
                    "spec.auth.teleport.identitySecretName",
                    "spec.auth.teleport.identitySecretNamespace",
                    "spec.auth.teleport.appName",
                    "status.state",
                    "status.lastError",
                    "status.lastConnected",
                    "status.lastAttempt",
                    "status.nextRetryAfter",
                    "status.conditions[].type",
                ],
            ),
            (
                "boolean",
                &["spec.autoStart", "spec.auth.forwardToken", "spec.auth.tokenExchange.enabled"],
            ),
            ("integer", &["spec.timeout", "status.restartCount", "status.consecutiveFailures"]),
        ],
    );
    check(
        "Workflow",
        &[
            (
                "string",
                &[
                    "spec.description",
                    "spec.args{}.type",
                    "spec.args{}.description",
                    "spec.steps[].id",
                    "spec.steps[].tool",
                    "spec.steps[].description",
                    "spec.steps[].condition.template",
                    "spec.steps[].condition.fromStep",
                    "spec.steps[].forEach.as",
                    "spec.steps[].forEach.steps[].tool",
                    "spec.steps[].parallel[].tool",
                    "spec.onFailure[].tool",
                    "status.validationErrors[]",
                    "status.referencedTools[]",
                ],
            ),
            (
                "boolean",
                &[
                    "spec.args{}.required",
                    "spec.steps[].allowFailure",
                    "spec.steps[].output",
                    "spec.steps[].store",
                    "spec.steps[].condition.expect.success",
                    "status.valid",
                ],
            ),
            ("object", &["spec.steps[].args", "spec.steps[].condition.expectNot.jsonPath"]),
            ("integer", &["status.stepCount"]),
            ("", &["spec.args{}.default", "spec.output", "spec.steps[].forEach.items"]),
        ],
    );
    check(
        "ServiceClass",
        &[
            (
                "string",
                &[
                    "spec.description",
                    "spec.args{}.type",
                    "spec.serviceConfig.defaultName",
                    "spec.serviceConfig.dependencies[]",
                    "spec.serviceConfig.healthCheck.interval",
                    "spec.serviceConfig.lifecycleTools.start.tool",
                    "spec.serviceConfig.lifecycleTools.start.outputs{}",
                    "spec.serviceConfig.timeout.create",
                ],
            ),
            ("object", &["spec.serviceConfig.lifecycleTools.healthCheck.expect.jsonPath"]),
        ],
    );
    check(
        "WorkflowExecution",
        &[
            (
                "string",
                &[
                    "spec.workflowName",
                    "spec.status",
                    "spec.steps[].stepId",
                    "spec.steps[].storedAs",
                ],
            ),
            ("integer", &["spec.durationMs"]),
            ("boolean", &["spec.truncated"]),
            ("", &["spec.input", "spec.result", "spec.steps[].result"]),
        ],
    );
}

#[test]
fn rules_are_at_their_places() {
    let rules = |kind: &str, path: &str| {
        at(kind, path)["x-kubernetes-validations"].as_array().map(Vec::len)
    };
    assert_eq!(rules("MCPServer", "spec"), Some(3));
    assert_eq!(rules("MCPServer", "spec.auth"), Some(3));
    assert_eq!(rules("Workflow", "spec.steps[]"), Some(1));
    for steps in ["steps[]", "steps[].forEach.steps[]", "steps[].parallel[]", "onFailure[]"] {
        assert_eq!(rules("Workflow", &format!("spec.{steps}.condition")), Some(2), "{steps}");
        assert_eq!(at("Workflow", &format!("spec.{steps}.tool"))["minLength"], 1, "{steps}");
    }
    assert_eq!(at("Workflow", "spec.steps[].forEach.items")["minLength"], 1);
    for list in ["spec.steps", "spec.steps[].forEach.steps", "spec.steps[].parallel"] {
        assert_eq!(at("Workflow", list)["minItems"], 1, "{list}");
    }
    for field in ["dexTokenEndpoint", "expectedIssuer", "connectorId"] {
        let schema = at("MCPServer", &format!("spec.auth.tokenExchange.{field}"));
        assert!(schema["pattern"].is_string(), "{field}");
    }
    for moment in ["startedAt", "completedAt", "steps[].startedAt", "steps[].completedAt"] {
        let schema = at("WorkflowExecution", &format!("spec.{moment}"));
        assert_eq!(schema["format"], "date-time", "{moment}");
    }
    assert_eq!(at("MCPServer", "spec.url")["pattern"], r"^https?://[^\s/$.?#].[^\s]*$");
}

/// A structural schema gives each value one type, and names either its fields or none.
#[test]
fn schemas_are_structural() {
    fn walk(schema: &Json, place: &str) {
        let Json::Object(members) = schema else { panic!("{place} is no schema") };
        for word in ["$ref", "anyOf", "oneOf", "patternProperties", "default"] {
            assert!(!members.contains_key(word), "{place} has {word}");
        }
        let open = members.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true));
        assert!(open || members["type"].is_string(), "{place} has no type");
        for (name, below) in
            members.get("properties").and_then(Json::as_object).into_iter().flatten()
        {
            walk(below, &format!("{place}.{name}"));
        }
        for below in ["items", "additionalProperties"].iter().filter_map(|key| members.get(*key)) {
            walk(below, &format!("{place}[]"));
        }
    }
    for resource in RESOURCES {
        let definition = resource.definition();
        walk(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], resource.kind);
    }
}

/// Checks that a spec has only fields of its resource, each of its type.
pub(super) fn conforms(kind: DefinitionKind, spec: &Json) {
    fn walk(schema: &Json, value: &Json, place: &str) {
        let holds = match value {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(number) if number.is_f64() => "number",
            Json::Number(_) => "integer",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        };
        let expected = schema["type"].as_str().unwrap_or(holds);
        let fits = holds == expected || (holds == "integer" && expected == "number");
        assert!(fits, "{place} is of type {holds}, not {expected}");
        if let Some(words) = schema["enum"].as_array() {
            assert!(words.contains(value), "{place}: {value}");
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(value.get(required.as_str().unwrap()).is_some(), "{place} has no {required}");
        }
        for (index, item) in value.as_array().into_iter().flatten().enumerate() {
            walk(&schema["items"], item, &format!("{place}[{index}]"));
        }
        let is_open = schema["x-kubernetes-preserve-unknown-fields"] == true;
        for (name, below) in value.as_object().into_iter().flatten().filter(|_| !is_open) {
            let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
            let place = format!("{place}.{name}");
            walk(known.unwrap_or_else(|| panic!("{place} is unknown")), below, &place);
        }
    }
    walk(&at(kind.resource_kind(), "spec"), spec, kind.resource_kind());
}
