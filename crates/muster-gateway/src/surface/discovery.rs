//! The discovery surface: `climax_search` finds a tool, `climax_call` runs it.
//!
//! By default replies are what CLImax specifies, to the byte. Callers that set `max_tokens` or `effect`,
//! which the schemas do not list for the same reason, get replies within these bounds.

mod bounds;
mod search;

use std::sync::Arc;

use muster_core::{
    arguments::Arguments,
    backend::BoxFuture,
    call::{Checking, Outcome},
    json::{Raw, RawObject},
    request::RequestError,
    schema,
};
use serde_json::value::RawValue;

use self::bounds::Bounds;
use super::{
    Surface, SurfaceContext, ToolCall, climax_errors,
    meta::{
        arguments::MetaArguments,
        budget::Budget,
        fitting::{OutputSink, fit_result},
        get_output,
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
                "climax_search" => Ok(search::answer(cx.snapshot, &call.arguments)),
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

    fn lists_catalog(&self) -> bool {
        false
    }
}

impl DiscoverySurface {
    async fn climax_call(
        &self,
        cx: SurfaceContext<'_>,
        call: ToolCall,
    ) -> Result<Outcome, RequestError> {
        let envelope = call.arguments.clone();
        let mut given = RawObject::parse(&envelope).unwrap_or_default();
        // Agents send `args: null` for a tool without arguments.
        if given.get("args").is_some_and(|args| args.get() == "null") {
            given.remove("args");
        }
        let shape = [("tool_name", "string", true), ("args", "object", false)];
        let checked = Arguments::from_json(&given.to_raw());
        if let Some(message) = schema::check_shape(&shape, &checked) {
            return Ok(Outcome::failure(format!("Input validation error: {message}")));
        }
        let bounds = match Bounds::read(&MetaArguments::read(&envelope)) {
            Ok(bounds) => bounds,
            Err(problem) => return Ok(Outcome::failure(problem)),
        };
        let tool = given.get_text("tool_name").unwrap_or_default();
        let arguments =
            given.get("args").map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned);
        let sink = OutputSink {
            outputs: Arc::clone(&self.outputs),
            owner: Arc::clone(&cx.caller.subject),
        };
        let state = cx.snapshot;
        let entry = state.catalog.get(&tool).filter(|entry| state.policy.shows(entry));
        if tool == GET_OUTPUT && entry.is_none() {
            let budget = bounds.budget.unwrap_or(Budget(get_output::BUDGET));
            return Ok(get_output::looked(&MetaArguments::read(&arguments), budget, sink).await);
        }
        if let Some(refusal) = entry.and_then(|entry| bounds.refusal(state, entry)) {
            return Ok(Outcome::failure(refusal));
        }
        let call = call.of(tool, arguments, Checking::Coerce);
        let result = async {
            let result = cx.call(call).await?;
            match bounds.budget {
                Some(budget) => Ok(fit_result(result, budget, &sink).await),
                None => in_memory(result).await,
            }
        };
        match result.await {
            Ok(outcome) => Ok(outcome),
            Err(error) => match passed(error) {
                Ok(fault) => Ok(Outcome::failure(fault.to_string())),
                Err(error) => Ok(climax_errors::outcome(&error)),
            },
        }
    }
}
