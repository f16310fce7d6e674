//! Surfaces: how the catalog is presented to clients, and how they call its tools.

pub mod classic;
mod climax_errors;
pub mod discovery;
pub mod meta;
pub(crate) mod resource_owner;
mod ui;

use std::sync::Arc;

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

/// A way to present the catalog.
pub trait Surface: Send + Sync {
    /// The tools that a client sees, as in `tools/list`.
    fn tools(&self, state: &GatewaySnapshot) -> Vec<Raw>;

    /// The tools that the client of a request sees.
    fn tools_for(&self, cx: SurfaceContext<'_>) -> Vec<Raw> {
        self.tools(cx.snapshot)
    }

    /// The members of `tools/list` beside the tools: an object.
    fn tools_members(&self, _: &GatewaySnapshot) -> Option<Raw> {
        None
    }

    /// Calls one of these tools.
    fn call<'a>(
        &'a self,
        cx: SurfaceContext<'a>,
        call: ToolCall,
    ) -> BoxFuture<'a, Result<Outcome, RequestError>>;

    /// Whether tools of the catalog are listed, so that the list changes with the catalog.
    fn lists_catalog(&self, state: &GatewaySnapshot) -> bool;

    /// Its name in telemetry.
    fn name(&self) -> &'static str;

    /// Instructions for agents that use the surface, for the reply to `initialize`.
    fn instructions(&self) -> &'static str;
}

muster_core::opaque_debug!(Surface);

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

impl<'a> SurfaceContext<'a> {
    /// The context with another caller, if there is one, in whose name calls are made.
    pub(crate) fn as_caller(self, caller: Option<&'a Caller>) -> Self {
        Self { caller: caller.unwrap_or(self.caller), ..self }
    }

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

/// A call of a tool of a surface.
#[derive(Debug)]
pub struct ToolCall {
    /// The tool's name on the surface.
    pub name: String,
    /// The arguments: a JSON object.
    pub arguments: Raw,
    /// The `_meta` of the request.
    pub meta: Option<Raw>,
    /// Input for a call that is continued.
    pub continuation: Continuation,
}

impl ToolCall {
    /// The call of a tool in the catalog.
    pub fn of(self, tool: impl Into<Arc<str>>, arguments: Raw, checking: Checking) -> Call {
        let Self { meta, continuation, .. } = self;
        Call { tool: ToolName::new(tool), arguments, checking, meta, continuation }
    }
}

/// Converts an error of the backend itself, which is passed on unchanged. Any other error is returned for the surface
/// to put into words.
pub(crate) fn passed(error: CallError) -> Result<RequestError, CallError> {
    match error {
        CallError::Upstream { code, message, data } => {
            Ok(RequestError::Upstream { code, message, data })
        }
        error => Err(error),
    }
}
