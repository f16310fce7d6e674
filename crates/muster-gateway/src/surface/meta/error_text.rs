//! The text of an error: what is wrong, a hint, and the schema of the argument in question.

use muster_core::{
    arguments::ArgumentProblem,
    call::{CallError, Role},
    catalog::ToolAudience,
    json::{Raw, RawObject},
    name::BackendName,
    next_step::NextStep,
    repair::advice::{self, Advice, SchemaFragment},
    suggest,
    text::shortened,
};
use muster_workflow::TOOL_PREFIX;
use serde_json::value::RawValue;

use super::{Meta, budget::Budget, unavailable::Unavailable};
use crate::{absent::Absent, condition::ServerCondition, dispatch::GatewaySnapshot};

/// The longest description of a problem, in characters: it may quote the caller.
const MAX_PROBLEM: usize = 300;

/// Joins the lines that are not empty.
pub(super) fn lines(lines: &[String]) -> String {
    let lines = lines.iter().filter(|line| !line.is_empty()).map(String::as_str);
    lines.collect::<Vec<_>>().join("\n")
}

/// Why a call with these arguments did not run.
pub(super) fn error(
    meta: &Meta,
    state: &GatewaySnapshot,
    arguments: &RawValue,
    error: &CallError,
) -> String {
    match error {
        CallError::UnknownTool { tool, .. } => unknown(meta, state, tool.as_str()),
        CallError::InvalidArguments { tool, problems, schema, .. } => {
            let problems: Vec<String> = problems.iter().map(problem).collect();
            let said = format!("the arguments do not fit `{tool}`: {}", problems.join("; "));
            match advice::advice(tool.as_str(), schema, arguments) {
                Some(Advice { fix, fragment }) => advised(said, &fix, fragment.as_ref()),
                None => said,
            }
        }
        CallError::PolicyViolation { tool, violations } => {
            let said = format!(
                "the policy refuses these arguments of `{tool}`: {}",
                violations.join("; ")
            );
            lines(&[said, "hint: the values allowed are set by this server's policy".to_owned()])
        }
        CallError::Unavailable { .. } | CallError::Upstream { .. } => {
            format!("failed to call tool: {error}")
        }
        CallError::Instance(said) => match selected(state, arguments) {
            Some(absent) if absent.condition == ServerCondition::AuthRequired => {
                let server = &absent.server;
                let why = format!(
                    "failed to connect to server {server}: user not authenticated to server {server}"
                );
                lines(&[said.clone(), why, format!("hint: {}", absent.hint(state))])
            }
            Some(absent) => lines(&[said.clone(), not_connected(state, absent)]),
            None => said.clone(),
        },
        CallError::InvalidPolicy { .. }
        | CallError::Destructive { .. }
        | CallError::ExcessiveEffect(_)
        | CallError::TooDeep { .. } => error.to_string(),
    }
}

/// An error with a hint and the schema of the argument in question.
pub(super) fn advised(said: String, fix: &str, fragment: Option<&SchemaFragment>) -> String {
    let schema = fragment.map(|SchemaFragment { argument, schema }| match schema {
        Some(schema) => format!("schema of `{argument}`: {schema}"),
        None => format!("schema of `{argument}`: see describe_tool"),
    });
    lines(&[said, format!("hint: {fix}"), schema.unwrap_or_default()])
}

/// The error for a tool that is in no list: its server may be absent.
pub(super) fn not_found(meta: &Meta, state: &GatewaySnapshot, said: String, name: &str) -> String {
    let unavailable = Unavailable::of(state, Budget(usize::MAX));
    match absent(state, name) {
        // Until it has been connected once, it is not known whether it has the tool.
        Some(absent) if absent.last.is_none() => not_connected(state, absent),
        Some(absent) => lines(&[said, not_connected(state, absent)]),
        None => lines(&[said, nearest(meta, state, name), unavailable.sentence()]),
    }
}

/// A hint with similar names of tools.
fn nearest(meta: &Meta, state: &GatewaySnapshot, name: &str) -> String {
    if meta.tool(name).is_some() {
        return format!("hint: `{name}` is not behind call_tool: call it directly");
    }
    let hint = operators_only(state, name).or_else(|| switched_off(state, name));
    if let Some(hint) = hint.or_else(|| no_toolset(state)) {
        return hint;
    }
    let near = state.catalog.similar(name, |entry| state.policy.shows(entry));
    let near: Vec<&str> = near.iter().map(|name| name.as_str()).collect();
    near_names(&near).unwrap_or_else(|| format!("hint: find its name with {}", NextStep::FindTool))
}

/// A hint for a tool that changes the gateway. Its name is not a secret.
fn operators_only(state: &GatewaySnapshot, name: &str) -> Option<String> {
    let entry = state.catalog.get(name)?;
    (entry.audience == ToolAudience::Operators && state.policy.role() == Role::Agent).then(|| {
        format!(
            "hint: `{name}` is for operators of this gateway; a policy can give it to a caller by its name"
        )
    })
}

/// A hint for a bundled tool that is not offered. The names of bundled tools are not a secret.
fn switched_off(state: &GatewaySnapshot, name: &str) -> Option<String> {
    let cli = state.switched_off.get(name)?;
    Some(format!(
        "hint: `{name}` is switched off; an operator can enable it with `muster enable cli {cli}`"
    ))
}

/// A hint for a caller that is bound to a toolset without a file.
fn no_toolset(state: &GatewaySnapshot) -> Option<String> {
    let name = state.policy.unknown_toolset()?;
    Some(format!(
        "hint: there is no toolset `{name}`, so no tool is shown; add `toolsets/{name}.yaml`"
    ))
}

/// A hint with similar names of resources or prompts.
pub(super) fn nearest_of<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> String {
    near_names(&suggest::similar(name, names)).unwrap_or_default()
}

/// The backend's own error, for programs.
pub(super) fn refusal(error: &CallError) -> Option<(i64, &str, Option<&Raw>)> {
    match error {
        CallError::Upstream { code, message, data } => Some((*code, message, data.as_ref())),
        _ => None,
    }
}

fn unknown(meta: &Meta, state: &GatewaySnapshot, name: &str) -> String {
    if let Some(absent) = absent(state, name) {
        return not_connected(state, absent);
    }
    // Whether a family has it is only known if one of its servers is connected.
    let family = state.absent_servers_of(name).into_iter();
    if let Some(member) = family.into_iter().find(|member| !member.condition.is_down()) {
        let said = format!("tool not found: {}", shortened(name));
        return lines(&[said, not_connected(state, member)]);
    }
    if let Some(workflow) = name.strip_prefix(TOOL_PREFIX) {
        let said = format!("workflow {} not found", shortened(workflow));
        return lines(&[said, nearest(meta, state, name)]);
    }
    // A stopped server stays in the catalog. A connected one may have no tools of its own: they can all be in families.
    let is_here = |backend: &&BackendName| {
        let mut sources = state.catalog.sources();
        state.backends.contains_key(*backend) && sources.any(|source| source.backend == **backend)
    };
    let gone = state.catalog.former_backend(name).filter(|backend| !is_here(backend));
    match gone.map(BackendName::as_str) {
        Some(gone) if !gone.contains('/') => format!("server not found: {gone}"),
        // A CLI is not a server.
        Some(_) | None => {
            not_found(meta, state, format!("tool not found: {}", shortened(name)), name)
        }
    }
}

/// The server that a tool's name belongs to, if it is lost or not connected yet. Whether it has such a tool
/// is known only if it was connected before.
fn absent<'a>(state: &'a GatewaySnapshot, name: &str) -> Option<&'a Absent> {
    let absent = state.absent.iter().filter(|(_, absent)| !absent.condition.is_down());
    let of_name = absent.filter(|(start, _)| name.starts_with(start.as_str()));
    of_name.max_by_key(|(start, _)| start.len()).map(|(_, absent)| absent)
}

/// The absent member of a family that the arguments of a call select.
fn selected<'a>(state: &'a GatewaySnapshot, arguments: &RawValue) -> Option<&'a Absent> {
    let given = RawObject::parse(arguments)?;
    let mut members = state.absent.values().filter(|absent| absent.family_prefix.is_some());
    members.find(|absent| {
        given.iter().any(|(key, _)| given.get_text(key).as_deref() == Some(absent.server.as_str()))
    })
}

fn not_connected(state: &GatewaySnapshot, absent: &Absent) -> String {
    let (server, status) = (&absent.server, absent.condition.as_str());
    let reason = absent.reason().map(|reason| format!("reason: {reason}"));
    lines(&[
        format!("server not connected: {server} (status: {status})"),
        reason.unwrap_or_default(),
        format!("hint: {}", absent.hint(state)),
    ])
}

fn near_names(near: &[&str]) -> Option<String> {
    (!near.is_empty()).then(|| format!("hint: nearest names: {}", near.join(", ")))
}

fn problem(problem: &ArgumentProblem) -> String {
    let text = match problem {
        ArgumentProblem::Schema { message } => message.clone(),
        ArgumentProblem::Missing { .. }
        | ArgumentProblem::Inconvertible { .. }
        | ArgumentProblem::NotAllowed { .. }
        | ArgumentProblem::LeadingDash { .. }
        | ArgumentProblem::Mismatch { .. } => problem.to_string(),
    };
    match text.char_indices().nth(MAX_PROBLEM) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned() + "…",
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_core::name::BackendName;

    use super::{Meta, unknown};
    use crate::{absent::Absent, condition::ServerCondition, dispatch::GatewaySnapshot};

    #[test]
    fn why_a_server_has_no_tools() {
        let said = |condition, error: Option<&str>, next_retry: Option<&str>| {
            let absent = Absent {
                error: error.map(str::to_owned),
                next_retry: next_retry.map(str::to_owned),
                ..Absent::new(BackendName::new("slow"), condition)
            };
            let absent = Arc::new([("x_slow_".to_owned(), absent)].into());
            let state = GatewaySnapshot { absent, ..GatewaySnapshot::default() };
            unknown(&Meta::default(), &state, "x_slow_ok")
        };
        assert_eq!(
            said(ServerCondition::Starting, None, None),
            "server not connected: slow (status: starting)\nhint: it is still starting; call again in a moment"
        );
        assert_eq!(
            said(ServerCondition::Failed, Some("no such program"), Some("2026-01-01T00:00:09Z")),
            "server not connected: slow (status: failed)\nreason: no such program\nhint: it is tried again at \
             2026-01-01T00:00:09Z"
        );
        assert_eq!(
            said(ServerCondition::Stopped, None, None),
            "tool not found: x_slow_ok\nhint: find its name with filter_tools\nhint: these servers are \
             unavailable: slow"
        );
        assert!(
            unknown(&Meta::default(), &GatewaySnapshot::default(), "x_slow_ok")
                .starts_with("tool not found: x_slow_ok")
        );
    }
}
