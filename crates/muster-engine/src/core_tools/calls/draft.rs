//! `core_calls_draft`: drafts a workflow from past calls.

use std::collections::BTreeSet;

use muster_api::{
    calls::CallInfo,
    workflow::{DraftStep, WorkflowDraft},
};
use muster_core::{effect::Effect, observer::CallStatus, secret_text::REDACTED};
use muster_telemetry::history::is_shortened;
use serde_json::{Map, Value, json};

use super::{Args, CoreTool, Failure, ToolAudience, ToolReply, read, reply};
use crate::handle::Handle;

/// The maximum number of calls in a draft.
const MAX_CALLS: usize = 50;

pub(super) const TOOL: CoreTool = CoreTool {
    name: "core_calls_draft",
    audience: ToolAudience::Operators,
    effect: Some(Effect::Read),
    summary: "Draft a workflow from calls of the past: a step for each, in their order, with the arguments that the history \
              keeps. Nothing is stored: pass the draft to core_workflow_create.",
    schema: || {
        json!({"type": "object", "required": ["calls"], "properties": {
            "calls": {"type": "array", "items": {"type": "number"}, "description": "The ids of the calls, from core_calls_list"},
            "name": {"type": "string", "description": "The name of the workflow"},
        }})
    },
    run: |handle, _, args| Box::pin(draft(handle, args)),
};

async fn draft(handle: &Handle, args: Args) -> ToolReply {
    let ids = args.any("calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let ids: Option<Vec<u64>> = ids.iter().map(Value::as_u64).collect();
    let mut ids = ids.ok_or("`calls` must be a list of ids: whole numbers")?;
    ids.sort_unstable();
    ids.dedup();
    if ids.is_empty() || ids.len() > MAX_CALLS {
        return Err(format!("`calls` must be the ids of 1 to {MAX_CALLS} calls").into());
    }
    let found = read(handle, move |history| {
        ids.iter().map(|id| Ok((*id, history.get(*id)?))).collect::<std::io::Result<Vec<_>>>()
    });
    let mut calls = Vec::new();
    for (id, call) in found.await? {
        let Some(call) = call else {
            return Err(Failure::not_found(format!("no call {id} in the history")));
        };
        calls.push(call);
    }
    reply(&drafted(args.text("name").unwrap_or("recorded"), &calls))
}

/// The draft of calls, oldest first.
fn drafted(name: &str, calls: &[CallInfo]) -> WorkflowDraft {
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let (mut steps, mut notes) = (Vec::new(), Vec::new());
    for call in calls {
        if call.depth > 0 {
            notes.push(format!(
                "call {} of `{}` was left out: a workflow made it",
                call.id, call.tool
            ));
            continue;
        }
        let stem = step_id(&call.tool);
        let mut id = stem.clone();
        for number in 2_usize.. {
            if taken.insert(id.clone()) {
                break;
            }
            id = format!("{stem}_{number}");
        }
        let kept = call.arguments.as_ref().map(|arguments| arguments.get());
        let mut args: Map<String, Value> =
            kept.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        if args.values().any(is_cut) {
            notes.push(format!(
                "complete the texts of `{id}` that end with `…`: the history cut them"
            ));
        }
        args.values_mut().for_each(escape);
        if kept.is_none() && call.argument_bytes > "{}".len() as u64 {
            notes.push(format!("fill in the arguments of `{id}`: the history does not keep them"));
        }
        if kept.is_some_and(|text| text.contains(REDACTED)) {
            notes.push(format!("fill in the secrets of `{id}`: the history redacts them"));
        }
        if let Some(status) = call.status.filter(|status| *status != CallStatus::Ok) {
            notes.push(format!("`{id}` ended with `{}`", status.as_str()));
        }
        steps.push(DraftStep { id, tool: call.tool.clone(), args });
    }
    let description = match (calls.first(), calls.last()) {
        (Some(first), Some(last)) => format!("Recorded from calls {} to {}", first.id, last.id),
        _ => String::new(),
    };
    WorkflowDraft { name: name.to_owned(), description, steps, notes }
}

/// Whether a value contains a text that the history has cut.
fn is_cut(value: &Value) -> bool {
    match value {
        Value::String(text) => is_shortened(text),
        Value::Array(items) => items.iter().any(is_cut),
        Value::Object(members) => members.values().any(is_cut),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Escapes the braces of templates, because the arguments of a past call are literal values.
fn escape(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("{{") => {
            *text = text.replace("{{", r#"{{ "{{" }}"#);
        }
        Value::Array(items) => items.iter_mut().for_each(escape),
        Value::Object(members) => members.values_mut().for_each(escape),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

/// The id of a step, from the name of its tool: letters, digits and underscores.
fn step_id(tool: &str) -> String {
    let name = tool.strip_prefix("x_").or_else(|| tool.strip_prefix("core_")).unwrap_or(tool);
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use muster_api::calls::CallInfo;
    use muster_core::{json::raw, observer::CallStatus};
    use serde_json::{Value, json};

    use super::drafted;

    fn call(id: u64, tool: &str, arguments: Option<&Value>, depth: u64) -> CallInfo {
        CallInfo {
            id,
            tool: tool.to_owned(),
            status: Some(CallStatus::Ok),
            argument_bytes: 20,
            arguments: arguments.map(raw),
            depth,
            ..CallInfo::default()
        }
    }

    #[test]
    fn ids_are_unique() {
        let tools = ["x_a", "x_a_2", "x_a", "core_a"];
        let calls: Vec<CallInfo> = tools.iter().map(|tool| call(1, tool, None, 0)).collect();
        let ids: Vec<String> = drafted("d", &calls).steps.into_iter().map(|step| step.id).collect();
        assert_eq!(ids, ["a", "a_2", "a_3", "a_4"]);
    }

    #[test]
    fn arguments_are_values_and_not_templates() {
        let long = format!("{}…", "x".repeat(1_000));
        let args = json!({"text": "a {{ .x }} b", "list": [{"long": long}], "n": 1});
        let draft = drafted("d", &[call(1, "x_a", Some(&args), 0)]);
        let step = serde_json::to_value(&draft.steps[0].args).unwrap();
        assert_eq!(step["text"], r#"a {{ "{{" }} .x }} b"#);
        assert_eq!(step["n"], 1);
        assert_eq!(
            draft.notes,
            ["complete the texts of `a` that end with `…`: the history cut them"]
        );
    }

    #[test]
    fn every_call_becomes_a_step() {
        let calls = [
            call(3, "x_notes_list", Some(&json!({"tag": "a"})), 0),
            call(4, "x_notes_list", None, 0),
            call(5, "x_notes_read", Some(&json!({"token": "[REDACTED]"})), 0),
            call(6, "x_notes_read", None, 1),
            CallInfo {
                status: Some(CallStatus::TooDeep),
                ..call(7, "x_notes_add", Some(&json!({})), 0)
            },
        ];
        let draft = drafted("daily", &calls);
        assert_eq!(
            serde_json::to_value(&draft).unwrap(),
            json!({
                "name": "daily",
                "description": "Recorded from calls 3 to 7",
                "steps": [
                    {"id": "notes_list", "tool": "x_notes_list", "args": {"tag": "a"}},
                    {"id": "notes_list_2", "tool": "x_notes_list"},
                    {"id": "notes_read", "tool": "x_notes_read", "args": {"token": "[REDACTED]"}},
                    {"id": "notes_add", "tool": "x_notes_add"},
                ],
                "notes": [
                    "fill in the arguments of `notes_list_2`: the history does not keep them",
                    "fill in the secrets of `notes_read`: the history redacts them",
                    "call 6 of `x_notes_read` was left out: a workflow made it",
                    "`notes_add` ended with `too_deep`",
                ],
            })
        );
    }
}
