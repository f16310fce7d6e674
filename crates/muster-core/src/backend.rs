//! The outbound ports: what runs tools, and the way back in.

use std::{fmt, pin::Pin};

use std::sync::Arc;

use crate::{
    call::{Call, CallError, Caller, Outcome},
    client::{ClientHandle, Continuation},
    json::Raw,
    policy::Permitted,
    spooled::ToolResult,
};

/// A future behind a pointer, for traits used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that runs tools.
///
/// Cancellation is drop: when the returned future is dropped, the work behind it must end.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Runs one permitted call. A result that is too long for memory is spooled to disk.
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>>;

    /// Serves something else than a tool: a resource to read, a prompt to fill in.
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

/// Something asked of a backend besides running a tool, in the backend's own names.
#[derive(Debug)]
pub struct ResourceRequest {
    /// What is asked.
    pub operation: ResourceOperation,
    /// What the client sent along about the request itself.
    pub meta: Option<Raw>,
    /// Answers to earlier questions of the same request.
    pub continuation: Continuation,
}

/// What may be asked of a backend besides running a tool.
#[derive(Debug, Clone)]
pub enum ResourceOperation {
    /// The contents of a resource.
    Read {
        /// Its address.
        uri: String,
    },
    /// A prompt filled in.
    Prompt {
        /// The backend's name of it.
        name: String,
        /// Its arguments: a JSON object.
        arguments: Option<Raw>,
    },
    /// Completions for an argument; the parameters as sent, with the backend's own names.
    Complete {
        /// The parameters.
        params: Raw,
    },
    /// Word when a resource changes, from now on.
    Subscribe {
        /// Its address.
        uri: String,
    },
    /// No more word.
    Unsubscribe {
        /// Its address.
        uri: String,
    },
}

/// The way from a running tool to other tools: through the front door, never around it.
pub trait ToolCaller: fmt::Debug + Send + Sync {
    /// Calls a tool as `caller`.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn ClientHandle>,
        call: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>>;
}

/// What travels with a call.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// The client behind it all: to be told, to be asked.
    pub client: &'a Arc<dyn ClientHandle>,
    /// Who asked.
    pub caller: &'a Caller,
    /// The way to other tools.
    pub tools: &'a dyn ToolCaller,
}
