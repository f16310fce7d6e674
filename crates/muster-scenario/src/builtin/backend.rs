//! Built-in tools that kill, restart and change mock servers.

use serde_json::{Map, Value, json};

use super::{BuiltinResult, optional, required};
use crate::{
    context::ScenarioContext,
    mock::{config::tool_from_json, engine::MockChange, fault::Fault},
};

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

pub(super) async fn add_tool(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let tool = args.get("tool").ok_or("tool argument is required")?;
    let tool = tool_from_json(tool)?;
    change(context, args, MockChange::AddTool(Box::new(tool))).await
}

pub(super) async fn remove_tool(
    context: &mut ScenarioContext,
    args: &Map<String, Value>,
) -> BuiltinResult {
    let tool = required(args, "tool")?.to_owned();
    change(context, args, MockChange::RemoveTool(tool)).await
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
