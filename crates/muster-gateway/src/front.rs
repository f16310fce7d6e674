//! What stands behind the transports: a surface over the call path.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    call::{Caller, Outcome},
    client::Client,
    json::{Object, Raw, raw},
    request::{Asked, Change, Changes, Fault, Identity, Keep, Offers, Reply, Request, Serve},
};
use serde::Serialize;
use tokio::sync::broadcast;

use crate::{
    dispatch::Dispatcher,
    surface::{At, Surface, ToolCall},
};

/// A gateway as its clients see it.
#[derive(Debug)]
pub struct Front {
    identity: Identity,
    surface: Box<dyn Surface>,
    dispatcher: Arc<Dispatcher>,
    changes: broadcast::Sender<Change>,
}

impl Front {
    /// Shows `surface` to clients.
    pub fn new(
        identity: Identity,
        surface: Box<dyn Surface>,
        dispatcher: Arc<Dispatcher>,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        Self { identity, surface, dispatcher, changes }
    }

    async fn call(
        &self,
        caller: &Caller,
        client: &Arc<dyn Client>,
        call: ToolCall,
    ) -> Result<Reply, Fault> {
        let at = At { dispatcher: &self.dispatcher, caller, client };
        Ok(reply(self.surface.call(at, call).await?))
    }
}

impl Serve for Front {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn offers(&self) -> Offers {
        Offers::default()
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(Heard(self.changes.subscribe()))
    }

    fn serve<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn Client>,
        asked: Asked,
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let Asked { request, meta, continuation } = asked;
            match request {
                Request::ListTools { cursor: _ } => {
                    let tools = self.surface.tools(&self.dispatcher.state());
                    Ok(Reply::Done { result: tool_list(&tools), keep: Some(LIST_KEEP) })
                }
                Request::CallTool { name, arguments } => {
                    let arguments = arguments.unwrap_or_else(|| Object::new().to_raw());
                    let call = ToolCall { name, arguments, meta, continuation };
                    self.call(caller, client, call).await
                }
                Request::ListResources { .. }
                | Request::ListTemplates { .. }
                | Request::ListPrompts { .. }
                | Request::Ask(_)
                | Request::SetLogLevel { .. } => {
                    Err(Fault::NotServed("Method not found".to_owned()))
                }
            }
        })
    }
}

/// What is listed may change with the next configuration, and belongs to the one who asked.
const LIST_KEEP: Keep = Keep { ttl_ms: 0, shared: false };

struct Heard(broadcast::Receiver<Change>);

impl Changes for Heard {
    fn next(&mut self) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move {
            loop {
                match self.0.recv().await {
                    Ok(change) => return Some(change),
                    // Who missed some changes hears of the next; lists are asked for anew anyway.
                    Err(broadcast::error::RecvError::Lagged(_)) => (),
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }
}

fn tool_list(tools: &[Raw]) -> Raw {
    #[derive(Serialize)]
    struct List<'a> {
        tools: &'a [Raw],
    }
    raw(&List { tools })
}

fn reply(outcome: Outcome) -> Reply {
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
        Outcome::Text { text, failed, details } => {
            let result = raw(&Result {
                content: [Text { r#type: "text", text: &text }],
                structured_content: details,
                is_error: failed,
            });
            Reply::Done { result, keep: None }
        }
        Outcome::Raw(result) => Reply::Done { result, keep: None },
        Outcome::NeedsInput(needs) => Reply::NeedsInput(needs),
    }
}
