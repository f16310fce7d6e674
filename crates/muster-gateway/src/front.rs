//! What stands behind the transports: a surface over the call path.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::{Caller, Outcome},
    json::{Raw, raw},
    request::{Fault, Identity, Keep, Reply, Request, Serve},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{dispatch::Dispatcher, surface::Surface};

/// A gateway as its clients see it.
#[derive(Debug)]
pub struct Front {
    identity: Identity,
    surface: Box<dyn Surface>,
    dispatcher: Arc<Dispatcher>,
}

impl Front {
    /// Shows `surface` to clients.
    pub fn new(identity: Identity, surface: Box<dyn Surface>, dispatcher: Arc<Dispatcher>) -> Self {
        Self { identity, surface, dispatcher }
    }
}

impl Serve for Front {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn serve<'a>(
        &'a self,
        caller: &'a Caller,
        request: Request,
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            match request {
                Request::ListTools { cursor: _ } => {
                    let tools = self.surface.tools(&self.dispatcher.state());
                    Ok(Reply { result: tool_list(&tools), keep: Some(LIST_KEEP) })
                }
                Request::CallTool { name, arguments } => {
                    let arguments = arguments.unwrap_or_else(no_arguments);
                    let outcome =
                        self.surface.call(&self.dispatcher, caller, name, arguments).await;
                    Ok(Reply { result: tool_result(outcome), keep: None })
                }
            }
        })
    }
}

/// What is listed may change with the next configuration, and belongs to the one who asked.
const LIST_KEEP: Keep = Keep { ttl_ms: 0, shared: false };

fn no_arguments() -> Raw {
    RawValue::from_string("{}".to_owned()).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn tool_list(tools: &[Raw]) -> Raw {
    #[derive(Serialize)]
    struct List<'a> {
        tools: &'a [Raw],
    }
    raw(&List { tools })
}

fn tool_result(outcome: Outcome) -> Raw {
    #[derive(Serialize)]
    struct Text<'a> {
        r#type: &'static str,
        text: &'a str,
    }
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Result<'a> {
        content: [Text<'a>; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        structured_content: Option<Raw>,
        is_error: bool,
    }
    match outcome {
        Outcome::Text { text, failed, details } => raw(&Result {
            content: [Text { r#type: "text", text: &text }],
            structured_content: details,
            is_error: failed,
        }),
    }
}
