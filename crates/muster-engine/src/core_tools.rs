//! The gateway's own tools: `core_*`.
//!
//! A tool's name, description, schema and code are in one place, in the file of its family. Arguments arrive
//! as they were sent, because each tool writes its own errors about them.

mod access;
mod args;
mod auth;
mod calls;
mod config;
mod events;
mod mcpserver;
mod policy;
mod service;
mod serviceclass;
mod stats;
mod workflow;
mod workflow_execution;

use std::{collections::BTreeMap, sync::Arc};

use muster_api::error::{ErrorDetails, ErrorKind};
use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest},
    call::{CallError, Outcome},
    catalog::{BackendInfo, CatalogSource, Offer, ToolAudience, ToolEntry},
    effect::Effect,
    json::{Raw, RawObject, raw},
    name::{BackendName, ToolName},
    policy::Permitted,
    schema::validator::Validator,
    spooled::ToolResult,
};
use muster_gateway::dispatch::CORE_BACKEND;
use serde::Serialize;

use self::args::Args;
pub(crate) use self::service::AGGREGATOR;
use crate::handle::Handle;

/// Every family, in the order that tools are listed.
const FAMILIES: [&[CoreTool]; 13] = [
    workflow::TOOLS,
    workflow_execution::TOOLS,
    service::TOOLS,
    service::INSTANCE_TOOLS,
    config::TOOLS,
    serviceclass::TOOLS,
    mcpserver::TOOLS,
    events::TOOLS,
    stats::TOOLS,
    calls::TOOLS,
    auth::TOOLS,
    policy::TOOLS,
    access::TOOLS,
];

/// A core tool.
struct CoreTool {
    /// Its name.
    name: &'static str,
    /// The callers that it is for.
    audience: ToolAudience,
    /// Its effect, if its name does not say it.
    effect: Option<Effect>,
    /// Its description for agents.
    summary: &'static str,
    /// Its input schema.
    schema: fn() -> serde_json::Value,
    /// Its code.
    run: for<'a> fn(&'a Handle, CallContext<'a>, Args) -> BoxFuture<'a, ToolReply>,
}

/// The reply of a tool, or its error.
type ToolReply = Result<Reply, Failure>;

/// The text of a reply, and the structured content beside it.
struct Reply {
    text: String,
    details: Option<Raw>,
}

impl<T: Into<String>> From<T> for Reply {
    fn from(text: T) -> Self {
        Self { text: text.into(), details: None }
    }
}

/// The text of an error, and its kind if programs need to know it.
#[derive(Debug)]
struct Failure {
    text: String,
    kind: Option<ErrorKind>,
}

impl Failure {
    /// The error for a name that no resource has.
    fn not_found(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Some(ErrorKind::NotFound) }
    }
}

impl<T: Into<String>> From<T> for Failure {
    fn from(text: T) -> Self {
        Self { text: text.into(), kind: None }
    }
}

/// The tools and their backend.
pub(crate) fn offered(handle: Handle) -> (CatalogSource, Arc<dyn Backend>) {
    let tools = tools().map(|tool| (tool.name, tool)).collect();
    (source(), Arc::new(CoreTools { handle, tools }))
}

/// The tools in the catalog.
pub(crate) fn source() -> CatalogSource {
    let backend = BackendName::new(CORE_BACKEND);
    let about = BackendInfo {
        title: "core".into(),
        description:
            "The gateway itself: its workflows, servers, services, configuration and events".into(),
        category: None,
        tags: Arc::default(),
    };
    let entries = tools().map(|tool| ToolEntry {
        name: ToolName::new(tool.name),
        backend: backend.clone(),
        local_name: tool.name.into(),
        description: tool.summary.into(),
        input_schema: raw(&(tool.schema)()).into(),
        params: None,
        definition: None,
        effect: tool.effect,
        validator: Arc::new(Validator::unchecked()),
        audience: tool.audience,
    });
    let resources = vec![auth::status::listed(&backend)];
    let offer = Offer { tools: entries.collect(), resources, ..Offer::default() };
    CatalogSource::new(backend, about, offer)
}

fn tools() -> impl Iterator<Item = &'static CoreTool> {
    FAMILIES.into_iter().flatten()
}

/// The names of the tools that change the gateway, or show what only its operators may see.
pub(crate) fn for_operators() -> impl Iterator<Item = &'static str> {
    tools().filter(|tool| tool.audience == ToolAudience::Operators).map(|tool| tool.name)
}

struct CoreTools {
    handle: Handle,
    tools: BTreeMap<&'static str, &'static CoreTool>,
}

impl std::fmt::Debug for CoreTools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CoreTools").finish_non_exhaustive()
    }
}

impl Backend for CoreTools {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let name = &*call.entry().local_name;
            let Some(tool) = self.tools.get(name) else {
                let known = name.strip_prefix("core_").unwrap_or(name);
                return Ok(Outcome::failure(format!("unknown tool: {known}")).into());
            };
            let reply = (tool.run)(&self.handle, cx, Args::new(call.raw_arguments())).await;
            let outcome = match reply {
                Ok(Reply { text, details }) => Outcome::Text { text, failed: false, details },
                Err(Failure { text, kind }) => {
                    let details = kind.map(|error| raw(&ErrorDetails { error }));
                    Outcome::Text { text, failed: true, details }
                }
            };
            Ok(outcome.into())
        })
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        let answer = match ask.operation {
            ResourceOperation::Read { uri } if uri == auth::status::URI => {
                Ok(Outcome::Raw(auth::status::read(&self.handle, cx.caller)))
            }
            // Accepted without effect: there are no change notifications, because reading the resource is cheap.
            ResourceOperation::Subscribe { .. } | ResourceOperation::Unsubscribe { .. } => {
                Ok(Outcome::Raw(RawObject::new().to_raw()))
            }
            ResourceOperation::Read { .. }
            | ResourceOperation::Prompt { .. }
            | ResourceOperation::Complete { .. } => Err(CallError::Upstream {
                code: -32602,
                message: "the gateway itself has no such thing".to_owned(),
                data: None,
            }),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// A reply as JSON.
fn object(value: &impl Serialize) -> Reply {
    raw(value).get().into()
}
