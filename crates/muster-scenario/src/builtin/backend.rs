//! Servers behind muster: killed, brought back, and made to misbehave.

use serde_json::{Map, Value, json};

use super::{Done, optional, required};
use crate::{
    mock::{config::tool_from_json, engine::Change, fault::Fault},
    subject::Subject,
};

pub(super) async fn kill(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let server = required(args, "server")?;
    if let Some(provider) = subject.instance.providers_mut().get_mut(server) {
        return match provider.kill() {
            true => Ok(json!({"success": true, "message": format!("Killed '{server}'")})),
            false => Err(format!("mock OAuth server '{server}' is not running")),
        };
    }
    let killed = match subject.instance.remote(server) {
        Some(remote) => match remote.kill() {
            true => Ok(json!(null)),
            false => Err(format!("mock server '{server}' is not running")),
        },
        None => {
            let killed = subject.instance.switchboard().kill(server).await;
            killed.map(Value::from).map_err(|err| err.to_string())
        }
    };
    let pid = killed?;
    Ok(
        json!({"success": true, "server": server, "pid": pid, "message": format!("Killed '{server}'")}),
    )
}

pub(super) async fn start(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let server = required(args, "server")?;
    if let Some(provider) = subject.instance.providers_mut().get_mut(server) {
        provider.revive().await.map_err(|err| err.to_string())?;
        return Ok(json!({"success": true, "message": format!("Started '{server}'")}));
    }
    let Some(remote) = subject.instance.remote(server) else {
        return Err(format!("'{server}' is no HTTP or SSE mock server; muster starts the others"));
    };
    remote.revive().await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "server": server, "message": format!("Started '{server}'")}))
}

pub(super) async fn set_fault(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let tool = optional(args, "tool").map(str::to_owned);
    let fault = args.get("fault").filter(|fault| !fault.is_null()).map(Fault::read).transpose()?;
    change(subject, args, Change::Fault { tool, fault }).await
}

pub(super) async fn add_tool(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let tool = args.get("tool").ok_or("tool argument is required")?;
    let tool = tool_from_json(tool)?;
    change(subject, args, Change::AddTool(Box::new(tool))).await
}

pub(super) async fn remove_tool(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let tool = required(args, "tool")?.to_owned();
    change(subject, args, Change::RemoveTool(tool)).await
}

async fn change(subject: &mut Subject, args: &Map<String, Value>, change: Change) -> Done {
    let server = required(args, "server")?;
    match subject.instance.remote(server) {
        Some(remote) => {
            if !remote.mock().change(change) {
                return Err(format!("there is nothing to change at '{server}'"));
            }
        }
        None => {
            let switchboard = subject.instance.switchboard();
            switchboard.change(server, &change).await.map_err(|err| err.to_string())?;
        }
    }
    Ok(json!({"success": true, "server": server, "message": format!("Changed '{server}'")}))
}
