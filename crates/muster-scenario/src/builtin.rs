//! The `test_*` tools: done by the runner, never sent to the instance.

mod backend;
mod login;
mod oauth;
mod user;

use serde_json::{Map, Value, json};

use crate::{
    client::{Answer, Failure},
    duration,
    expect::Outcome,
    instance::Stop,
    subject::Subject,
};

/// The prefix that marks them.
pub const PREFIX: &str = "test_";

/// The tools there are, for messages and for the check of scenarios.
pub const TOOLS: [&str; 27] = [
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
];

/// What a tool did, or why not.
type Done = Result<Value, String>;

/// Runs one of them. What it did counts as its answer; `success: false` in it as a failure.
pub(crate) async fn run(subject: &mut Subject, tool: &str, args: &Map<String, Value>) -> Outcome {
    let done = match tool {
        "test_create_user" => user::create(subject, args).await,
        "test_switch_user" => user::switch(subject, args),
        "test_list_tools_for_user" => user::list_tools(subject, args).await,
        "test_list_native_tools" => user::list_native(subject, args).await,
        "test_get_current_user" => Ok(user::current(subject)),
        "test_read_auth_status" => user::auth_status(subject, args).await,
        "test_call_meta_tool" => return meta_tool(subject, args).await,
        "test_restart_instance" => restart(subject, args).await,
        "test_kill_backend" => backend::kill(subject, args).await,
        "test_start_backend" => backend::start(subject, args).await,
        "test_set_fault" => backend::set_fault(subject, args).await,
        "test_add_mock_tool" => backend::add_tool(subject, args).await,
        "test_remove_mock_tool" => backend::remove_tool(subject, args).await,
        "test_write_file" => write_file(subject, args),
        "test_delete_file" => delete_file(subject, args),
        "test_wait" => wait(subject, args).await,
        "test_get_oauth_server_info" => oauth::info(subject, args),
        "test_inject_token" => oauth::inject(subject, args),
        "test_mint_token" => oauth::mint(subject, args),
        "test_advance_oauth_clock" => oauth::advance(subject, args),
        "test_revoke_token" => oauth::revoke(subject, args),
        "test_set_oauth_fault" => oauth::set_fault(subject, args),
        "test_set_oauth_error" => oauth::set_error(subject, args),
        "test_simulate_oauth_callback" => login::simulate_callback(subject, args).await,
        "test_muster_auth_login" => login::into_muster(subject, args).await,
        "test_simulate_muster_reauth" => login::again(subject).await,
        "test_reconnect_with_token" => login::reconnect(subject, args).await,
        other => Err(format!("unknown test tool: {other}")),
    };
    let value = done.map_err(Failure::Wrong)?;
    let is_error = value.get("success") == Some(&Value::Bool(false));
    Ok(Answer { is_error, texts: vec![value.to_string()] })
}

fn required<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    optional(args, name).ok_or_else(|| format!("{name} argument is required"))
}

fn optional<'a>(args: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
}

async fn meta_tool(subject: &Subject, args: &Map<String, Value>) -> Outcome {
    let tool =
        required(args, "tool").or_else(|_| required(args, "name")).map_err(Failure::Wrong)?;
    let arguments = args.get("arguments").or_else(|| args.get("args")).and_then(Value::as_object);
    subject.client()?.call_natively(tool, arguments, subject.limit(None)).await
}

async fn restart(subject: &mut Subject, args: &Map<String, Value>) -> Done {
    let how = match optional(args, "how").unwrap_or("graceful") {
        "graceful" => Stop::Asked,
        "kill" => Stop::Killed,
        other => return Err(format!("how must be 'graceful' or 'kill', not '{other}'")),
    };
    subject.restart(how).await.map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": "Restarted the muster instance"}))
}

fn write_file(subject: &Subject, args: &Map<String, Value>) -> Done {
    let path = required(args, "path")?;
    let text = args.get("text").and_then(Value::as_str).unwrap_or_default();
    subject.instance.write_file(path, text).map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": format!("Wrote {path}")}))
}

fn delete_file(subject: &Subject, args: &Map<String, Value>) -> Done {
    let path = required(args, "path")?;
    subject.instance.delete_file(path).map_err(|err| err.to_string())?;
    Ok(json!({"success": true, "message": format!("Deleted {path}")}))
}

async fn wait(subject: &Subject, args: &Map<String, Value>) -> Done {
    let text = required(args, "duration")?;
    let span = duration::parse(text).ok_or_else(|| format!("`{text}` is no duration"))?;
    tokio::time::sleep(span.min(subject.limit(Some(span)))).await;
    Ok(json!({"success": true, "waited": text}))
}
