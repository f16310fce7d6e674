//! The file that describes a class of services.
//!
//! The long form is that of a Kubernetes resource. The short form has the fields of `spec` at the
//! top.

use indexmap::IndexMap;
use muster_workflow::service::class::{
    ArgSpec, ClassSpec, Expectation, HealthPolicy, HealthTool, LifecycleTools, ServiceClass,
    ServiceConfig, Span, Timeouts, ToolSpec,
};
use serde_json::{Map, Value as Json};

use super::{
    LoadError, Loaded,
    mcpserver::{DEFAULT_NAMESPACE, flag, name_or, pairs, text_or_empty, texts_or_none, written},
    reader::{Fields, Reader, Setting, load},
    resource::{self, json},
};
use crate::yaml::Node;

const SPEC: &[&str] = &["description", "args", "serviceConfig"];
const SHORT: &[&str] = &["name", "description", "args", "serviceConfig", "status"];
const ARG: &[&str] = &["type", "required", "default", "description"];
const CONFIG: &[&str] = &[
    // Old files have it; it never meant anything.
    "serviceType",
    "defaultName",
    "dependencies",
    "lifecycleTools",
    "healthCheck",
    "timeout",
    "outputs",
];
const TOOLS: &[&str] = &["start", "stop", "restart", "status", "healthCheck"];
const TOOL: &[&str] = &["tool", "args", "outputs"];
const HEALTH_TOOL: &[&str] = &["tool", "args", "expect", "expectNot", "expect_not"];
const EXPECT: &[&str] = &["success", "jsonPath", "json_path"];
const HEALTH: &[&str] = &["enabled", "interval", "failureThreshold", "successThreshold"];
const TIMEOUT: &[&str] = &["create", "delete", "healthCheck"];

/// Reads one file. A class without a name has that of its file, without the ending.
pub fn parse(text: &str, file_name: &str) -> Result<Loaded<ServiceClass>, LoadError> {
    load(text, |reader, node| {
        let class = match resource::is_short(node, &["serviceConfig"]) {
            true => short(reader, node, file_name),
            false => {
                let found =
                    resource::read(reader, node, "ServiceClass", file_name, |reader, node| {
                        let fields = reader.fields(node, "ServiceClassSpec", SPEC)?;
                        spec(reader, &fields)
                    })?;
                let resource::Resource { name, namespace, spec, .. } = found;
                Some(ServiceClass { name, namespace, spec })
            }
        }?;
        match class.check() {
            Ok(()) => Some(class),
            Err(invalid) => reader.refuse(node, invalid.to_string(), None),
        }
    })
}

/// The whole file. What `before` says besides its name and its spec stays as it was.
pub fn text(class: &ServiceClass, before: Option<&str>) -> String {
    let place = (class.name.as_str(), class.namespace.as_str());
    resource::text("ServiceClass", place, pairs(&class.spec), Vec::new(), before)
}

fn short(reader: &mut Reader, node: &Node, file_name: &str) -> Option<ServiceClass> {
    let fields = reader.fields(node, "ServiceClass", SHORT)?;
    let name = text_or_empty(reader, &fields, "name");
    let spec = spec(reader, &fields);
    let namespace = DEFAULT_NAMESPACE.to_owned();
    Some(ServiceClass { name: name_or(name?, file_name), namespace, spec: spec? })
}

fn spec(reader: &mut Reader, fields: &Fields<'_>) -> Option<ClassSpec> {
    let description = text_or_empty(reader, fields, "description");
    let args = reader.nullable(fields, "args", |reader, node| reader.map(node, arg));
    let service_config = reader.required(fields, "serviceConfig", config);
    Some(ClassSpec {
        description: description?,
        args: args?.0.unwrap_or_default().into_iter().collect(),
        service_config: service_config?,
    })
}

fn arg(reader: &mut Reader, node: &Node) -> Option<ArgSpec> {
    let fields = reader.fields(node, "ArgDefinition", ARG)?;
    let kind = text_or_empty(reader, &fields, "type");
    let required = flag(reader, &fields, "required");
    let default = reader.nullable(&fields, "default", |_, node| Some(json(node)));
    let description = text_or_empty(reader, &fields, "description");
    Some(ArgSpec {
        kind: kind?,
        required: required?.unwrap_or_default(),
        default: default?.0,
        description: description?,
    })
}

fn config(reader: &mut Reader, node: &Node) -> Option<ServiceConfig> {
    let fields = reader.fields(node, "ServiceConfig", CONFIG)?;
    let default_name = text_or_empty(reader, &fields, "defaultName");
    let dependencies = texts_or_none(reader, &fields, "dependencies");
    let lifecycle_tools = reader.nullable(&fields, "lifecycleTools", tools);
    let health_check = reader.nullable(&fields, "healthCheck", health);
    let timeout = reader.nullable(&fields, "timeout", timeouts);
    let outputs = texts(reader, &fields, "outputs");
    Some(ServiceConfig {
        default_name: default_name?,
        dependencies: dependencies?,
        lifecycle_tools: lifecycle_tools?.0.unwrap_or_default(),
        health_check: health_check?.0.unwrap_or_default(),
        timeout: timeout?.0.unwrap_or_default(),
        outputs: outputs?,
    })
}

fn tools(reader: &mut Reader, node: &Node) -> Option<LifecycleTools> {
    let fields = reader.fields(node, "LifecycleTools", TOOLS)?;
    let start = reader.nullable(&fields, "start", tool);
    let stop = reader.nullable(&fields, "stop", tool);
    let restart = reader.nullable(&fields, "restart", tool);
    let status = reader.nullable(&fields, "status", tool);
    let health_check = reader.nullable(&fields, "healthCheck", health_tool);
    Some(LifecycleTools {
        start: start?.0.unwrap_or_default(),
        stop: stop?.0.unwrap_or_default(),
        restart: restart?.0,
        health_check: health_check?.0,
        status: status?.0,
    })
}

fn tool(reader: &mut Reader, node: &Node) -> Option<ToolSpec> {
    let fields = reader.fields(node, "ToolCall", TOOL)?;
    let tool = text_or_empty(reader, &fields, "tool");
    let args = values(reader, &fields, "args");
    let outputs = texts(reader, &fields, "outputs");
    Some(ToolSpec { tool: tool?, args: args?.0, outputs: outputs? })
}

fn health_tool(reader: &mut Reader, node: &Node) -> Option<HealthTool> {
    let fields = reader.fields(node, "HealthCheckToolCall", HEALTH_TOOL)?;
    let tool = text_or_empty(reader, &fields, "tool");
    let args = values(reader, &fields, "args");
    let expect = reader.nullable(&fields, "expect", expectation);
    let expect_not = reader.nullable(&fields, "expectNot", expectation);
    // The spelling of calls is read too.
    let alias = reader.nullable(&fields, "expect_not", expectation);
    Some(HealthTool {
        tool: tool?,
        args: args?.0,
        expect: expect?.0,
        expect_not: expect_not?.0.or(alias?.0),
    })
}

fn expectation(reader: &mut Reader, node: &Node) -> Option<Expectation> {
    let fields = reader.fields(node, "HealthCheckExpectation", EXPECT)?;
    let success = flag(reader, &fields, "success");
    let paths = values(reader, &fields, "jsonPath");
    let alias = values(reader, &fields, "json_path");
    Some(Expectation { success: success?, json_path: paths?.0.or(alias?.0).unwrap_or_default() })
}

fn health(reader: &mut Reader, node: &Node) -> Option<HealthPolicy> {
    let fields = reader.fields(node, "HealthCheckConfig", HEALTH)?;
    let enabled = flag(reader, &fields, "enabled");
    let interval = span(reader, &fields, "interval");
    let failures = reader.nullable(&fields, "failureThreshold", count);
    let successes = reader.nullable(&fields, "successThreshold", count);
    Some(HealthPolicy {
        enabled: enabled?.unwrap_or_default(),
        interval: interval?,
        failure_threshold: failures?.0.unwrap_or_default(),
        success_threshold: successes?.0.unwrap_or_default(),
    })
}

fn timeouts(reader: &mut Reader, node: &Node) -> Option<Timeouts> {
    let fields = reader.fields(node, "TimeoutConfig", TIMEOUT)?;
    let create = span(reader, &fields, "create");
    let delete = span(reader, &fields, "delete");
    let health_check = span(reader, &fields, "healthCheck");
    Some(Timeouts { create: create?, delete: delete?, health_check: health_check? })
}

fn span(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<Span> {
    let Setting(span) = reader.nullable(fields, name, |reader, node| {
        let text = written(reader, node)?;
        match Span::parse(&text) {
            Ok(span) => Some(span),
            Err(_) => {
                let fix = "write a number with its unit, like `30s` or `1m30s`";
                reader.refuse(node, "Input should be a valid duration", fix)
            }
        }
    })?;
    Some(span.unwrap_or_default())
}

fn count(reader: &mut Reader, node: &Node) -> Option<u32> {
    let number = reader.number(node)?;
    if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is whole and within the range"
        )]
        return Some(number as u32);
    }
    reader.refuse(node, "Input should be a whole number", "write a whole number")
}

fn values(
    reader: &mut Reader,
    fields: &Fields<'_>,
    name: &str,
) -> Option<Setting<Map<String, Json>>> {
    let read = |reader: &mut Reader, node: &Node| reader.map(node, |_, node| Some(json(node)));
    let Setting(values) = reader.nullable(fields, name, read)?;
    Some(Setting(values.map(|values| values.into_iter().collect())))
}

fn texts(reader: &mut Reader, fields: &Fields<'_>, name: &str) -> Option<IndexMap<String, String>> {
    let Setting(texts) = reader.nullable(fields, name, |reader, node| reader.map(node, written))?;
    Some(texts.unwrap_or_default().into_iter().collect())
}

#[cfg(test)]
mod tests;
