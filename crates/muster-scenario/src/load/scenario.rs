//! Reads a [`Scenario`] from a YAML tree.

use std::{path::Path, time::Duration};

use muster_config::yaml::Node;
use serde_json::{Map, Value};

use super::node::{Diagnostics, Fields, boolean, count, object, span, text, texts};
use crate::{
    go_format,
    mock::{self, ErrorStyle},
    oauth,
    oauth::config::Feature,
    scenario::{
        Budget, ConfigObject, Expected, ExpectedNotification, MockTransport, ObjectKind,
        PreConfiguration, Presence, Scenario, ScenarioServer, ServerKind, Step,
    },
};

/// The default `within` of an expected notification.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(5);
/// The default `within` of an absent notification.
const SILENT_FOR: Duration = Duration::from_secs(1);

pub(super) fn read(node: &Node, file: &Path, diagnostics: &mut Diagnostics) -> Option<Scenario> {
    let mut fields = Fields::open(node, "", diagnostics)?;
    let name = fields.required("name", diagnostics, "scenario name is required");
    let category = fields.required("category", diagnostics, "scenario category is required");
    let concept = fields.required("concept", diagnostics, "scenario concept is required");
    let steps = fields.items("steps", diagnostics);
    if steps.is_empty() {
        diagnostics.error(fields.line(), "steps", "scenario must have at least one step");
    }
    let steps = read_steps(steps, diagnostics);
    let cleanup = fields.items("cleanup", diagnostics);
    let scenario = Scenario {
        file: file.to_owned(),
        name,
        category,
        concept,
        description: fields.read("description", diagnostics, text).unwrap_or_default(),
        tags: fields.read("tags", diagnostics, texts).unwrap_or_default(),
        skip: fields.read("skip", diagnostics, boolean).unwrap_or_default(),
        timeout: fields.read("timeout", diagnostics, span),
        setup: match fields.get("pre_configuration") {
            Some(node) => setup(node, diagnostics).unwrap_or_default(),
            None => PreConfiguration::default(),
        },
        steps,
        cleanup: read_steps(cleanup, diagnostics),
    };
    fields.finish(&["prerequisites"], diagnostics);
    Some(scenario)
}

fn read_steps(items: Vec<(String, &Node)>, diagnostics: &mut Diagnostics) -> Vec<Step> {
    items.into_iter().filter_map(|(path, node)| read_step(node, &path, diagnostics)).collect()
}

fn read_step(node: &Node, path: &str, diagnostics: &mut Diagnostics) -> Option<Step> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let step = Step {
        line: node.line,
        id: fields.required("id", diagnostics, "step id is required"),
        tool: fields.required("tool", diagnostics, "step tool is required"),
        description: fields.read("description", diagnostics, text).unwrap_or_default(),
        args: fields.read("args", diagnostics, object),
        timeout: fields.read("timeout", diagnostics, span),
        as_user: fields.read("as_user", diagnostics, text),
        expected: match fields.get("expected") {
            Some(node) => expected(node, &fields.at("expected"), diagnostics).unwrap_or_default(),
            None => Expected::default(),
        },
    };
    if let Some(node) = fields.get("retry") {
        retry(node, &fields.at("retry"), diagnostics);
    }
    fields.finish(&["continue_on_failure", "cleanup"], diagnostics);
    Some(step)
}

/// Validates `retry`, which has no effect.
fn retry(node: &Node, path: &str, diagnostics: &mut Diagnostics) {
    let Some(mut fields) = Fields::open(node, path, diagnostics) else { return };
    let not_negative = |node: &Node| match text(node)?.starts_with('-') {
        true => Err("must not be negative".to_owned()),
        false => Ok(()),
    };
    for key in ["count", "delay", "backoff_multiplier"] {
        fields.read(key, diagnostics, not_negative);
    }
    diagnostics.warning(node.line, path, "has no effect");
    fields.finish(&[], diagnostics);
}

fn expected(node: &Node, path: &str, diagnostics: &mut Diagnostics) -> Option<Expected> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let list = |fields: &mut Fields<'_>, key, diagnostics: &mut Diagnostics| {
        fields.read(key, diagnostics, texts).unwrap_or_default()
    };
    let paths = fields.read("json_path", diagnostics, object).unwrap_or_default();
    let mut expected = Expected {
        success: fields.read("success", diagnostics, boolean).unwrap_or_default(),
        error_contains: list(&mut fields, "error_contains", diagnostics),
        contains: list(&mut fields, "contains", diagnostics),
        not_contains: list(&mut fields, "not_contains", diagnostics),
        json_path: paths.into_iter().collect(),
        wait_for_state: fields.read("wait_for_state", diagnostics, span),
        budget: Budget {
            max_bytes: fields.read("max_bytes", diagnostics, count),
            max_tokens: fields.read("max_tokens", diagnostics, count),
            max_duration: fields.read("max_duration", diagnostics, span),
        },
        notifications: Vec::new(),
    };
    for (path, node) in fields.items("notifications", diagnostics) {
        expected.notifications.extend(notification(node, &path, diagnostics));
    }
    if expected.success && !expected.error_contains.is_empty() {
        diagnostics.warning(node.line, path, "`error_contains` cannot hold when `success` is true");
    }
    fields.finish(&["status_code"], diagnostics);
    Some(expected)
}

fn notification(
    node: &Node,
    path: &str,
    diagnostics: &mut Diagnostics,
) -> Option<ExpectedNotification> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let absent = fields.read("absent", diagnostics, boolean).unwrap_or_default();
    let (presence, within) = match absent {
        true => (Presence::Absent, SILENT_FOR),
        false => (Presence::Present, NOTIFIED_WITHIN),
    };
    let notification = ExpectedNotification {
        method: fields.required("method", diagnostics, "method is required"),
        contains: fields.read("contains", diagnostics, texts).unwrap_or_default(),
        within: fields.read("within", diagnostics, span).unwrap_or(within),
        presence,
    };
    fields.finish(&[], diagnostics);
    Some(notification)
}

fn setup(node: &Node, diagnostics: &mut Diagnostics) -> Option<PreConfiguration> {
    let mut fields = Fields::open(node, "pre_configuration", diagnostics)?;
    let mut setup = PreConfiguration::default();
    // The arguments that service classes pass are not those of their tools' schemas.
    let shows_schemas = fields.get("service_classes").is_none();
    for (path, node) in fields.items("mcp_servers", diagnostics) {
        setup.mcp_servers.extend(server(node, &path, shows_schemas, diagnostics));
    }
    for (path, node) in fields.items("workflows", diagnostics) {
        setup.objects.extend(configured(node, &path, ObjectKind::Workflow, diagnostics));
    }
    for (path, node) in fields.items("service_classes", diagnostics) {
        setup.objects.extend(service_class(node, &path, diagnostics));
    }
    for (path, node) in fields.items("services", diagnostics) {
        setup.objects.extend(configured(node, &path, ObjectKind::Service, diagnostics));
    }
    if let Some(node) = fields.get("main_config") {
        let path = fields.at("main_config");
        if let Some(mut fields) = Fields::open(node, &path, diagnostics) {
            setup.main_config = fields.read("config", diagnostics, object).unwrap_or_default();
            fields.finish(&[], diagnostics);
        }
    }
    for (path, node) in fields.items("mock_oauth_servers", diagnostics) {
        setup.oauth_servers.extend(oauth::config::provider(node, &path, diagnostics));
    }
    let path = fields.at("muster_broker");
    if let Some(node) = fields.get("muster_broker")
        && let Some(mut fields) = Fields::open(node, &path, diagnostics)
    {
        for (path, node) in fields.items("trusted_issuers", diagnostics) {
            setup.trusted_issuers.extend(oauth::config::trusted(node, &path, diagnostics));
        }
        fields.finish(&[], diagnostics);
    }
    // Only signed tokens can be trusted, and their keys are fetched with TLS.
    for provider in &mut setup.oauth_servers {
        if setup.trusted_issuers.iter().any(|trusted| trusted.provider == provider.name) {
            provider.features.extend([Feature::SignTokens, Feature::Tls]);
        }
    }
    let pairs = |node: &Node| {
        let pairs = object(node)?.into_iter().map(|(key, value)| match value {
            Value::String(text) => (key, text),
            other => (key, other.to_string()),
        });
        Ok(pairs.collect())
    };
    setup.files = fields.read("files", diagnostics, pairs).unwrap_or_default();
    setup.env = fields.read("env", diagnostics, pairs).unwrap_or_default();
    setup.serve_args = fields.read("serve_args", diagnostics, texts).unwrap_or_default();
    fields.finish(&[], diagnostics);
    check_references(&setup, node.line, diagnostics);
    Some(setup)
}

/// Reports references to providers that are not defined.
fn check_references(setup: &PreConfiguration, line: usize, diagnostics: &mut Diagnostics) {
    let known: Vec<&str> = setup.oauth_servers.iter().map(|server| &*server.name).collect();
    let guards = setup.mcp_servers.iter().filter_map(ScenarioServer::guard);
    let of_guards = guards.flat_map(|guard| {
        let exchange = guard.exchange.as_ref().and_then(|exchange| exchange.provider.as_ref());
        guard.provider.iter().chain(exchange)
    });
    let trusted = setup.oauth_servers.iter().flat_map(|server| &server.trusted);
    let brokered = setup.trusted_issuers.iter().map(|trusted| &trusted.provider);
    for name in of_guards.chain(trusted.map(|(_, name)| name)).chain(brokered) {
        if !known.contains(&name.as_str()) {
            let text = format!("unknown mock OAuth server `{name}`");
            diagnostics.error(line, "pre_configuration", text);
        }
    }
}

fn server(
    node: &Node,
    path: &str,
    shows_schemas: bool,
    diagnostics: &mut Diagnostics,
) -> Option<ScenarioServer> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let name = fields.required("name", diagnostics, "server name is required");
    let config_path = fields.at("config");
    let config = fields.get("config");
    fields.finish(&[], diagnostics);
    let Some(config) = config else {
        diagnostics.error(node.line, &config_path, "server config is required");
        return None;
    };
    let kind = server_kind(config, &config_path, shows_schemas, diagnostics)?;
    Some(ScenarioServer { name, kind })
}

fn server_kind(
    node: &Node,
    path: &str,
    shows_schemas: bool,
    diagnostics: &mut Diagnostics,
) -> Option<ServerKind> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    if mock::config::WRITTEN.into_iter().all(|key| fields.get(key).is_none()) {
        return object(node).ok().map(ServerKind::Plain);
    }
    let transport = fields.read("type", diagnostics, |node| match text(node)?.as_str() {
        "sse" => Ok(Some(MockTransport::Sse)),
        "streamable-http" => Ok(Some(MockTransport::StreamableHttp)),
        "stdio" => Ok(None),
        other => Err(format!("`{other}` is none of `stdio`, `streamable-http` and `sse`")),
    });
    let oauth = fields.get("oauth");
    let oauth = oauth.and_then(|node| oauth::config::guard(node, &fields.at("oauth"), diagnostics));
    let mut mock = mock::config::read(node, &mut fields, shows_schemas, diagnostics);
    mock.error_style = match &oauth {
        Some(guard) if guard.required => ErrorStyle::ToolResult,
        Some(_) | None => ErrorStyle::ProtocolError,
    };
    fields.finish(&[], diagnostics);
    Some(match transport.flatten() {
        Some(transport) => ServerKind::Remote { mock, transport, oauth: oauth.map(Box::new) },
        None => ServerKind::Stdio(mock),
    })
}

/// Reads `{name, config}`. A name inside the config is dropped: it is not part of the object.
fn configured(
    node: &Node,
    path: &str,
    kind: ObjectKind,
    diagnostics: &mut Diagnostics,
) -> Option<ConfigObject> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let name = fields.required("name", diagnostics, "name is required");
    let mut spec = fields.read("config", diagnostics, object).unwrap_or_default();
    spec.shift_remove("name");
    let labels = fields.read("labels", diagnostics, object).unwrap_or_default();
    fields.finish(&[], diagnostics);
    Some(ConfigObject { kind, name, labels, spec })
}

fn service_class(node: &Node, path: &str, diagnostics: &mut Diagnostics) -> Option<ConfigObject> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let name = fields.required("name", diagnostics, "name is required");
    let mut spec = fields.rest();
    for tool in lifecycle_tools(&mut spec) {
        if let Some(args) = tool.get_mut("args").and_then(Value::as_object_mut) {
            args.values_mut().for_each(as_bytes);
        }
    }
    for args in arguments(&mut spec) {
        if let Some(default) = args.get_mut("default") {
            as_bytes(default);
        }
    }
    Some(ConfigObject { kind: ObjectKind::ServiceClass, name, labels: Map::new(), spec })
}

fn lifecycle_tools(spec: &mut Map<String, Value>) -> Vec<&mut Value> {
    let tools = spec.get_mut("serviceConfig").and_then(|config| config.get_mut("lifecycleTools"));
    tools
        .and_then(Value::as_object_mut)
        .map(|tools| tools.values_mut().collect())
        .unwrap_or_default()
}

fn arguments(spec: &mut Map<String, Value>) -> Vec<&mut Value> {
    let args = spec.get_mut("args").and_then(Value::as_object_mut);
    args.map(|args| args.values_mut().collect()).unwrap_or_default()
}

/// The original encoded such values as the bytes of their JSON, by accident; the given scenarios depend on
/// the server decoding them.
fn as_bytes(value: &mut Value) {
    let bytes: Vec<Value> = go_format::json(value).bytes().map(Value::from).collect();
    *value = serde_json::json!({ "raw": bytes });
}
