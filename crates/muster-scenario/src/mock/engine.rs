//! What a mock answers: a call in, an answer and the way it is sent out. No transport in here.
//!
//! **Invariant:** the state is one immutable value that is replaced whole, so a fault that a step sets
//! counts for every call that arrives after it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::{
    Failing, MockConfig, MockResponse, MockTool, Shelf,
    fault::{Fault, FaultKind},
};
use crate::{
    goform, template,
    wire::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Message, RpcError, text_result},
};

/// Protocol versions that a mock agrees to; others are answered with the first.
const VERSIONS: [&str; 4] = ["2025-06-18", "2025-11-25", "2025-03-26", "2024-11-05"];

/// A mock server without its transport. Clones are the same server.
#[derive(Debug, Clone)]
pub struct Mock {
    name: Arc<str>,
    failing: Failing,
    shelf: Arc<Shelf>,
    state: Arc<watch::Sender<State>>,
}

#[derive(Debug, Default)]
struct State {
    tools: Vec<MockTool>,
    /// What all calls suffer.
    fault: Option<Fault>,
    /// What calls of one tool suffer.
    tool_faults: BTreeMap<String, Fault>,
    /// How often the fault of a response has struck: by tool and place.
    struck: BTreeMap<(String, usize), u32>,
    /// How often the tools have changed.
    version: u64,
}

/// An answer, and how it is to be sent.
#[derive(Debug)]
pub struct Plan {
    /// What it says.
    pub outcome: Result<Value, RpcError>,
    /// How long it takes.
    pub delay: Duration,
    /// How it goes wrong.
    pub fault: Option<FaultKind>,
}

/// A change of a mock while it runs.
#[derive(Debug, Clone)]
pub enum Change {
    /// Calls go wrong from now on, of one tool or of all; or well again.
    Fault {
        /// Which tool.
        tool: Option<String>,
        /// How.
        fault: Option<Fault>,
    },
    /// There is one more tool, or another one of that name.
    AddTool(Box<MockTool>),
    /// There is one tool less.
    RemoveTool(String),
}

impl Mock {
    /// A mock that calls itself `mock-<name>`.
    pub fn new(name: &str, config: &MockConfig) -> Self {
        let state = State { tools: config.tools.clone(), fault: config.fault, ..State::default() };
        Self {
            name: name.into(),
            failing: config.failing,
            shelf: Arc::new(config.shelf.clone()),
            state: Arc::new(watch::Sender::new(state)),
        }
    }

    /// Changes it. Whether there was anything to change.
    pub fn change(&self, change: Change) -> bool {
        self.state.send_if_modified(|state| state.apply(change))
    }

    /// How often its tools have changed.
    pub fn tools_version(&self) -> u64 {
        self.state.borrow().version
    }

    /// Waits until its tools are others than at `version`, which is set to the new one.
    pub async fn tools_changed(&self, version: &mut u64) {
        let mut state = self.state.subscribe();
        let seen = *version;
        if let Ok(state) = state.wait_for(|state| state.version != seen).await {
            *version = state.version;
        }
    }

    /// Answers a message, if it wants an answer.
    pub fn handle(&self, message: Message) -> Option<(Value, Plan)> {
        let Message::Request { id, method, params } = message else { return None };
        let plan = match method.as_str() {
            "tools/call" => self.call(&params),
            "initialize" => Plan::now(Ok(self.initialize(&params))),
            "ping" => Plan::now(Ok(json!({}))),
            "tools/list" => Plan::now(Ok(self.list())),
            other => Plan::now(self.shelf.answer(other, &params).unwrap_or_else(|| {
                let text = format!("Method not found: {method}");
                Err(RpcError::new(METHOD_NOT_FOUND, text))
            })),
        };
        Some((id, plan))
    }

    fn initialize(&self, params: &Value) -> Value {
        let wanted = params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let [newest, ..] = VERSIONS;
        let version = VERSIONS.into_iter().find(|version| *version == wanted).unwrap_or(newest);
        let mut capabilities = json!({"tools": {"listChanged": true}});
        if let Some(capabilities) = capabilities.as_object_mut() {
            capabilities.extend(self.shelf.capabilities());
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

    fn call(&self, params: &Value) -> Plan {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let given = params.get("arguments").cloned().unwrap_or_default();
        let mut plan = None;
        self.state.send_if_modified(|state| {
            plan = Some(state.call(&name, given));
            false
        });
        let no_answer = || Plan::now(Err(RpcError::new(INTERNAL_ERROR, "no answer")));
        let plan = plan.unwrap_or_else(no_answer);
        match (plan.outcome, self.failing) {
            (Err(error), Failing::AsResult) if error.code == INTERNAL_ERROR => {
                let mut result = text_result(&error.message);
                if let Some(result) = result.as_object_mut() {
                    result.insert("isError".to_owned(), true.into());
                }
                Plan { outcome: Ok(result), ..plan }
            }
            (outcome, _) => Plan { outcome, ..plan },
        }
    }
}

impl Plan {
    const fn now(outcome: Result<Value, RpcError>) -> Self {
        Self { outcome, delay: Duration::ZERO, fault: None }
    }
}

impl State {
    fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Fault { tool: None, fault } => self.fault = fault,
            Change::Fault { tool: Some(tool), fault: Some(fault) } => {
                self.tool_faults.insert(tool, fault);
            }
            Change::Fault { tool: Some(tool), fault: None } => {
                self.tool_faults.remove(&tool);
            }
            Change::AddTool(tool) => {
                self.tools.retain(|known| known.name != tool.name);
                self.tools.push(*tool);
                self.version += 1;
            }
            Change::RemoveTool(name) => {
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

    fn call(&mut self, name: &str, given: Value) -> Plan {
        let Some(tool) = self.tools.iter().find(|tool| tool.name == name) else {
            let text = format!("tool '{name}' not found: tool not found");
            return Plan::now(Err(RpcError::new(INVALID_PARAMS, text)));
        };
        let mut args = tool.defaults.clone();
        if let Value::Object(given) = goform::as_received(given) {
            args.extend(given);
        }
        let Some((place, response)) = choose(&tool.responses, &args) else {
            let text = format!("no response configured for tool {name}");
            return Plan::now(Err(RpcError::new(INTERNAL_ERROR, text)));
        };
        let outcome = outcome(response, &args);
        let (delay, own) = (response.delay, response.fault);
        let fault = self.strike(name, place, own);
        match fault {
            Some(FaultKind::Delay(more)) => Plan { outcome, delay: delay + more, fault: None },
            fault => Plan { outcome, delay, fault },
        }
    }

    /// The fault that this call suffers, counted.
    fn strike(&mut self, tool: &str, place: usize, own: Option<Fault>) -> Option<FaultKind> {
        if let Some(fault) = own {
            let struck = self.struck.entry((tool.to_owned(), place)).or_default();
            if fault.times.is_none_or(|times| *struck < times) {
                *struck += 1;
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

/// The first response that fits, else the first.
fn choose<'a>(
    responses: &'a [MockResponse],
    args: &Map<String, Value>,
) -> Option<(usize, &'a MockResponse)> {
    let fits = |response: &MockResponse| {
        response.condition.iter().flatten().all(|(name, wanted)| {
            args.get(name).is_some_and(|given| {
                given == wanted || goform::default(given) == goform::default(wanted)
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
        Value::Array(_) | Value::Object(_) => goform::json(&rendered),
        other => goform::default(other),
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
