//! The calls of a service's tools.

use std::{fmt, sync::Arc, time::Duration};

use muster_core::{
    backend::CallContext,
    call::{Call, CallError, Caller, Checking, Outcome},
    client::ClientHandle,
    json::{Raw, RawObject, raw},
    name::ToolName,
    repair::values::repair,
};
use muster_workflow::service::{
    ServiceState,
    class::{LifecycleTools, ServiceConfig, ToolSpec},
    values,
};
use serde_json::Value;
use tokio::time::timeout;

use super::{Services, lease::Lease};
use crate::events::Reason;

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Start,
    Stop,
    Restart,
    Status,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Phase {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Restart => "restart",
            Self::Status => "status",
        }
    }

    const fn tool(self, tools: &LifecycleTools) -> Option<&ToolSpec> {
        match self {
            Self::Start => Some(&tools.start),
            Self::Stop => Some(&tools.stop),
            Self::Restart => tools.restart.as_ref(),
            Self::Status => tools.status.as_ref(),
        }
    }

    const fn limit(self, config: &ServiceConfig) -> Duration {
        match self {
            Self::Start | Self::Restart => config.timeout.start(),
            Self::Stop => config.timeout.stop(),
            Self::Status => config.timeout.check(),
        }
    }
}

/// The reply of a tool.
#[derive(Debug)]
pub(super) struct LifecycleReply {
    pub(super) success: bool,
    pub(super) text: String,
    /// The structured content, if the text is not an object.
    structured: Option<String>,
}

impl Services {
    /// Calls the tool for a phase, and stores its outputs.
    pub(super) async fn perform(
        &self,
        cx: CallContext<'_>,
        lease: &Lease,
        phase: Phase,
    ) -> Result<(), String> {
        let instance = lease.now().map_err(|problem| problem.to_string())?;
        let class = self.class_of(&instance).ok_or_else(|| {
            format!(
                "ServiceClass {0} not found: service class {0} not found",
                instance.service.class
            )
        })?;
        let config = &class.spec.service_config;
        let Some(spec) = phase.tool(&config.lifecycle_tools) else { return Ok(()) };
        let seen = values::template_data(&instance.service, &instance.given);
        let args = values::render_args(spec.args.as_ref(), &seen)
            .map_err(|error| format!("failed to process {phase} tool arguments: {error}"))?;
        self.record(Reason::ServiceInstanceToolExecutionStarted, &instance, &spec.tool);
        let reply = self.ask(cx, &spec.tool, &args, phase.limit(config)).await;
        let failed = |text: &str| {
            let detail = format!("{}: {text}", spec.tool);
            self.record(Reason::ServiceInstanceToolExecutionFailed, &instance, &detail);
            Err(format!("{phase} tool failed: {text}"))
        };
        match reply {
            Ok(reply) if reply.success => {
                let text = reply.structured.as_deref().unwrap_or(&reply.text);
                let kept = values::extract_outputs(&spec.outputs, text);
                lease.change(|instance| {
                    instance.class = Some(Arc::clone(&class));
                    instance.given.insert(phase.as_str().to_owned(), Value::Object(kept));
                });
                self.record(Reason::ServiceInstanceToolExecutionCompleted, &instance, &spec.tool);
                Ok(())
            }
            Ok(reply) => failed(&reply.text),
            Err(error) => failed(&error),
        }
    }

    /// Calls the status tool of a running service. Returns the error, if any.
    pub(crate) async fn refresh(&self, cx: CallContext<'_>, name: &str) -> Option<String> {
        let instance = self.get(name).filter(|instance| instance.state == ServiceState::Running)?;
        let class = self.class_of(&instance)?;
        class.spec.service_config.lifecycle_tools.status.as_ref()?;
        // A concurrent operation has newer values, and must not be waited for.
        let lease = self.try_lease(name)?;
        self.perform(cx, &lease, Phase::Status).await.err()
    }

    /// Calls a tool. The error explains why it did not run.
    pub(super) async fn ask(
        &self,
        cx: CallContext<'_>,
        tool: &str,
        args: &Value,
        limit: Duration,
    ) -> Result<LifecycleReply, String> {
        let caller = Caller { depth: cx.caller.depth.saturating_add(1), ..cx.caller.clone() };
        let args = raw(args);
        let calling = self.call(cx, &caller, cx.client, tool, args);
        match timeout(limit, calling).await {
            Ok(Ok(outcome)) => tool_reply(outcome),
            Ok(Err(error)) => Err(error_text(tool, &error)),
            Err(_) => Err(format!("tool {tool} took longer than {limit:?}")),
        }
    }

    async fn call(
        &self,
        cx: CallContext<'_>,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        tool: &str,
        args: Raw,
    ) -> Result<Outcome, CallError> {
        let call = |args: Raw| Call::new(ToolName::new(tool), args, Checking::Coerce);
        let outcome = cx.tools.call(caller, client, call(args.clone())).await;
        // Templates render text, also where a tool takes a number.
        let repaired = match &outcome {
            Err(CallError::InvalidArguments { .. }) => {
                let state = Arc::clone(&self.inner.deps.state.borrow());
                state.catalog.get(tool).and_then(|entry| repair(entry, &args))
            }
            _ => None,
        };
        match repaired {
            Some(repaired) => cx.tools.call(caller, client, call(repaired.arguments)).await,
            None => outcome,
        }
    }
}

fn tool_reply(outcome: Outcome) -> Result<LifecycleReply, String> {
    match outcome {
        Outcome::Text { text, failed, .. } => {
            Ok(LifecycleReply { success: !failed, text, structured: None })
        }
        Outcome::Raw(result) => Ok(of_result(&result)),
        Outcome::InputRequired(_) => {
            Err("the tool asks for input, which a service cannot give".to_owned())
        }
    }
}

/// The reply in an MCP result.
fn of_result(result: &Raw) -> LifecycleReply {
    let object = RawObject::parse(result).unwrap_or_default();
    let read = |key: &str| -> Value {
        let value = object.get(key).and_then(|raw| serde_json::from_str(raw.get()).ok());
        value.unwrap_or_default()
    };
    let content = read("content");
    let items = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let text = items.iter().find_map(|item| item.get("text")?.as_str()).unwrap_or_default();
    let is_object = serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    let structured =
        Some(read("structuredContent")).filter(|value| value.is_object() && !is_object);
    LifecycleReply {
        success: read("isError") != Value::Bool(true),
        text: text.to_owned(),
        structured: structured.map(|value| value.to_string()),
    }
}

fn error_text(tool: &str, error: &CallError) -> String {
    match error {
        CallError::UnknownTool { .. } => format!("tool {tool} is not available"),
        CallError::InvalidArguments { problems, .. } => {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            format!("the arguments do not fit `{tool}`: {}", problems.join("; "))
        }
        CallError::PolicyViolation { violations, .. } => {
            format!("the policy refuses these arguments of `{tool}`: {}", violations.join("; "))
        }
        error => error.to_string(),
    }
}
