//! The built-in `test_*` tools, executed by the runner and never sent to the instance.

mod backend;
mod broker;
mod login;
mod oauth;
mod user;

use serde_json::{Map, Value, json};

use crate::{
    client::{ClientError, ToolResponse},
    context::ScenarioContext,
    duration,
    expect::StepOutcome,
    instance::StopMode,
};

/// The prefix of built-in tools.
pub const PREFIX: &str = "test_";

/// All built-in tools, for messages and for validation.
pub const TOOLS: [&str; 29] = [
    "test_create_user",
    "test_switch_user",
    "test_list_tools_for_user",
    "test_list_native_tools",
    "test_get_current_user",
    "test_read_auth_status",
    "test_call_meta_tool",
    "test_restart_instance",
    "test_kill_backend",
    "test_start_backend",
    "test_set_fault",
    "test_add_mock_tool",
    "test_remove_mock_tool",
    "test_write_file",
    "test_delete_file",
    "test_wait",
    "test_get_oauth_server_info",
    "test_simulate_oauth_callback",
    "test_inject_token",
    "test_mint_token",
    "test_advance_oauth_clock",
    "test_revoke_token",
    "test_set_oauth_error",
    "test_set_oauth_fault",
    "test_muster_auth_login",
    "test_simulate_muster_reauth",
    "test_reconnect_with_token",
    "test_broker_token_exchange",
    "test_call_protected_mcp",
];

/// The result of a built-in tool, or its error.
type BuiltinResult = Result<Value, String>;

/// Runs a built-in tool. `success: false` in its result counts as an error.
pub(crate) async fn run(
    context: &mut ScenarioContext,
    tool: &str,
    args: &Map<String, Value>,
) -> StepOutcome {
    let done = match tool {
        "test_create_user" => user::create(context, args).await,
        "test_switch_user" => user::switch(context, args),
        "test_list_tools_for_user" => user::list_tools(context, args).await,
        "test_list_native_tools" => user::list_native(context, args).await,
        "test_get_current_user" => Ok(user::current(context)),
        "test_read_auth_status" => user::auth_status(context, args).await,
        "test_call_meta_tool" => return meta_tool(context, args).await,
        "test_restart_instance" => restart(context, args).await,
        "test_kill_backend" => backend::kill(context, args).await,
        "test_start_backend" => backend::start(context, args).await,
        "test_set_fault" => backend::set_fault(context, args).await,
        "test_add_mock_tool" => backend::add_tool(context, args).await,
        "test_remove_mock_tool" => backend::remove_tool(context, args).await,
        "test_write_file" => write_file(context, args),
        "test_delete_file" => delete_file(context, args),
        "test_wait" => wait(context, args).await,
        "test_get_oauth_server_info" => oauth::info(context, args),
        "test_inject_token" => oauth::inject(context, args),
        "test_mint_token" => oauth::mint(context, args),
        "test_advance_oauth_clock" => oauth::advance(context, args),
        "test_revoke_token" => oauth::revoke(context, args),
        "test_set_oauth_fault" => oauth::set_fault(context, args),
        "test_set_oauth_error" => oauth::set_error(context, args),
        "test_simulate_oauth_callback" => login::simulate_callback(context, args).await,
        "test_muster_auth_login" => login::log_in_to_muster(context, args).await,
        "test_simulate_muster_reauth" => login::log_in_again(context).await,
        "test_reconnect_with_token" => login::reconnect(context, args).await,
        "test_broker_token_exchange" => broker::exchange(context, args).await,
        "test_call_protected_mcp" => broker::call_protected(context, args).await,
        other => Err(format!("unknown test tool: {other}")),
    };
    let value = done.map_err(ClientError::Protocol)?;
    let is_error = value.get("success") == Some(&Value::Bool(false));
    Ok(ToolResponse { is_error, texts: vec![value.to_string()] })
}

fn required<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    optional(args, name).ok_or_else(|| format!("{name} argument is required"))
}

/// The token that a step minted under the name in an argument.
fn token_ref<'a>(
    context: &'a ScenarioContext,
    args: &Map<String, Value>,
    name: &str,
) -> Result<&'a str, String> {
    let wanted = required(args, name)?;
    let token = context.tokens.get(wanted).map(String::as_str);
    token.ok_or_else(|| format!("no token was minted under the name '{wanted}'"))
}

fn optional<'a>(args: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

async fn meta_tool(context: &ScenarioContext, args: &Map<String, Value>) -> StepOutcome {
    let tool = required(args, "tool")
        .or_else(|_| required(args, "name"))
        .map_err(ClientError::Protocol)?;
    let arguments = args.get("arguments").or_else(|| args.get("args")).and_then(Value::as_object);
    context.client()?.call_direct(tool, arguments, context.limit(None)).await
}

async fn restart(context: &mut ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let how = match optional(args, "how").unwrap_or("graceful") {
        "graceful" => StopMode::Graceful,
        "kill" => StopMode::Kill,
        other => return Err(format!("how must be 'graceful' or 'kill', not '{other}'")),
    };
    context.restart(how).await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": "Restarted the muster instance"}))
}

fn write_file(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let path = required(args, "path")?;
    let text = args.get("text").and_then(Value::as_str).unwrap_or_default();
    context.instance.write_file(path, text).map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": format!("Wrote {path}")}))
}

fn delete_file(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let path = required(args, "path")?;
    context.instance.delete_file(path).map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": format!("Deleted {path}")}))
}

async fn wait(context: &ScenarioContext, args: &Map<String, Value>) -> BuiltinResult {
    let text = required(args, "duration")?;
    let span =
        duration::parse(text).ok_or_else(|| format!("`{text}` is not a duration such as `30s`"))?;
    tokio::time::sleep(span.min(context.limit(Some(span)))).await;
    Ok(json!({"success": true, "waited": text}))
}
