//! What a client is shown of the catalog, and how it calls what is there.

pub mod classic;
pub mod discovery;
pub mod meta;
mod texts;

use std::{fmt, sync::Arc};

use muster_core::{
    backend::BoxFuture,
    call::{Call, CallError, Caller, Checking, Outcome},
    client::{Client, Continuation},
    json::Raw,
    name::ToolName,
    request::Fault,
};

use crate::dispatch::{Dispatcher, State};

/// A way to show the catalog.
pub trait Surface: fmt::Debug + Send + Sync {
    /// The tools a client sees, as `tools/list` gives them.
    fn tools(&self, state: &State) -> Vec<Raw>;

    /// Runs one of the tools shown.
    fn call<'a>(&'a self, at: At<'a>, call: ToolCall) -> BoxFuture<'a, Result<Outcome, Fault>>;

    /// Whether the tools shown are those of the catalog, and change with it.
    fn lists_catalog(&self) -> bool;
}

/// Where a call comes in.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// The one way to run a tool.
    pub dispatcher: &'a Dispatcher,
    /// Who asks.
    pub caller: &'a Caller,
    /// The client behind it.
    pub client: &'a Arc<dyn Client>,
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
pub(crate) fn passed(error: CallError) -> Result<Fault, CallError> {
    match error {
        CallError::Refused { code, message, data } => Ok(Fault::Passed { code, message, data }),
        error => Err(error),
    }
}
