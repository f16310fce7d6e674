//! The transport-independent part of a mock: requests in, planned replies out.
//!
//! **Invariant:** the state is replaced as a whole, so a fault that a step sets applies to every call that
//! arrives after it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{
    ErrorStyle, MockConfig, MockContent, MockResponse, MockTool,
    fault::{Fault, FaultKind},
};
use crate::{
    go_format, template,
    wire::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Message, RpcError, text_result},
};

/// Supported protocol versions; the first is the default.
const VERSIONS: [&str; 4] = ["2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"];

/// A mock server without its transport. Clones share the same state.
#[derive(Debug, Clone)]
pub struct MockServer {
    name: Arc<str>,
    error_style: ErrorStyle,
    content: Arc<MockContent>,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    tools: Vec<MockTool>,
    /// The fault of all calls.
    fault: Option<Fault>,
    /// Faults by tool.
    tool_faults: BTreeMap<String, Fault>,
    /// How often the fault of a response was injected, by tool and index.
    fault_counts: BTreeMap<(String, usize), u32>,
    /// Incremented with every change of the tools.
    version: u64,
}

/// A response and how to send it.
#[derive(Debug)]
pub struct PlannedReply {
    /// The result or error.
    pub outcome: Result<Value, RpcError>,
    /// How long it takes.
    pub delay: Duration,
    /// The fault to inject.
    pub fault: Option<FaultKind>,
}

/// A change to a running mock.
#[derive(Debug, Clone)]
pub enum MockChange {
    /// Sets or clears the fault of one tool, or of all.
    Fault {
        /// The tool, or all.
        tool: Option<String>,
        /// The fault, or none.
        fault: Option<Fault>,
    },
    /// Adds or replaces a tool.
    AddTool(Box<MockTool>),
    /// Removes a tool.
    RemoveTool(String),
}

impl MockServer {
    /// A mock with the server name `mock-<name>`.
    pub fn new(name: &str, config: &MockConfig) -> Self {
        let state = State { tools: config.tools.clone(), fault: config.fault, ..State::default() };
        Self {
            name: name.into(),
            error_style: config.error_style,
            content: Arc::new(config.content.clone()),
            state: Arc::new(watch::Sender::new(state)),
        }
    }

    /// Applies a change; returns whether anything changed.
    pub fn change(&self, change: MockChange) -> bool {
        self.state.send_if_modified(|state| state.apply(change))
    }

    /// The version of its tools, incremented with every change.
    pub fn tools_version(&self) -> u64 {
        self.state.borrow().version
    }

    /// Waits until the tools differ from `version`, then updates it.
    pub async fn tools_changed(&self, version: &mut u64) {
        let mut state = self.state.subscribe();
        let seen = *version;
        if let Ok(state) = state.wait_for(|state| state.version != seen).await {
            *version = state.version;
        }
    }

    /// Handles a message; notifications have no reply.
    pub fn handle(&self, message: Message) -> Option<(Value, PlannedReply)> {
        let Message::Request { id, method, params } = message else { return None };
        let plan = match method.as_str() {
            "tools/call" => self.call(&params),
            "initialize" => PlannedReply::now(Ok(self.initialize(&params))),
            "ping" => PlannedReply::now(Ok(json!({}))),
            "tools/list" => PlannedReply::now(Ok(self.list())),
            other => PlannedReply::now(self.content.handle(other, &params).unwrap_or_else(|| {
                let text = format!("Method not found: {method}");
                Err(RpcError::new(METHOD_NOT_FOUND, text))
            })),
        };
        Some((id, plan))
    }

    /// Whether a message calls a tool that shows the token that it was called with.
    pub(crate) fn echoes_token(&self, message: &Message) -> bool {
        let Message::Request { method, params, .. } = message else { return false };
        let name = params.get("name").and_then(Value::as_str);
        let state = self.state.borrow();
        method == "tools/call"
            && state.tools.iter().any(|tool| tool.echo_token && Some(tool.name.as_str()) == name)
    }

    fn initialize(&self, params: &Value) -> Value {
        let wanted = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let [newest, ..] = VERSIONS;
        let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(newest);
        let mut capabilities = json!({"tools": {"listChanged": true}});
        if let Some(capabilities) = capabilities.as_object_mut() {
            capabilities.extend(self.content.capabilities());
        }
        json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "serverInfo": {"name": format!("mock-{}", self.name), "version": "1.0.0"},
        })
    }

    fn list(&self) -> Value {
        let state = self.state.borrow();
        let tools: Vec<Value> = state
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.shown_schema,
                })
            })
            .collect();
        json!({ "tools": tools })
    }

    fn call(&self, params: &Value) -> PlannedReply {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let args = params.get("arguments").cloned().unwrap_or_default();
        let mut plan = None;
        self.state.send_if_modified(|state| {
            plan = Some(state.call(&name, args));
            false
        });
        let no_answer = || PlannedReply::now(Err(RpcError::new(INTERNAL_ERROR, "no answer")));
        let plan = plan.unwrap_or_else(no_answer);
        match (plan.outcome, self.error_style) {
            (Err(error), ErrorStyle::ToolResult) if error.code == INTERNAL_ERROR => {
                let mut result = text_result(&error.message);
                if let Some(result) = result.as_object_mut() {
                    result.insert("isError".to_owned(), true.into());
                }
                PlannedReply { outcome: Ok(result), ..plan }
            }
            (outcome, _) => PlannedReply { outcome, ..plan },
        }
    }
}

impl PlannedReply {
    const fn now(outcome: Result<Value, RpcError>) -> Self {
        Self { outcome, delay: Duration::ZERO, fault: None }
    }
}

impl State {
    fn apply(&mut self, change: MockChange) -> bool {
        match change {
            MockChange::Fault { tool: None, fault } => self.fault = fault,
            MockChange::Fault { tool: Some(tool), fault: Some(fault) } => {
                self.tool_faults.insert(tool, fault);
            }
            MockChange::Fault { tool: Some(tool), fault: None } => {
                self.tool_faults.remove(&tool);
            }
            MockChange::AddTool(tool) => {
                self.tools.retain(|known| known.name != tool.name);
                self.tools.push(*tool);
                self.version += 1;
            }
            MockChange::RemoveTool(name) => {
                let before = self.tools.len();
                self.tools.retain(|known| known.name != name);
                if self.tools.len() == before {
                    return false;
                }
                self.version += 1;
            }
        }
        true
    }

    fn call(&mut self, name: &str, given: Value) -> PlannedReply {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == name) else {
            let text = format!("tool '{name}' not found: tool not found");
            return PlannedReply::now(Err(RpcError::new(INVALID_PARAMS, text)));
        };
        let mut args = tool.defaults.clone();
        if let Value::Object(given) = go_format::as_received(given) {
            args.extend(given);
        }
        let Some((place, response)) = choose(&tool.responses, &args) else {
            let text = format!("no response configured for tool {name}");
            return PlannedReply::now(Err(RpcError::new(INTERNAL_ERROR, text)));
        };
        let outcome = outcome(response, &args);
        let (delay, own) = (response.delay, response.fault);
        let fault = self.next_fault(name, place, own);
        match fault {
            Some(FaultKind::Delay(more)) => {
                PlannedReply { outcome, delay: delay + more, fault: None }
            }
            fault => PlannedReply { outcome, delay, fault },
        }
    }

    /// The fault to inject into this call, counted against its limit.
    fn next_fault(&mut self, tool: &str, place: usize, own: Option<Fault>) -> Option<FaultKind> {
        if let Some(fault) = own {
            let fault_counts = self.fault_counts.entry((tool.to_owned(), place)).or_default();
            if fault.times.is_none_or(|times| *fault_counts < times) {
                *fault_counts += 1;
                return Some(fault.kind);
            }
        }
        let set = [self.tool_faults.get_mut(tool), self.fault.as_mut()];
        for fault in set.into_iter().flatten() {
            match &mut fault.times {
                None => return Some(fault.kind),
                Some(0) => {}
                Some(times) => {
                    *times -= 1;
                    return Some(fault.kind);
                }
            }
        }
        None
    }
}

/// The first matching response, else the first.
fn choose<'a>(
    responses: &'a [MockResponse],
    args: &Map<String, Value>,
) -> Option<(usize, &'a MockResponse)> {
    let fits = |response: &MockResponse| {
        response.condition.iter().flatten().all(|(name, wanted)| {
            args.get(name).is_some_and(|given| {
                given == wanted || go_format::display(given) == go_format::display(wanted)
            })
        })
    };
    let mut all = responses.iter().enumerate();
    all.clone().find(|(_, response)| fits(response)).or_else(|| all.next())
}

fn outcome(response: &MockResponse, args: &Map<String, Value>) -> Result<Value, RpcError> {
    let failed = |text: String| RpcError::new(INTERNAL_ERROR, text);
    if let Some(error) = &response.error {
        let text = template::render_text(error, args)
            .unwrap_or_else(|err| format!("failed to render error message: {err}"));
        return Err(failed(text));
    }
    let rendered = template::render(&response.response, args)
        .map_err(|err| failed(format!("failed to render response: {err}")))?;
    let mut result = text_result(&match &rendered {
        Value::Null => String::new(),
        Value::Array(_) | Value::Object(_) => go_format::json(&rendered),
        other => go_format::display(other),
    });
    let extra = &response.extra;
    let more = [("content", &extra.content), ("structuredContent", &extra.structured)];
    for (key, value) in more {
        let Some(value) = value else { continue };
        let value = template::render(value, args)
            .map_err(|err| failed(format!("failed to render {key}: {err}")))?;
        if let Some(result) = result.as_object_mut() {
            result.insert(key.to_owned(), value);
        }
    }
    if let (true, Some(result)) = (extra.is_error, result.as_object_mut()) {
        result.insert("isError".to_owned(), true.into());
    }
    Ok(result)
}

#[cfg(test)]
mod tests;
