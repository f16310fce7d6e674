//! The discovery surface: `climax_search` finds a tool, `climax_call` runs it.
//!
//! By default replies are what CLImax specifies, to the byte. Callers that set `max_tokens`, `effect`, `select`,
//! `grep` or `head`, which the schemas do not list for the same reason, get replies within these bounds.

mod bounds;
mod call_envelope;
mod search;

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::{Call, CallError, Checking, Outcome},
    json::{Raw, RawObject},
    name::ToolName,
    repair::values,
    request::RequestError,
};
use serde_json::value::RawValue;

use self::{
    bounds::Bounds,
    call_envelope::{ReadCall, Remarks},
};
use super::{
    Surface, SurfaceContext, ToolCall, climax_errors,
    meta::{
        arguments::MetaArguments,
        budget::Budget,
        fitting::{OutputSink, fit_result},
        get_output,
        projection::Projection,
    },
    passed,
};
use crate::{
    dispatch::{GatewaySnapshot, in_memory},
    outputs::Outputs,
};

/// `get_output` can be called as if it were a tool.
const GET_OUTPUT: &str = "get_output";

/// The surface with `climax_search` and `climax_call`.
#[derive(Debug, Default)]
pub struct DiscoverySurface {
    outputs: Arc<Outputs>,
}

impl DiscoverySurface {
    /// Stores results that exceed a caller's budget in `outputs`.
    pub fn storing(outputs: Outputs) -> Self {
        Self { outputs: Arc::new(outputs) }
    }
}

const SEARCH: &str = r#"{"name":"climax_search","description":"Search for available CLI tools by keyword, category, or CLI name. Call with no filters to get a summary of all available CLIs.","inputSchema":{"type":"object","properties":{"query":{"type":"string","description":"Search keyword (matched against tool name, description, CLI name, category, tags)"},"category":{"type":"string","description":"Filter by CLI category (exact match, case-insensitive)"},"cli":{"type":"string","description":"Filter by CLI name (exact match, case-insensitive)"},"limit":{"type":"integer","description":"Maximum number of results to return (default: 10)","default":10}}}}"#;

const CALL: &str = r#"{"name":"climax_call","description":"Execute a CLI tool by name. Use climax_search first to discover available tools and their argument schemas.","inputSchema":{"type":"object","properties":{"tool_name":{"type":"string","description":"The exact name of the tool to execute (as returned by climax_search)"},"args":{"type":"object","description":"Arguments to pass to the tool (see tool's input_schema from climax_search)"}},"required":["tool_name"]}}"#;

impl Surface for DiscoverySurface {
    fn tools(&self, _state: &GatewaySnapshot) -> Vec<Raw> {
        [SEARCH, CALL]
            .into_iter()
            .filter_map(|text| RawValue::from_string(text.to_owned()).ok())
            .collect()
    }

    fn call<'a>(
        &'a self,
        cx: SurfaceContext<'a>,
        call: ToolCall,
    ) -> BoxFuture<'a, Result<Outcome, RequestError>> {
        Box::pin(async move {
            match call.name.as_str() {
                "climax_search" => {
                    let ignored = Remarks::ignoring(&call.arguments, &search::ARGUMENTS);
                    Ok(ignored.beside(search::answer(cx.snapshot, &call.arguments)))
                }
                "climax_call" => self.climax_call(cx, call).await,
                name => {
                    tracing::warn!("Unknown tool called: {name}");
                    Ok(Outcome::failure(format!(
                        "Unknown tool: {name}. Available tools: climax_search, climax_call"
                    )))
                }
            }
        })
    }

    fn lists_catalog(&self, _: &GatewaySnapshot) -> bool {
        false
    }

    fn name(&self) -> &'static str {
        "discovery"
    }

    fn instructions(&self) -> &'static str {
        "Find a tool and its input schema with climax_search {\"query\": words of the task}, then run it with \
         climax_call {\"tool_name\", \"args\"}. Pass max_tokens to either to keep answers short: a longer \
         result is kept and ends with a handle; read it with climax_call {\"tool_name\": \"get_output\", \
         \"args\": {\"handle\", \"grep\" or \"path\" or \"line\" or \"tail\"}}."
    }
}

impl DiscoverySurface {
    async fn climax_call(
        &self,
        cx: SurfaceContext<'_>,
        call: ToolCall,
    ) -> Result<Outcome, RequestError> {
        let envelope = call.arguments.clone();
        let state = cx.snapshot;
        let lookup = |name: &str| {
            let entry = state.catalog.get(name).filter(|entry| state.policy.shows(entry));
            entry.map(|entry| &**entry)
        };
        let ReadCall { tool, arguments, moved, remarks } =
            match call_envelope::read(&envelope, &lookup) {
                Ok(read) => read,
                Err(refusal) => return Ok(refusal),
            };
        let arguments = arguments.unwrap_or_else(|| RawObject::new().to_raw());
        let given = MetaArguments::read(&envelope);
        let bounds = Bounds::read(&given);
        let is_moved = |key: &str| moved.iter().any(|moved| moved == key);
        let projection = Projection::read(&given, |key| !is_moved(key));
        let (bounds, projection) = match bounds.and_then(|bounds| Ok((bounds, projection?))) {
            Ok(read) => read,
            Err(problem) => return Ok(Outcome::failure(problem)),
        };
        let sink = OutputSink::new(&self.outputs, cx.caller);
        let entry = lookup(&tool);
        if tool == GET_OUTPUT && entry.is_none() {
            let budget = bounds.budget.unwrap_or(Budget(get_output::BUDGET));
            return Ok(get_output::called(&arguments, budget, sink).await);
        }
        let bounded = bounds.effect.map(|most| cx.caller.within(most));
        let cx = cx.as_caller(bounded.as_ref());
        let (meta, continuation) = (call.meta, call.continuation);
        let send = |arguments: Raw| Call {
            tool: ToolName::new(tool.as_str()),
            arguments,
            checking: Checking::Coerce,
            meta: meta.clone(),
            continuation: continuation.clone(),
        };
        let mut remarks = remarks;
        let mut result = cx.call(send(arguments.clone())).await;
        // Invalid arguments mean that nothing ran, so the call may be sent again. The errors for arguments of a CLI
        // tool are a contract: only calls of servers are repaired.
        let of_server = entry.filter(|entry| entry.params.is_none());
        if let (Err(CallError::InvalidArguments { .. }), Some(entry)) = (&result, of_server)
            && let Some(mended) = values::repair(entry, &arguments)
        {
            remarks.repaired.extend(mended.repairs);
            result = cx.call(send(mended.arguments)).await;
        }
        // The part that a caller selects is short unless they say how long it may be.
        let budget = bounds.budget.or(projection.as_ref().map(|_| Budget(Bounds::UNSAID)));
        let outcome = match (result, budget) {
            (Ok(result), Some(budget)) => Ok(fit_result(result, projection, budget, &sink).await),
            (Ok(result), None) => in_memory(result).await,
            (Err(error), _) => Err(error),
        };
        let outcome = outcome.unwrap_or_else(|error| match passed(error) {
            Err(CallError::ExcessiveEffect(excess)) => Outcome::failure(excess.to_string()),
            Ok(fault) => Outcome::failure(fault.to_string()),
            Err(error) => climax_errors::outcome(&error),
        });
        Ok(remarks.beside(outcome))
    }
}
