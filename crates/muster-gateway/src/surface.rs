//! What a client is shown of the catalog, and how it calls what is there.

pub mod classic;
mod climax_errors;
pub mod discovery;
pub mod meta;

use std::{fmt, sync::Arc};

use muster_core::{
    backend::{BoxFuture, ResourceRequest},
    call::{Call, CallError, Caller, Checking, Outcome},
    client::{ClientHandle, Continuation},
    json::Raw,
    name::{BackendName, ToolName},
    request::RequestError,
    spooled::ToolResult,
};

use crate::dispatch::{Dispatcher, GatewaySnapshot};

/// A way to show the catalog.
pub trait Surface: fmt::Debug + Send + Sync {
    /// The tools a client sees, as `tools/list` gives them.
    fn tools(&self, state: &GatewaySnapshot) -> Vec<Raw>;

    /// Runs one of the tools shown.
    fn call<'a>(
        &'a self,
        cx: SurfaceContext<'a>,
        call: ToolCall,
    ) -> BoxFuture<'a, Result<Outcome, RequestError>>;

    /// Whether the tools shown are those of the catalog, and change with it.
    fn lists_catalog(&self) -> bool;
}

/// The context of one request.
///
/// Everything that serves the request reads this one snapshot: what is listed, how a tool is judged and
/// whether it is permitted cannot contradict each other while the catalog changes.
#[derive(Debug, Clone, Copy)]
pub struct SurfaceContext<'a> {
    /// The one way to run a tool.
    pub dispatcher: &'a Dispatcher,
    /// The state that the request is served from.
    pub snapshot: &'a Arc<GatewaySnapshot>,
    /// The caller that sent the request.
    pub caller: &'a Caller,
    /// The client that the request came from.
    pub client: &'a Arc<dyn ClientHandle>,
}

impl SurfaceContext<'_> {
    /// Calls a tool of the snapshot.
    pub async fn call(self, call: Call) -> Result<ToolResult, CallError> {
        self.dispatcher.call_in(self.snapshot, self.caller, self.client, call).await
    }

    /// Requests a resource or a prompt from a backend of the snapshot, in the backend's own names.
    pub async fn ask(
        self,
        backend: &BackendName,
        ask: ResourceRequest,
    ) -> Result<Outcome, CallError> {
        self.dispatcher.ask_in(self.snapshot, (self.caller, self.client), backend, ask).await
    }
}

/// A call of a tool that is shown.
#[derive(Debug)]
pub struct ToolCall {
    /// The name as shown.
    pub name: String,
    /// A JSON object.
    pub arguments: Raw,
    /// What the client sent along about the request itself.
    pub meta: Option<Raw>,
    /// Answers to earlier questions of the same call.
    pub continuation: Continuation,
}

impl ToolCall {
    /// The call of a tool in the catalog, with what came along.
    pub fn of(self, tool: impl Into<Arc<str>>, arguments: Raw, checking: Checking) -> Call {
        let Self { meta, continuation, .. } = self;
        Call { tool: ToolName::new(tool), arguments, checking, meta, continuation }
    }
}

/// A backend's own refusal goes to the client as it is; everything else is for a surface to word.
pub(crate) fn passed(error: CallError) -> Result<RequestError, CallError> {
    match error {
        CallError::Upstream { code, message, data } => {
            Ok(RequestError::Upstream { code, message, data })
        }
        error => Err(error),
    }
}
