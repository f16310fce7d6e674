//! The classic surface: every tool is listed directly, as by a plain MCP server.

use muster_core::{
    backend::BoxFuture,
    call::{CallError, Checking, Outcome},
    catalog::ToolEntry,
    json::{Raw, RawObject, raw},
    name::ToolName,
    policy::Policy,
    request::RequestError,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Surface, SurfaceContext, ToolCall, climax_errors, passed};
use crate::dispatch::{GatewaySnapshot, in_memory};

/// Lists every tool that the policy allows.
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
    fn tools(&self, state: &GatewaySnapshot) -> Vec<Raw> {
        state
            .catalog
            .by_first_definition()
            .into_iter()
            .filter(|entry| state.policy.shows(entry))
            .map(|entry| listed(entry, &state.policy))
            .collect()
    }

    /// The members of the only server that has any. If several servers have some, what each says about its own list
    /// does not hold for the merged one.
    fn tools_members(&self, state: &GatewaySnapshot) -> Option<Raw> {
        let mut all = state.catalog.sources().filter_map(|source| {
            let members = source.tools_members.as_ref()?;
            let is_shown = source.entries().iter().any(|entry| state.policy.shows(entry));
            is_shown.then_some(members)
        });
        let only = all.next()?;
        all.next().is_none().then(|| only.clone())
    }

    fn call<'a>(
        &'a self,
        cx: SurfaceContext<'a>,
        call: ToolCall,
    ) -> BoxFuture<'a, Result<Outcome, RequestError>> {
        Box::pin(async move {
            let (name, arguments) = (call.name.clone(), call.arguments.clone());
            let call = call.of(name, arguments, Checking::Strict);
            let result = async { in_memory(cx.call(call).await?).await };
            match result.await {
                Ok(outcome) => Ok(outcome),
                Err(CallError::UnknownTool { tool, .. }) => Ok(unknown(cx.snapshot, &tool)),
                Err(error) => match passed(error) {
                    Ok(fault) => Err(fault),
                    Err(error) => Ok(climax_errors::outcome(&error)),
                },
            }
        })
    }

    fn lists_catalog(&self, _: &GatewaySnapshot) -> bool {
        true
    }

    fn name(&self) -> &'static str {
        "classic"
    }

    fn instructions(&self) -> &'static str {
        "Every tool is listed under its own name: call it directly. Its input schema says which arguments it \
         takes. Results are complete and unchanged."
    }
}

/// A tool in the list. An MCP server's definition stays as written, except for its name.
pub(super) fn listed(entry: &ToolEntry, policy: &Policy) -> Raw {
    let Some(definition) = entry.definition.as_deref() else {
        return raw(&Listed {
            name: entry.name.as_str(),
            description: policy.description(entry),
            input_schema: &entry.input_schema,
        });
    };
    match RawObject::parse(definition) {
        Some(mut renamed) if entry.name.as_str() != &*entry.local_name => {
            renamed.set_value("name", entry.name.as_str());
            renamed.to_raw()
        }
        Some(_) | None => definition.to_owned(),
    }
}

fn unknown(state: &GatewaySnapshot, tool: &ToolName) -> Outcome {
    tracing::warn!("Unknown tool called: {tool}");
    let names: Vec<&str> = state
        .catalog
        .sorted()
        .filter(|entry| state.policy.shows(entry))
        .map(|entry| entry.name.as_str())
        .collect();
    Outcome::failure(format!("Unknown tool: {tool}. Available tools: {}", names.join(", ")))
}
