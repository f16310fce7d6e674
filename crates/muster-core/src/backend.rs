//! The outbound ports: the backends that run tools, and the call path back into the gateway.

use std::pin::Pin;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    call::{Call, CallError, Caller, Outcome},
    client::{ClientHandle, Continuation},
    json::Raw,
    policy::Permitted,
    protocol_request::SentRequest,
    spooled::ToolResult,
};

/// A boxed future, for object-safe traits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Boxes a future for a task. The code that runs a task is compiled for each type of future, two kilobytes for each kind of
/// runtime, so that a task that is not started for every call has a boxed one.
pub fn boxed<'a, T>(future: impl Future<Output = T> + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(future)
}

/// A provider of tools, resources and prompts.
///
/// Dropping a returned future cancels the call: the work behind it must end.
pub trait Backend: Send + Sync {
    /// Runs one permitted call. A result that is too long for memory is spooled to disk.
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>>;

    /// Serves a request that is not a tool call, such as reading a resource.
    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        let (_, _) = (cx, ask);
        Box::pin(std::future::ready(Err(CallError::Upstream {
            code: -32601,
            message: "this backend has no resources or prompts".to_owned(),
            data: None,
        })))
    }
}

crate::opaque_debug!(Backend);

/// A resource, prompt or completion request, in the backend's own names.
#[derive(Debug)]
pub struct ResourceRequest {
    /// The operation.
    pub operation: ResourceOperation,
    /// The `_meta` object of the client's request.
    pub meta: Option<Raw>,
    /// Responses to input requests of an earlier attempt.
    pub continuation: Continuation,
}

/// The operations of a backend other than running a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ResourceOperation {
    /// Reads the contents of a resource.
    Read {
        /// The URI of the resource.
        uri: String,
    },
    /// Renders a prompt.
    Prompt {
        /// The backend's name of the prompt.
        name: String,
        /// The arguments: a JSON object.
        arguments: Option<Raw>,
    },
    /// Completes an argument.
    Complete {
        /// The parameters as sent, with the backend's own names.
        params: Raw,
    },
    /// Subscribes to changes of a resource.
    Subscribe {
        /// The URI of the resource.
        uri: String,
    },
    /// Ends a subscription.
    Unsubscribe {
        /// The URI of the resource.
        uri: String,
    },
}

/// The call path, for tools that call other tools. Nested calls are checked like all others.
pub trait ToolCaller: Send + Sync {
    /// Calls a tool as `caller`.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn ClientHandle>,
        call: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>>;
}

crate::opaque_debug!(ToolCaller);

/// The context of a call, for its backend.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// The client that sent the request: receives notifications and input requests.
    pub client: &'a Arc<dyn ClientHandle>,
    /// The caller.
    pub caller: &'a Caller,
    /// The call path to other tools.
    pub tools: &'a dyn ToolCaller,
    /// Receives the request that the backend sends for the call, if the call is traced.
    pub sent: Option<&'a SentRequest>,
}
