//! `core_workflow_execution_*`: the records of executions.

use muster_api::execution::ExecutionList;
use muster_core::backend::CallContext;
use muster_workflow::record::RunState;
use serde_json::{Value, json};

use super::{Args, CoreTool, Failure, ToolAudience, ToolReply, object};
use crate::{
    handle::Handle,
    workflows::{GetError, Query, owner},
};

const DEFAULT_LIMIT: f64 = 50.0;
const MAX_LIMIT: f64 = 1000.0;

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_workflow_execution_list",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "List the executions of workflows, newest first.",
        schema: || {
            json!({"type": "object", "properties": {
                "workflow_name": {"type": "string", "description": "Only executions of this workflow"},
                "status": {"type": "string", "enum": ["inprogress", "completed", "failed", "interrupted"], "description": "Only executions in this state"},
                "limit": {"type": "number", "default": DEFAULT_LIMIT, "minimum": 1, "maximum": MAX_LIMIT, "description": "Maximum number of executions"},
                "offset": {"type": "number", "default": 0, "minimum": 0, "description": "Number of newest executions to skip"},
            }})
        },
        run: |handle, cx, args| Box::pin(list(handle, cx, args)),
    },
    CoreTool {
        name: "core_workflow_execution_get",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show one execution of a workflow: its arguments, steps and result.",
        schema: || {
            json!({"type": "object", "required": ["execution_id"], "properties": {
                "execution_id": {"type": "string", "description": "Id of the execution"},
                "include_steps": {"type": "boolean", "default": true, "description": "Whether to show the steps"},
                "step_id": {"type": "string", "description": "Show this step only"},
            }})
        },
        run: |handle, cx, args| Box::pin(get(handle, cx, args)),
    },
];

async fn list(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let state = match args.any("status") {
        None => None,
        Some(word) => Some(
            word.as_str()
                .and_then(RunState::of)
                .ok_or("status must be one of the enum values: inprogress, completed, failed")?,
        ),
    };
    let limit = number(&args, "limit", DEFAULT_LIMIT)?;
    if limit < 1.0 {
        return Err("limit must be at least 1 (minimum value)".into());
    }
    if limit > MAX_LIMIT {
        return Err("limit must be at most 1000 (maximum value)".into());
    }
    let offset = number(&args, "offset", 0.0)?;
    if offset < 0.0 {
        return Err("offset must be at least 0 (minimum value)".into());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a fraction is cut off, and both are at least zero"
    )]
    let (limit, offset) = (limit as usize, offset as usize);
    let workflow = args.text("workflow_name").map(str::to_owned);
    let (found, total) = handle
        .executions
        .list(Query { owner: owner(cx.caller), workflow, state, limit, offset })
        .await;
    let has_more = offset.saturating_add(found.len()) < total;
    Ok(object(&ExecutionList { executions: found, total, limit, offset, has_more }))
}

fn number(args: &Args, name: &str, default: f64) -> Result<f64, String> {
    match args.any(name) {
        None => Ok(default),
        Some(value) => value.as_f64().ok_or_else(|| format!("{name} must be a number")),
    }
}

async fn get(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
    let id = args.text("execution_id").ok_or("execution_id is required")?;
    let include_steps = match args.any("include_steps") {
        None => true,
        Some(Value::Bool(flag)) => *flag,
        Some(_) => return Err("include_steps must be a boolean value".into()),
    };
    let step = match args.any("step_id") {
        None => None,
        Some(Value::Null) => return Err("step_id cannot be null".into()),
        Some(step) => match step.as_str() {
            Some(step) if !step.is_empty() => Some(step),
            Some(_) | None => return Err("step_id is invalid: cannot be empty".into()),
        },
    };
    let failed = |error: String| format!("Failed to get execution: {error}");
    let record = handle.executions.get(id, cx.caller).await.map_err(|error| {
        let text = failed(error.to_string());
        match error {
            GetError::Unknown(_) => Failure::not_found(text),
            GetError::Unreadable { .. } => text.into(),
        }
    })?;
    match step {
        Some(step) => record.only_step(step).map(|record| object(&record)).ok_or_else(|| {
            Failure::not_found(failed(format!("step {step} not found in execution {id}")))
        }),
        None if include_steps => Ok(object(&record)),
        None => Ok(object(&record.without_steps())),
    }
}
