//! Built-in tools that kill, restart and change mock servers.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::{BuiltinResult, optional, required};
use crate::{
    context::ScenarioContext,
    instance::ready::{POLLING, exposed_name, muster_prefix},
    mock::{config::tool_from_json, engine::MockChange, fault::Fault},
};

/// How long the gateway may take to list a changed tool.
const RELIST_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) async fn kill(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let server = required(args, "server")?;
    if let Some(provider) = context.instance.providers_mut().get_mut(server) {
        return match provider.kill() {
            true => Ok(json!({"success": true, "message": format!("Killed '{server}'")})),
            false => Err(format!("mock OAuth server '{server}' is not running")),
        };
    }
    let killed = match context.instance.remote(server) {
        Some(remote) => match remote.kill() {
            true => Ok(json!(null)),
            false => Err(format!("mock server '{server}' is not running")),
        },
        None => {
            let killed = context.instance.control().kill(server).await;
            killed.map(Value::from).map_err(|err| err.to_string())
        }
    };
    let pid = killed?;
    Ok(
        json!({"success": true, "server": server, "pid": pid, "message": format!("Killed '{server}'")}),
    )
}

pub(super) async fn start(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let server = required(args, "server")?;
    if let Some(provider) = context.instance.providers_mut().get_mut(server) {
        provider.revive().await.map_err(|err| err.to_string())?;
        return Ok(json!({"success": true, "message": format!("Started '{server}'")}));
    }
    let Some(remote) = context.instance.remote(server) else {
        return Err(format!(
            "'{server}' is not an HTTP or SSE mock server; muster starts stdio servers itself"
        ));
    };
    remote.revive().await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "server": server, "message": format!("Started '{server}'")}))
}

pub(super) async fn set_fault(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let tool = optional(args, "tool").map(str::to_owned);
    let fault = args.get("fault").filter(|fault| !fault.is_null()).map(Fault::read).transpose()?;
    change(context, args, MockChange::Fault { tool, fault }).await
}

/// Adds the tool `tool`, or one with the name `tool_name` that answers with its name. The latter, as in the
/// scenarios of the original, waits until the gateway lists it.
pub(super) async fn add_tool(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let Some(name) = optional(args, "tool_name") else {
        let tool = args.get("tool").ok_or("tool_name argument is required")?;
        let tool = tool_from_json(tool)?;
        return change(context, args, MockChange::AddTool(Box::new(tool))).await;
    };
    let tool = tool_from_json(&json!({
        "name": name,
        "description": optional(args, "tool_description").unwrap_or_default(),
        "responses": [{"response": {"status": "ok", "tool": name}}],
    }))?;
    change(context, args, MockChange::AddTool(Box::new(tool))).await?;
    relisted(context, args, name, true).await?;
    changed(args, &format!("Added tool '{name}'"))
}

/// Removes the tool `tool` or `tool_name`; the latter waits until the gateway no longer lists it.
pub(super) async fn remove_tool(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let Some(name) = optional(args, "tool_name") else {
        let tool = optional(args, "tool").ok_or("tool_name argument is required")?;
        return change(context, args, MockChange::RemoveTool(tool.to_owned())).await;
    };
    change(context, args, MockChange::RemoveTool(name.to_owned())).await?;
    relisted(context, args, name, false).await?;
    changed(args, &format!("Removed tool '{name}'"))
}

fn changed(args: &Map<String, Value>, message: &str) -> BuiltinResult {
    Ok(json!({"success": true, "server": required(args, "server")?, "message": message}))
}

/// Waits until the gateway lists a tool of a mock server for the current user, or no longer does.
async fn relisted(
    context: &ScenarioContext,
    args: &Map<String, Value>,
    tool: &str,
    is_listed: bool,
) -> Result<(), String> {
    let server = required(args, "server")?;
    let setup = context.instance.setup();
    let prefix = setup.mcp_servers.iter().find(|known| known.name == server);
    let prefix = prefix.and_then(|known| known.mock()?.prefix.as_deref());
    let prefix = prefix.filter(|own| !own.is_empty()).unwrap_or(server);
    let name = exposed_name(muster_prefix(setup), prefix, tool);
    let client = context.client().map_err(|err| err.to_string())?;
    let begin = Instant::now();
    for polls in 0.. {
        let names = client.listed_names(context.limit(None)).await;
        if names.map_err(|err| err.to_string())?.contains(&name) == is_listed {
            return Ok(());
        }
        if begin.elapsed() >= context.limit(Some(RELIST_TIMEOUT)) {
            break;
        }
        sleep(POLLING.delay(polls)).await;
    }
    Err(match is_listed {
        true => format!("the gateway does not list '{name}'"),
        false => format!("the gateway still lists '{name}'"),
    })
}

async fn change(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
    change: MockChange,
) -> BuiltinResult {
    let server = required(args, "server")?;
    match context.instance.remote(server) {
        Some(remote) => {
            if !remote.mock().change(change) {
                return Err(format!("nothing to change at '{server}'"));
            }
        }
        None => {
            let control = context.instance.control();
            control.change(server, &change).await.map_err(|err| err.to_string())?;
        }
    }
    Ok(json!({"success": true, "server": server, "message": format!("Changed '{server}'")}))
}
