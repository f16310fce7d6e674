//! The outbound ports: what runs tools, and the way back in.

use std::{fmt, pin::Pin};

use crate::{
    call::{Call, CallError, Caller, Outcome},
    policy::Permitted,
};

/// A future behind a pointer, for traits used as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Something that runs tools.
///
/// Cancellation is drop: when the returned future is dropped, the work behind it must end.
pub trait Backend: fmt::Debug + Send + Sync {
    /// Runs one permitted call.
    fn run<'a>(&'a self, cx: Cx<'a>, call: Permitted) -> BoxFuture<'a, Result<Outcome, CallError>>;
}

/// The way from a running tool to other tools: through the front door, never around it.
pub trait CallTool: fmt::Debug + Send + Sync {
    /// Calls a tool as `caller`.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        call: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>>;
}

/// What travels with a call.
#[derive(Debug, Clone, Copy)]
pub struct Cx<'a> {
    /// Who asked.
    pub caller: &'a Caller,
    /// The way to other tools.
    pub tools: &'a dyn CallTool,
}
