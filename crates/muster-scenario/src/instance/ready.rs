//! Readiness of an instance: it listens, responds, and offers everything in the setup.

use std::time::Duration;

use muster_core::backoff::Backoff;
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::{InstanceError, process::Process};
use crate::{
    client::{Client, ClientError, ClientTarget},
    http,
    mock::{MockConfig, MockTool},
    scenario::{ObjectKind, PreConfiguration, ScenarioServer},
};

/// Between two requests of something that has to happen soon.
pub(crate) const POLLING: Backoff =
    Backoff { first: Duration::from_millis(20), max: Duration::from_millis(100) };
/// Requests are refused until the gateway has reached its identity provider, which takes a while on a busy machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const RESOURCES_TIMEOUT: Duration = Duration::from_secs(15);
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// The resources that an instance must offer before the first step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ExpectedResources {
    pub(super) tools: Vec<String>,
    pub(super) servers: Vec<String>,
    pub(super) classes: Vec<String>,
    pub(super) workflows: Vec<String>,
}

impl ExpectedResources {
    pub(super) fn of(setup: &PreConfiguration) -> Self {
        let mut expected = Self::default();
        let prefix = muster_prefix(setup);
        for server in &setup.mcp_servers {
            expected.servers.push(server.name.clone());
            let Some(mock) = server.mock().filter(|_| !server.is_protected()) else { continue };
            let own = mock.prefix.as_deref().filter(|own| !own.is_empty());
            let own = own.unwrap_or(&server.name);
            for tool in &mock.tools {
                let own = grouped_under(setup, mock, tool).unwrap_or(own);
                expected.tools.push(exposed_name(prefix, own, &tool.name));
            }
        }
        for object in &setup.objects {
            match object.kind {
                ObjectKind::ServiceClass => expected.classes.push(object.name.clone()),
                ObjectKind::Workflow => expected.workflows.push(object.name.clone()),
                ObjectKind::Service => {}
            }
        }
        expected
    }
}

/// The prefix of all tools of servers.
pub(crate) fn muster_prefix(setup: &PreConfiguration) -> &str {
    let prefix = setup.main_config.get("aggregator");
    let prefix = prefix.and_then(|aggregator| aggregator.get("musterPrefix")?.as_str());
    prefix.filter(|prefix| !prefix.is_empty()).unwrap_or("x")
}

/// The family under whose name muster exposes a tool, if it groups it.
fn grouped_under<'a>(
    setup: &PreConfiguration,
    mock: &'a MockConfig,
    tool: &MockTool,
) -> Option<&'a str> {
    let text = |mock: &'a MockConfig, key: &str| mock.family.as_ref()?.get(key)?.as_str();
    let (name, argument) = (text(mock, "name")?, text(mock, "instanceArg")?);
    let of_family = |other: &&MockConfig| {
        other
            .family
            .as_ref()
            .is_some_and(|family| family.get("name").and_then(Value::as_str) == Some(name))
    };
    let mut members = setup.mcp_servers.iter().filter_map(ScenarioServer::mock).filter(of_family);
    let fits = |other: &MockTool| {
        let properties = other.shown_schema.get("properties");
        other.description == tool.description
            && properties.is_none_or(|known| known.get(argument).is_none())
    };
    let groups = members.all(|member| {
        let family = member.family.as_ref();
        let same = family.and_then(|family| family.get("instanceArg")?.as_str()) == Some(argument);
        same && member.tools.iter().filter(|other| other.name == tool.name).all(fits)
    });
    groups.then_some(name)
}

/// The name under which muster exposes a tool: the server's prefix is not repeated.
pub(crate) fn exposed_name(prefix: &str, server: &str, tool: &str) -> String {
    if tool.starts_with(&format!("{server}_")) {
        format!("{prefix}_{tool}")
    } else {
        format!("{prefix}_{server}_{tool}")
    }
}

/// Waits until the port is open or the process has exited.
pub(super) async fn wait_for_port(
    port: u16,
    process: &mut Process,
    limit: Instant,
) -> Result<(), InstanceError> {
    for polls in 0.. {
        if http::connect(port).await.is_ok() {
            // If our process has just exited, another one is listening.
            return match process.exited_within(Duration::ZERO).await {
                Some(end) => Err(InstanceError::Exited(end)),
                None => Ok(()),
            };
        }
        if let Some(end) = process.exited_within(POLLING.delay(polls)).await {
            return Err(InstanceError::Exited(end));
        }
        if Instant::now() >= limit {
            break;
        }
    }
    Err(InstanceError::PortTimeout)
}

/// Connects, retrying for a while.
pub(super) async fn connect(
    target: &ClientTarget,
    deadline: Instant,
) -> Result<Client, ClientError> {
    let limit = deadline.min(Instant::now() + CONNECT_TIMEOUT);
    loop {
        match Client::connect(target.clone()).await {
            Ok(client) => return Ok(client),
            Err(failure) if Instant::now() >= limit => return Err(failure),
            Err(_) => sleep(POLLING.max).await,
        }
    }
}

/// Waits until all resources are available. The error lists the missing ones.
pub(super) async fn wait_for_resources(
    client: &Client,
    expected: &ExpectedResources,
    deadline: Instant,
) -> Result<(), String> {
    let limit = deadline.min(Instant::now() + RESOURCES_TIMEOUT);
    let mut missing = expected.clone();
    for polls in 0.. {
        missing = still_missing(client, missing).await;
        if missing == ExpectedResources::default() {
            return Ok(());
        }
        if Instant::now() >= limit {
            break;
        }
        sleep(POLLING.delay(polls)).await;
    }
    Err(describe(&missing))
}

/// The resources that are still missing.
async fn still_missing(client: &Client, mut missing: ExpectedResources) -> ExpectedResources {
    if !missing.tools.is_empty() {
        let listed = match client.listed_names(CALL_TIMEOUT).await {
            Ok(names) => Ok(names),
            Err(_) => client.tool_names(CALL_TIMEOUT).await,
        };
        if let Ok(names) = listed {
            missing.tools.retain(|tool| !names.contains(tool));
        }
    }
    if !missing.servers.is_empty() {
        let names = names(client, "core_mcpserver_list", "mcpServers").await;
        missing.servers.retain(|server| !names.contains(server));
    }
    if !missing.workflows.is_empty() {
        let names = names(client, "core_workflow_list", "workflows").await;
        missing.workflows.retain(|workflow| !names.contains(workflow));
    }
    let mut classes = Vec::new();
    for class in missing.classes {
        if !is_available(client, &class).await {
            classes.push(class);
        }
    }
    missing.classes = classes;
    missing
}

async fn names(client: &Client, tool: &str, key: &str) -> Vec<String> {
    let Ok(answer) = client.call(tool, Some(&Map::new()), CALL_TIMEOUT).await else {
        return Vec::new();
    };
    let list = answer.first_object().unwrap_or_default();
    let items = list.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    items.iter().filter_map(|item| item.get("name")?.as_str().map(str::to_owned)).collect()
}

async fn is_available(client: &Client, class: &str) -> bool {
    let mut args = Map::new();
    args.insert("name".to_owned(), class.into());
    let answer = client.call("core_serviceclass_available", Some(&args), CALL_TIMEOUT).await;
    let object = answer.ok().and_then(|answer| answer.first_object());
    object.and_then(|object| object.get("available")?.as_bool()).unwrap_or_default()
}

fn describe(missing: &ExpectedResources) -> String {
    let parts = [
        ("tools", &missing.tools),
        ("servers", &missing.servers),
        ("service classes", &missing.classes),
        ("workflows", &missing.workflows),
    ];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> =
        parts.map(|(kind, names)| format!("{kind} {}", names.join(", "))).collect();
    format!("missing {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::exposed_name;

    #[test]
    fn prefixes_are_not_doubled() {
        assert_eq!(exposed_name("x", "mock1", "create"), "x_mock1_create");
        assert_eq!(exposed_name("x", "mock1", "mock1_create"), "x_mock1_create");
        assert_eq!(exposed_name("m", "a-b", "c"), "m_a-b_c");
    }
}
