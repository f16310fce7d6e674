//! When an instance counts as ready: it listens, it speaks, and it offers what was prepared.

use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::{Instant, sleep};

use super::{NotStarted, process::Process};
use crate::{
    client::{Client, Failure, Target},
    http,
    scenario::{ObjectKind, PreConfiguration},
};

const PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const COMPLETE_LIMIT: Duration = Duration::from_secs(15);
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// What an instance has to offer before the first step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) tools: Vec<String>,
    pub(super) servers: Vec<String>,
    pub(super) classes: Vec<String>,
    pub(super) workflows: Vec<String>,
}

impl Wanted {
    pub(super) fn by(before: &PreConfiguration) -> Self {
        let mut wanted = Self::default();
        let prefix = before.main_config.get("aggregator");
        let prefix = prefix.and_then(|aggregator| aggregator.get("musterPrefix")?.as_str());
        let prefix = prefix.filter(|prefix| !prefix.is_empty()).unwrap_or("x");
        for server in &before.mcp_servers {
            wanted.servers.push(server.name.clone());
            let Some(mock) = server.mock().filter(|_| !server.is_protected()) else { continue };
            let own = mock.prefix.as_deref().filter(|own| !own.is_empty());
            let own = own.unwrap_or(&server.name);
            for tool in &mock.tools {
                wanted.tools.push(exposed(prefix, own, &tool.name));
            }
        }
        for object in &before.objects {
            match object.kind {
                ObjectKind::ServiceClass => wanted.classes.push(object.name.clone()),
                ObjectKind::Workflow => wanted.workflows.push(object.name.clone()),
                ObjectKind::Service => {}
            }
        }
        wanted
    }
}

/// The name under which muster shows a tool: the prefix of the server is not doubled.
fn exposed(prefix: &str, server: &str, tool: &str) -> String {
    if tool.starts_with(&format!("{server}_")) {
        format!("{prefix}_{tool}")
    } else {
        format!("{prefix}_{server}_{tool}")
    }
}

/// Waits until the port is open, or the process has ended.
pub(super) async fn port(
    port: u16,
    process: &mut Process,
    limit: Instant,
) -> Result<(), NotStarted> {
    let mut pause = PAUSE;
    loop {
        if http::connect(port).await.is_ok() {
            // Somebody listens; it is not this process if that has just ended.
            return match process.ended_within(Duration::ZERO).await {
                Some(end) => Err(NotStarted::Ended(end)),
                None => Ok(()),
            };
        }
        if let Some(end) = process.ended_within(pause).await {
            return Err(NotStarted::Ended(end));
        }
        if Instant::now() >= limit {
            return Err(NotStarted::NoPort);
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Shakes hands, again and again for a while.
pub(super) async fn connect(target: &Target, deadline: Instant) -> Result<Client, Failure> {
    let limit = deadline.min(Instant::now() + CONNECT_LIMIT);
    loop {
        match Client::connect(target.clone()).await {
            Ok(client) => return Ok(client),
            Err(failure) if Instant::now() >= limit => return Err(failure),
            Err(_) => sleep(LONGEST_PAUSE).await,
        }
    }
}

/// Waits until everything is there. The error says what is not.
pub(super) async fn complete(
    client: &Client,
    wanted: &Wanted,
    deadline: Instant,
) -> Result<(), String> {
    let limit = deadline.min(Instant::now() + COMPLETE_LIMIT);
    let mut missing = wanted.clone();
    let mut pause = PAUSE;
    loop {
        missing = look(client, missing).await;
        if missing == Wanted::default() {
            return Ok(());
        }
        if Instant::now() >= limit {
            return Err(describe(&missing));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// What is still missing.
async fn look(client: &Client, mut missing: Wanted) -> Wanted {
    if !missing.tools.is_empty() {
        let listed = match client.listed_names(CALL_LIMIT).await {
            Ok(names) => Ok(names),
            Err(_) => client.tool_names(CALL_LIMIT).await,
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
    let Ok(answer) = client.call(tool, Some(&Map::new()), CALL_LIMIT).await else {
        return Vec::new();
    };
    let list = answer.first_object().unwrap_or_default();
    let items = list.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    items.iter().filter_map(|item| item.get("name")?.as_str().map(str::to_owned)).collect()
}

async fn is_available(client: &Client, class: &str) -> bool {
    let mut args = Map::new();
    args.insert("name".to_owned(), class.into());
    let answer = client.call("core_serviceclass_available", Some(&args), CALL_LIMIT).await;
    let object = answer.ok().and_then(|answer| answer.first_object());
    object.and_then(|object| object.get("available")?.as_bool()).unwrap_or_default()
}

fn describe(missing: &Wanted) -> String {
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
    use super::exposed;

    #[test]
    fn prefixes_are_not_doubled() {
        assert_eq!(exposed("x", "mock1", "create"), "x_mock1_create");
        assert_eq!(exposed("x", "mock1", "mock1_create"), "x_mock1_create");
        assert_eq!(exposed("m", "a-b", "c"), "m_a-b_c");
    }
}
