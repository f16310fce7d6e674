//! Every tool shown directly, as plain MCP servers do.

use muster_core::{
    backend::{BoxFuture, CallTool as _},
    call::{Call, CallError, Caller, Checking, Outcome},
    json::{Raw, raw},
    name::ToolName,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Surface, texts};
use crate::dispatch::{Dispatcher, State};

/// Shows every tool that the policy lets through.
#[derive(Debug)]
pub struct Classic;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

impl Surface for Classic {
    fn tools(&self, state: &State) -> Vec<Raw> {
        state
            .catalog
            .by_first_place()
            .into_iter()
            .filter(|entry| state.policy.shows(entry))
            .map(|entry| {
                raw(&Listed {
                    name: entry.name.as_str(),
                    description: state.policy.description(entry),
                    input_schema: &entry.input_schema,
                })
            })
            .collect()
    }

    fn call<'a>(
        &'a self,
        dispatcher: &'a Dispatcher,
        caller: &'a Caller,
        name: String,
        arguments: Raw,
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let call = Call { tool: ToolName::new(name), arguments, checking: Checking::Strict };
            match dispatcher.call(caller, call).await {
                Ok(outcome) => outcome,
                Err(CallError::Unknown { tool, .. }) => unknown(&dispatcher.state(), &tool),
                Err(error) => texts::outcome(&error),
            }
        })
    }
}

fn unknown(state: &State, tool: &ToolName) -> Outcome {
    tracing::warn!("Unknown tool called: {tool}");
    let names: Vec<&str> = state
        .catalog
        .sorted()
        .filter(|entry| state.policy.shows(entry))
        .map(|entry| entry.name.as_str())
        .collect();
    Outcome::failure(format!("Unknown tool: {tool}. Available tools: {}", names.join(", ")))
}
