//! Formats the replies of core tools for people, with one view for each type of `muster-api`.
//!
//! The name of the tool determines the type. Replies of other tools are formatted by [`json_view`].

mod calls;
mod gateway;
mod policy;
mod server;
mod service;
pub mod stats;
mod workflow;

use muster_api::{
    Availability,
    access::{CreatedToken, SessionList, StaticTokenInfo},
    calls::{CallInfo, CallList, CallStats},
    config::{ConfigInfo, ConfigProblem},
    event::EventInfo,
    execution::{ExecutionList, ExecutionReply, RunRecord, TOOL_PREFIX},
    mcp_server::{McpServerInfo, McpServerList, ServerLog},
    policy::{PolicyAnswer, PolicyInfo},
    service::{ServiceInfo, ServiceList, ServiceStatus},
    service_class::{ServiceClassInfo, ServiceClassList},
    state::BackendState,
    stats::Stats,
    workflow::{WorkflowInfo, WorkflowList},
};
use muster_core::json::Raw;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use self::server::log_line;
use super::{
    format::{OutputFormat, OutputStyle},
    json_view, yaml,
};
use crate::error::CommandError;

/// A reply that can be formatted for people.
pub trait ReplyView: DeserializeOwned {
    /// Formats the reply as a table or a page.
    fn show(&self, style: OutputStyle) -> String;
}

type Render = fn(&str, OutputStyle) -> serde_json::Result<String>;

/// The views of the core tools that reply with a type of `muster-api`.
const TYPES: &[(&str, Render)] = &[
    ("core_calls_get", render::<CallInfo>),
    ("core_calls_list", render::<CallList>),
    ("core_calls_stats", render::<CallStats>),
    ("core_config_get", render::<ConfigInfo>),
    ("core_config_get_aggregator", render::<ConfigInfo>),
    ("core_config_problems", render::<Vec<ConfigProblem>>),
    ("core_events", render::<Vec<EventInfo>>),
    ("core_mcpserver_get", render::<McpServerInfo>),
    ("core_mcpserver_list", render::<McpServerList>),
    ("core_mcpserver_logs", render::<ServerLog>),
    ("core_policy_check", render::<PolicyAnswer>),
    ("core_policy_get", render::<PolicyInfo>),
    ("core_service_create", render::<ServiceInfo>),
    ("core_service_get", render::<ServiceInfo>),
    ("core_service_list", render::<ServiceList>),
    ("core_service_status", render::<ServiceStatus>),
    ("core_serviceclass_available", render::<Availability>),
    ("core_serviceclass_get", render::<ServiceClassInfo>),
    ("core_serviceclass_list", render::<ServiceClassList>),
    ("core_session_list", render::<SessionList>),
    ("core_stats", render::<Stats>),
    ("core_token_create", render::<CreatedToken>),
    ("core_token_list", render::<Vec<StaticTokenInfo>>),
    ("core_workflow_available", render::<Availability>),
    ("core_workflow_execution_get", render::<RunRecord>),
    ("core_workflow_execution_list", render::<ExecutionList>),
    ("core_workflow_get", render::<WorkflowInfo>),
    ("core_workflow_list", render::<WorkflowList>),
];

fn render<T: ReplyView>(text: &str, style: OutputStyle) -> serde_json::Result<String> {
    Ok(serde_json::from_str::<T>(text)?.show(style))
}

/// Formats the text of a tool. Text that is not JSON is printed unchanged and cannot be converted to YAML.
pub fn text(tool: &str, text: &str, style: OutputStyle) -> Result<String, CommandError> {
    match style.format {
        OutputFormat::Json => Ok(text.to_owned()),
        OutputFormat::Yaml => document(tool, text),
        OutputFormat::Table | OutputFormat::Wide => Ok(page(tool, text, style)),
    }
}

fn document(tool: &str, text: &str) -> Result<String, CommandError> {
    let reply: Raw = serde_json::from_str(text).map_err(|err| {
        CommandError::new(format!("failed to parse JSON: {err}"))
            .hint("the result is not JSON; use --output table or json to print it unchanged")
    })?;
    if tool == "core_workflow_get"
        && let Ok(WorkflowInfo { yaml, .. }) = serde_json::from_str(text)
    {
        return Ok(yaml.trim_end().to_owned());
    }
    Ok(yaml::document(&reply))
}

fn page(tool: &str, text: &str, style: OutputStyle) -> String {
    let render: Option<Render> = match TYPES.iter().find(|(name, _)| *name == tool) {
        Some((_, render)) => Some(*render),
        None if tool.starts_with(TOOL_PREFIX) => Some(render::<ExecutionReply>),
        None => None,
    };
    // The gateway may have another version: if its reply does not parse, show it as JSON.
    if let Some(page) = render.and_then(|render| render(text, style).ok()) {
        return page;
    }
    match serde_json::from_str::<Value>(text) {
        Ok(value) => json_view::show(&value, style),
        Err(_) => text.to_owned(),
    }
}

/// Formats a time without `T`, fraction and `Z`.
fn time(text: &str) -> String {
    let time = text.replacen('T', " ", 1);
    time.split('.').next().unwrap_or_default().trim_end_matches('Z').to_owned()
}

/// Converts an identifier to a title: `auth_required` becomes `Auth Required`.
pub fn title(word: &str) -> String {
    let words = word.split('_').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The word for the state of a server or service. Programs see `unreachable` for a server that failed several times;
/// people see the same word for every failed server.
pub fn state_word(state: BackendState) -> String {
    title(match state {
        BackendState::Unreachable => BackendState::Failed.as_str(),
        state => state.as_str(),
    })
}

/// Adds notes below a table. They are left out with the headings, for programs that read such a table by line.
fn with_notes(
    table: String,
    notes: impl IntoIterator<Item = String>,
    style: OutputStyle,
) -> String {
    let notes = notes.into_iter().filter(|_| style.headings);
    std::iter::once(table).chain(notes).collect::<Vec<_>>().join("\n\n")
}

/// Adds a section with a heading to a page, unless its table is empty.
fn section(page: &mut Vec<String>, heading: &str, table: &super::table::Table) {
    if !table.is_empty() {
        page.push(format!("{heading}:\n{}", table.text()));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{BackendState, OutputFormat, OutputStyle, state_word, text, time, title};

    pub(super) fn shown(tool: &str, reply: &Value, format: OutputFormat) -> String {
        text(tool, &reply.to_string(), OutputStyle { format, headings: true }).unwrap()
    }

    #[test]
    fn tables_without_headings_have_no_notes() {
        let lines = |tool: &str, reply: &Value, headings| {
            let style = OutputStyle { format: OutputFormat::Table, headings };
            text(tool, &reply.to_string(), style).unwrap().lines().count()
        };
        let failed = json!({"name": "a", "type": "stdio", "state": "Failed", "consecutiveFailures": 2,
            "error": "it ended"});
        let run = json!({"execution_id": "1", "workflow_name": "w", "status": "failed",
            "started_at": "2026-01-01T00:00:00Z", "duration_ms": 1, "step_count": 1});
        for (tool, reply) in [
            ("core_mcpserver_list", json!({"hint": "see --all", "mcpServers": [failed]})),
            ("core_workflow_list", json!({"workflows": [{"name": "w", "available": false}]})),
            (
                "core_serviceclass_list",
                json!({"serviceClasses": [{"name": "c", "available": false}]}),
            ),
            (
                "core_workflow_execution_list",
                json!({"executions": [run], "total": 9, "limit": 1, "offset": 0,
                "has_more": true}),
            ),
            ("core_calls_list", json!({"calls": [{"id": 7, "tool": "t"}], "next": 7})),
        ] {
            assert_eq!(lines(tool, &reply, false), 1, "{tool}");
            assert!(lines(tool, &reply, true) > 3, "{tool}");
        }
    }

    #[test]
    fn layouts() {
        let said = |format, tool: &str, reply: &str| {
            text(tool, reply, OutputStyle { format, headings: true }).map_err(|err| err.to_string())
        };
        assert_eq!(said(OutputFormat::Json, "x", "{ \"a\":1 }").unwrap(), "{ \"a\":1 }");
        assert_eq!(
            said(OutputFormat::Yaml, "x", "{\"b\":1,\"a\":12345678901234567890}").unwrap(),
            "a: 12345678901234567890\nb: 1"
        );
        let workflow = "{\"yaml\":\"x: 1\\n\"}";
        assert_eq!(said(OutputFormat::Yaml, "core_workflow_get", workflow).unwrap(), "x: 1");
        assert_eq!(said(OutputFormat::Yaml, "x", workflow).unwrap(), "yaml: |\n    x: 1");
        let plain = said(OutputFormat::Yaml, "x", "done").unwrap_err();
        assert!(plain.starts_with("failed to parse JSON: "), "{plain}");
        assert_eq!(said(OutputFormat::Table, "x", "done").unwrap(), "done");
    }

    #[test]
    fn a_reply_of_another_type_is_shown_all_the_same() {
        let reply = json!({"servers": "many"});
        let page = shown("core_mcpserver_get", &json!(["a", "b"]), OutputFormat::Table);
        assert_eq!(page, "a\nb");
        let page = shown("core_events", &reply, OutputFormat::Table);
        assert_eq!(page, "PROPERTY   VALUE\nservers    many");
    }

    #[test]
    fn words_and_times() {
        assert_eq!(title("auth_required"), "Auth Required");
        assert_eq!(state_word(BackendState::Unreachable), "Failed");
        assert_eq!(state_word(BackendState::Failed), "Failed");
        assert_eq!(time("2026-02-03T04:05:06.789Z"), "2026-02-03 04:05:06");
    }
}
