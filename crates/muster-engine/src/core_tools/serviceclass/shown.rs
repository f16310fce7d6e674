//! A service class as tools show it.

use muster_gateway::dispatch::GatewaySnapshot;
use muster_workflow::service::{
    ServiceClass,
    class::{Expectation, HealthTool, ServiceConfig, ToolSpec},
};
use serde_json::{Map, Value, json};

use crate::services::missing_tools;

/// A class, and which of its tools are there. What is false or empty is left out.
pub(super) fn shown(class: &ServiceClass, state: &GatewaySnapshot) -> Value {
    let spec = &class.spec;
    let mut all = Map::new();
    let mut put = |name: &str, value: Value| drop(all.insert(name.to_owned(), value));
    put("name", json!(class.name));
    put("version", json!(""));
    put("description", json!(spec.description));
    if !spec.args.is_empty() {
        put("args", json!(spec.args));
    }
    put("serviceConfig", config(&spec.service_config));
    let missing = missing_tools(state, spec);
    let tools = &spec.service_config.lifecycle_tools;
    let there = |tool: Option<&str>| {
        tool.is_some_and(|tool| !missing.iter().any(|missing| missing == tool))
    };
    let marks = [
        ("available", missing.is_empty()),
        ("createToolAvailable", there(Some(&tools.start.tool))),
        ("deleteToolAvailable", there(Some(&tools.stop.tool))),
        (
            "healthCheckToolAvailable",
            there(tools.health_check.as_ref().map(|tool| tool.tool.as_str())),
        ),
        ("statusToolAvailable", there(tools.status.as_ref().map(|tool| tool.tool.as_str()))),
    ];
    for (name, _) in marks.into_iter().filter(|(_, there)| *there) {
        put(name, json!(true));
    }
    put("requiredTools", json!(spec.required_tools()));
    if !missing.is_empty() {
        put("missingTools", json!(missing));
    }
    Value::Object(all)
}

fn config(config: &ServiceConfig) -> Value {
    let tools = &config.lifecycle_tools;
    let mut lifecycle = Map::new();
    lifecycle.insert("start".to_owned(), tool(&tools.start));
    lifecycle.insert("stop".to_owned(), tool(&tools.stop));
    let others = [
        ("restart", tools.restart.as_ref().map(tool)),
        ("healthCheck", tools.health_check.as_ref().map(health_tool)),
        ("status", tools.status.as_ref().map(tool)),
    ];
    for (name, other) in others {
        lifecycle.extend(other.map(|other| (name.to_owned(), other)));
    }
    let health = &config.health_check;
    let mut shown = json!({
        "serviceType": "",
        "defaultName": config.default_name,
        "dependencies": if config.dependencies.is_empty() { Value::Null } else { json!(config.dependencies) },
        "lifecycleTools": lifecycle,
        "healthCheck": {
            "enabled": health.enabled,
            "interval": health.interval.as_nanoseconds(),
            "failureThreshold": health.failure_threshold,
            "successThreshold": health.success_threshold,
        },
        "timeout": {
            "create": config.timeout.create.as_nanoseconds(),
            "delete": config.timeout.delete.as_nanoseconds(),
            "healthCheck": config.timeout.health_check.as_nanoseconds(),
        },
    });
    if let (false, Some(shown)) = (config.outputs.is_empty(), shown.as_object_mut()) {
        shown.insert("outputs".to_owned(), json!(config.outputs));
    }
    shown
}

fn tool(tool: &ToolSpec) -> Value {
    let mut shown = Map::new();
    shown.insert("tool".to_owned(), json!(tool.tool));
    shown.insert("args".to_owned(), json!(tool.args));
    if !tool.outputs.is_empty() {
        shown.insert("outputs".to_owned(), json!(tool.outputs));
    }
    Value::Object(shown)
}

fn health_tool(tool: &HealthTool) -> Value {
    let mut shown = Map::new();
    shown.insert("tool".to_owned(), json!(tool.tool));
    shown.insert("args".to_owned(), json!(tool.args));
    for (name, expect) in [("expect", &tool.expect), ("expect_not", &tool.expect_not)] {
        shown.extend(expect.as_ref().map(|expect| (name.to_owned(), expectation(expect))));
    }
    Value::Object(shown)
}

fn expectation(expect: &Expectation) -> Value {
    let mut shown = Map::new();
    shown.extend(expect.success.map(|success| ("success".to_owned(), json!(success))));
    if !expect.json_path.is_empty() {
        shown.insert("json_path".to_owned(), json!(expect.json_path));
    }
    Value::Object(shown)
}
