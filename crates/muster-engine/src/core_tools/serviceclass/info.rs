//! A service class as `core_serviceclass_*` shows it.

use muster_api::service_class::{
    ExpectationInfo, HealthCheckInfo, HealthCheckToolInfo, LifecycleToolInfo, LifecycleToolsInfo,
    ServiceClassInfo, ServiceConfigInfo, TimeoutInfo,
};
use muster_gateway::dispatch::GatewaySnapshot;
use muster_workflow::service::{
    ServiceClass,
    class::{HealthExpectation, HealthTool, ServiceConfig, ToolSpec},
};
use serde_json::{Map, Value, json};

use crate::services::missing_tools;

/// A class, and which of its tools can be called.
pub(super) fn info(class: &ServiceClass, snapshot: &GatewaySnapshot) -> ServiceClassInfo {
    let spec = &class.spec;
    let missing_tools = missing_tools(snapshot, spec);
    let tools = &spec.service_config.lifecycle_tools;
    let available = |tool: Option<&str>| {
        tool.is_some_and(|tool| !missing_tools.iter().any(|missing| missing == tool))
    };
    ServiceClassInfo {
        name: class.name.clone(),
        version: String::new(),
        description: spec.description.clone(),
        args: spec.args.clone(),
        service_config: config(&spec.service_config),
        available: missing_tools.is_empty(),
        create_tool_available: available(Some(&tools.start.tool)),
        delete_tool_available: available(Some(&tools.stop.tool)),
        health_check_tool_available: available(
            tools.health_check.as_ref().map(|t| t.tool.as_str()),
        ),
        status_tool_available: available(tools.status.as_ref().map(|t| t.tool.as_str())),
        required_tools: spec.required_tools().into_iter().map(str::to_owned).collect(),
        missing_tools,
        unavailable: Vec::new(),
        reasons: Vec::new(),
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn config(config: &ServiceConfig) -> ServiceConfigInfo {
    let (tools, health, timeout) = (&config.lifecycle_tools, &config.health_check, &config.timeout);
    ServiceConfigInfo {
        service_type: String::new(),
        default_name: config.default_name.clone(),
        dependencies: Some(config.dependencies.clone()).filter(|names| !names.is_empty()),
        lifecycle_tools: LifecycleToolsInfo {
            start: tool(&tools.start),
            stop: tool(&tools.stop),
            restart: tools.restart.as_ref().map(tool),
            health_check: tools.health_check.as_ref().map(health_tool),
            status: tools.status.as_ref().map(tool),
        },
        health_check: HealthCheckInfo {
            enabled: health.enabled,
            interval: health.interval.as_nanoseconds(),
            failure_threshold: health.failure_threshold.into(),
            success_threshold: health.success_threshold.into(),
        },
        timeout: TimeoutInfo {
            create: timeout.create.as_nanoseconds(),
            delete: timeout.delete.as_nanoseconds(),
            health_check: timeout.health_check.as_nanoseconds(),
        },
        outputs: object(json!(config.outputs)),
    }
}

fn tool(tool: &ToolSpec) -> LifecycleToolInfo {
    let outputs = tool.outputs.iter().map(|(name, path)| (name.clone(), path.clone())).collect();
    LifecycleToolInfo { tool: tool.tool.clone(), args: json!(tool.args), outputs }
}

fn health_tool(tool: &HealthTool) -> HealthCheckToolInfo {
    HealthCheckToolInfo {
        tool: tool.tool.clone(),
        args: json!(tool.args),
        expect: tool.expect.as_ref().map(expectation),
        expect_not: tool.expect_not.as_ref().map(expectation),
    }
}

fn expectation(expect: &HealthExpectation) -> ExpectationInfo {
    ExpectationInfo { success: expect.success, json_path: object(json!(expect.json_path)) }
}
