//! From a YAML tree to a [`Scenario`].

use std::{path::Path, time::Duration};

use muster_config::yaml::Node;
use serde_json::Value;

use super::node::{Fields, Notes, count, object, span, text, texts, truth};
use crate::{
    goform,
    mock::{self, Failing},
    oauth,
    scenario::{
        Budget, Expected, ExpectedNotification, Object, ObjectKind, PreConfiguration, Presence,
        Scenario, Server, ServerKind, Step, Transport,
    },
};

/// How long a notification may take, where nothing is said.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(5);
/// How long one waits to see that none comes, where nothing is said.
const SILENT_FOR: Duration = Duration::from_secs(1);

pub(super) fn read(node: &Node, file: &Path, notes: &mut Notes) -> Option<Scenario> {
    let mut fields = Fields::open(node, "", notes)?;
    let name = fields.required("name", notes, "scenario name is required");
    let category = fields.required("category", notes, "scenario category is required");
    let concept = fields.required("concept", notes, "scenario concept is required");
    let steps = fields.items("steps", notes);
    if steps.is_empty() {
        notes.error(fields.line(), "steps", "scenario must have at least one step");
    }
    let steps = read_steps(steps, notes);
    let cleanup = fields.items("cleanup", notes);
    let scenario = Scenario {
        file: file.to_owned(),
        name,
        category,
        concept,
        description: fields.read("description", notes, text).unwrap_or_default(),
        tags: fields.read("tags", notes, texts).unwrap_or_default(),
        skip: fields.read("skip", notes, truth).unwrap_or_default(),
        timeout: fields.read("timeout", notes, span),
        before: match fields.get("pre_configuration") {
            Some(node) => before(node, notes).unwrap_or_default(),
            None => PreConfiguration::default(),
        },
        steps,
        cleanup: read_steps(cleanup, notes),
    };
    fields.finish(&["prerequisites"], notes);
    Some(scenario)
}

fn read_steps(items: Vec<(String, &Node)>, notes: &mut Notes) -> Vec<Step> {
    items.into_iter().filter_map(|(path, node)| read_step(node, &path, notes)).collect()
}

fn read_step(node: &Node, path: &str, notes: &mut Notes) -> Option<Step> {
    let mut fields = Fields::open(node, path, notes)?;
    let step = Step {
        line: node.line,
        id: fields.required("id", notes, "step id is required"),
        tool: fields.required("tool", notes, "step tool is required"),
        description: fields.read("description", notes, text).unwrap_or_default(),
        args: fields.read("args", notes, object),
        timeout: fields.read("timeout", notes, span),
        as_user: fields.read("as_user", notes, text),
        expected: match fields.get("expected") {
            Some(node) => expected(node, &fields.at("expected"), notes).unwrap_or_default(),
            None => Expected::default(),
        },
    };
    if let Some(node) = fields.get("retry") {
        retry(node, &fields.at("retry"), notes);
    }
    fields.finish(&["continue_on_failure", "cleanup"], notes);
    Some(step)
}

/// Retries are checked and do nothing.
fn retry(node: &Node, path: &str, notes: &mut Notes) {
    let Some(mut fields) = Fields::open(node, path, notes) else { return };
    let not_negative = |node: &Node| match text(node)?.starts_with('-') {
        true => Err("must not be negative".to_owned()),
        false => Ok(()),
    };
    for key in ["count", "delay", "backoff_multiplier"] {
        fields.read(key, notes, not_negative);
    }
    notes.warning(node.line, path, "has no effect");
    fields.finish(&[], notes);
}

fn expected(node: &Node, path: &str, notes: &mut Notes) -> Option<Expected> {
    let mut fields = Fields::open(node, path, notes)?;
    let list = |fields: &mut Fields<'_>, key, notes: &mut Notes| {
        fields.read(key, notes, texts).unwrap_or_default()
    };
    let paths = fields.read("json_path", notes, object).unwrap_or_default();
    let mut expected = Expected {
        success: fields.read("success", notes, truth).unwrap_or_default(),
        error_contains: list(&mut fields, "error_contains", notes),
        contains: list(&mut fields, "contains", notes),
        not_contains: list(&mut fields, "not_contains", notes),
        json_path: paths.into_iter().collect(),
        wait_for_state: fields.read("wait_for_state", notes, span),
        budget: Budget {
            max_bytes: fields.read("max_bytes", notes, count),
            max_tokens: fields.read("max_tokens", notes, count),
            max_duration: fields.read("max_duration", notes, span),
        },
        notifications: Vec::new(),
    };
    for (path, node) in fields.items("notifications", notes) {
        expected.notifications.extend(notification(node, &path, notes));
    }
    if expected.success && !expected.error_contains.is_empty() {
        notes.warning(node.line, path, "`error_contains` cannot hold when `success` is true");
    }
    fields.finish(&["status_code"], notes);
    Some(expected)
}

fn notification(node: &Node, path: &str, notes: &mut Notes) -> Option<ExpectedNotification> {
    let mut fields = Fields::open(node, path, notes)?;
    let absent = fields.read("absent", notes, truth).unwrap_or_default();
    let (presence, within) = match absent {
        true => (Presence::Absent, SILENT_FOR),
        false => (Presence::Present, NOTIFIED_WITHIN),
    };
    let notification = ExpectedNotification {
        method: fields.required("method", notes, "method is required"),
        contains: fields.read("contains", notes, texts).unwrap_or_default(),
        within: fields.read("within", notes, span).unwrap_or(within),
        presence,
    };
    fields.finish(&[], notes);
    Some(notification)
}

fn before(node: &Node, notes: &mut Notes) -> Option<PreConfiguration> {
    let mut fields = Fields::open(node, "pre_configuration", notes)?;
    let mut before = PreConfiguration::default();
    for (path, node) in fields.items("mcp_servers", notes) {
        before.mcp_servers.extend(server(node, &path, notes));
    }
    for (path, node) in fields.items("workflows", notes) {
        before.objects.extend(configured(node, &path, ObjectKind::Workflow, notes));
    }
    for (path, node) in fields.items("service_classes", notes) {
        before.objects.extend(service_class(node, &path, notes));
    }
    for (path, node) in fields.items("services", notes) {
        before.objects.extend(configured(node, &path, ObjectKind::Service, notes));
    }
    if let Some(node) = fields.get("main_config") {
        let path = fields.at("main_config");
        if let Some(mut fields) = Fields::open(node, &path, notes) {
            before.main_config = fields.read("config", notes, object).unwrap_or_default();
            fields.finish(&[], notes);
        }
    }
    for (path, node) in fields.items("mock_oauth_servers", notes) {
        before.oauth_servers.extend(oauth::config::provider(node, &path, notes));
    }
    let pairs = |node: &Node| {
        let pairs = object(node)?.into_iter().map(|(key, value)| match value {
            Value::String(text) => (key, text),
            other => (key, other.to_string()),
        });
        Ok(pairs.collect())
    };
    before.files = fields.read("files", notes, pairs).unwrap_or_default();
    before.env = fields.read("env", notes, pairs).unwrap_or_default();
    before.serve_args = fields.read("serve_args", notes, texts).unwrap_or_default();
    fields.finish(&[], notes);
    check_references(&before, node.line, notes);
    Some(before)
}

/// A server that names a provider needs one of that name.
fn check_references(before: &PreConfiguration, line: usize, notes: &mut Notes) {
    let known: Vec<&str> = before.oauth_servers.iter().map(|server| &*server.name).collect();
    let guards = before.mcp_servers.iter().filter_map(Server::guard);
    let of_guards = guards.flat_map(|guard| {
        let exchange = guard.exchange.as_ref().and_then(|exchange| exchange.provider.as_ref());
        guard.provider.iter().chain(exchange)
    });
    let trusted = before.oauth_servers.iter().flat_map(|server| &server.trusted);
    for name in of_guards.chain(trusted.map(|(_, name)| name)) {
        if !known.contains(&name.as_str()) {
            let text = format!("there is no mock OAuth server `{name}`");
            notes.error(line, "pre_configuration", text);
        }
    }
}

fn server(node: &Node, path: &str, notes: &mut Notes) -> Option<Server> {
    let mut fields = Fields::open(node, path, notes)?;
    let name = fields.required("name", notes, "server name is required");
    let config_path = fields.at("config");
    let config = fields.get("config");
    fields.finish(&[], notes);
    let Some(config) = config else {
        notes.error(node.line, &config_path, "server config is required");
        return None;
    };
    let kind = server_kind(config, &config_path, notes)?;
    Some(Server { name, kind })
}

fn server_kind(node: &Node, path: &str, notes: &mut Notes) -> Option<ServerKind> {
    let mut fields = Fields::open(node, path, notes)?;
    if mock::config::WRITTEN.into_iter().all(|key| fields.get(key).is_none()) {
        return object(node).ok().map(ServerKind::Plain);
    }
    let transport = fields.read("type", notes, |node| match text(node)?.as_str() {
        "sse" => Ok(Some(Transport::Sse)),
        "streamable-http" => Ok(Some(Transport::StreamableHttp)),
        "stdio" => Ok(None),
        other => Err(format!("`{other}` is none of `stdio`, `streamable-http` and `sse`")),
    });
    let oauth = fields.get("oauth");
    let oauth = oauth.and_then(|node| oauth::config::guard(node, &fields.at("oauth"), notes));
    let mut mock = mock::config::read(node, &mut fields, notes);
    mock.failing = match &oauth {
        Some(guard) if guard.required => Failing::AsResult,
        Some(_) | None => Failing::AsError,
    };
    fields.finish(&[], notes);
    Some(match transport.flatten() {
        Some(transport) => ServerKind::Remote { mock, transport, oauth: oauth.map(Box::new) },
        None => ServerKind::Stdio(mock),
    })
}

/// `{name, config}`; a name inside the config is left out, it is no part of the object.
fn configured(node: &Node, path: &str, kind: ObjectKind, notes: &mut Notes) -> Option<Object> {
    let mut fields = Fields::open(node, path, notes)?;
    let name = fields.required("name", notes, "name is required");
    let mut spec = fields.read("config", notes, object).unwrap_or_default();
    spec.shift_remove("name");
    fields.finish(&[], notes);
    Some(Object { kind, name, spec })
}

fn service_class(node: &Node, path: &str, notes: &mut Notes) -> Option<Object> {
    let mut fields = Fields::open(node, path, notes)?;
    let name = fields.required("name", notes, "name is required");
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
    Some(Object { kind: ObjectKind::ServiceClass, name, spec })
}

fn lifecycle_tools(spec: &mut serde_json::Map<String, Value>) -> Vec<&mut Value> {
    let tools = spec.get_mut("serviceConfig").and_then(|config| config.get_mut("lifecycleTools"));
    tools
        .and_then(Value::as_object_mut)
        .map(|tools| tools.values_mut().collect())
        .unwrap_or_default()
}

fn arguments(spec: &mut serde_json::Map<String, Value>) -> Vec<&mut Value> {
    let args = spec.get_mut("args").and_then(Value::as_object_mut);
    args.map(|args| args.values_mut().collect()).unwrap_or_default()
}

/// The original wrote such values as the bytes of their JSON, by accident; scenarios depend on the
/// server treating them as what they are.
fn as_bytes(value: &mut Value) {
    let bytes: Vec<Value> = goform::json(value).bytes().map(Value::from).collect();
    *value = serde_json::json!({ "raw": bytes });
}
