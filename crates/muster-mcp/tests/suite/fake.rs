//! A server behind the transports that does what a test needs, and keeps a journal.

use std::sync::Arc;

use muster_core::{
    backend::{BoxFuture, ResourceOperation},
    call::Caller,
    client::{ClientHandle, InputMode, InputRequest, InputRequired, Notification},
    json::{Raw, raw},
    request::{
        CacheControl, Change, ChangeStream, ClientRequest, Request, RequestError, RequestHandler,
        Response, ServerCapabilities, ServerInfo,
    },
};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::{Notify, broadcast, mpsc};

/// The messages of a call of `chatty`.
pub(crate) const CHATTY: u32 = 300;

#[derive(Debug)]
pub(crate) struct Fake {
    identity: ServerInfo,
    pub(crate) changes: broadcast::Sender<Change>,
    journal: mpsc::UnboundedSender<String>,
    /// Ends a call of `brief`.
    pub(crate) finish: Notify,
}

/// What happened behind the transports.
pub(crate) type Journal = mpsc::UnboundedReceiver<String>;

pub(crate) fn fake() -> (Arc<Fake>, Journal) {
    let (journal, read) = mpsc::unbounded_channel();
    let identity =
        ServerInfo { name: "fake".to_owned(), version: "1".to_owned(), instructions: None };
    let (changes, _) = broadcast::channel(16);
    (Arc::new(Fake { identity, changes, journal, finish: Notify::new() }), read)
}

fn object(value: &Value) -> Raw {
    raw(value)
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn done(result: &Value) -> Response {
    Response::Done { result: object(result), cache: None }
}

fn elicitation() -> InputRequest {
    let params = object(&json!({"message": "sure?", "requestedSchema": {"type": "object"}}));
    InputRequest { method: "elicitation/create".to_owned(), params }
}

fn progress(client: &Arc<dyn ClientHandle>, step: u32) {
    let params = object(&json!({"progressToken": "t", "progress": step}));
    client.notify(Notification { method: "notifications/progress".to_owned(), params });
}

struct Dropped(mpsc::UnboundedSender<String>, String);

impl Drop for Dropped {
    fn drop(&mut self) {
        drop(self.0.send(format!("dropped {}", self.1)));
    }
}

impl Fake {
    fn note(&self, what: impl Into<String>) {
        drop(self.journal.send(what.into()));
    }

    async fn call(
        &self,
        client: &Arc<dyn ClientHandle>,
        name: &str,
        asked: ClientRequest,
    ) -> Result<Response, RequestError> {
        let Request::CallTool { arguments, .. } = &asked.request else { panic!("not a call") };
        match name {
            "echo" => {
                let arguments = arguments.as_deref().map_or("-", |raw| raw.get());
                let meta = asked.meta.as_deref().map_or("-", |raw| raw.get());
                Ok(done(&text(&format!("{arguments} {meta}"))))
            }
            "modern" => Ok(done(&json!({
                "resultType": "complete", "content": [], "ttlMs": 5, "cacheScope": "public",
            }))),
            "progress" => {
                for step in 1..=2 {
                    progress(client, step);
                    tokio::task::yield_now().await;
                }
                Ok(done(&text("done")))
            }
            "log" => {
                for level in ["debug", "error"] {
                    let params = object(&json!({"level": level, "data": level}));
                    client.notify(Notification {
                        method: "notifications/message".to_owned(),
                        params,
                    });
                }
                Ok(done(&text("logged")))
            }
            "ask" => self.ask(client, &asked).await,
            "slow" => {
                self.note("began slow");
                let _dropped = Dropped(self.journal.clone(), "slow".to_owned());
                std::future::pending().await
            }
            "talking" => {
                self.note("began talking");
                let _dropped = Dropped(self.journal.clone(), "talking".to_owned());
                progress(client, 1);
                std::future::pending().await
            }
            "two_parts" => {
                self.note("began two_parts");
                progress(client, 1);
                self.finish.notified().await;
                progress(client, 2);
                Ok(done(&text("done")))
            }
            "chatty" => {
                for step in 1..=CHATTY {
                    progress(client, step);
                    tokio::task::yield_now().await;
                }
                self.finish.notified().await;
                Ok(done(&text("done")))
            }
            "brief" => {
                self.note("began brief");
                self.finish.notified().await;
                Ok(done(&text("finished")))
            }
            "crash" => panic!("as asked"),
            "needy" => Err(RequestError::MissingCapability { capability: "sampling".to_owned() }),
            name => Err(RequestError::InvalidParams(format!("Unknown tool: {name}"))),
        }
    }

    async fn ask(
        &self,
        client: &Arc<dyn ClientHandle>,
        asked: &ClientRequest,
    ) -> Result<Response, RequestError> {
        match client.input_mode() {
            InputMode::Direct => {
                let _dropped = Dropped(self.journal.clone(), "ask".to_owned());
                match client.request_input(elicitation()).await {
                    Ok(answer) => Ok(done(&text(answer.get()))),
                    Err(err) => Ok(done(&text(&err.to_string()))),
                }
            }
            InputMode::InResult if asked.continuation.is_empty() => {
                Ok(Response::InputRequired(InputRequired {
                    requests: vec![("q".to_owned(), elicitation())],
                    state: Some(raw("s")),
                    result: None,
                }))
            }
            InputMode::InResult => {
                let continuation = &asked.continuation;
                let answers = continuation.responses.as_deref().map_or("-", |raw| raw.get());
                let state = continuation.state.as_deref().map_or("-", |raw| raw.get());
                Ok(done(&text(&format!("{answers} {state}"))))
            }
            InputMode::Unsupported => Ok(done(&text("cannot ask"))),
        }
    }

    fn other(&self, what: ResourceOperation) -> Result<Response, RequestError> {
        match what {
            ResourceOperation::Read { uri } if uri == "a:gone" => {
                Err(RequestError::ResourceNotFound { uri })
            }
            ResourceOperation::Read { uri } => {
                Ok(done(&json!({"contents": [{"uri": uri, "text": "here"}]})))
            }
            ResourceOperation::Prompt { name, .. } => {
                Ok(done(&json!({"messages": [], "description": name})))
            }
            ResourceOperation::Complete { .. } => {
                Ok(done(&json!({"completion": {"values": ["x"]}})))
            }
            ResourceOperation::Subscribe { uri } if uri == "a:gone" => {
                Err(RequestError::ResourceNotFound { uri })
            }
            ResourceOperation::Subscribe { uri } => {
                self.note(format!("subscribed {uri}"));
                Ok(done(&json!({})))
            }
            ResourceOperation::Unsubscribe { uri } => {
                self.note(format!("unsubscribed {uri}"));
                Ok(done(&json!({})))
            }
        }
    }
}

struct Heard(broadcast::Receiver<Change>);

impl ChangeStream for Heard {
    fn next(&mut self) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async { self.0.recv().await.ok() })
    }
}

impl RequestHandler for Fake {
    fn server_info(&self) -> &ServerInfo {
        &self.identity
    }

    fn capabilities(&self) -> ServerCapabilities {
        ServerCapabilities {
            tools_change: true,
            resources: true,
            prompts: true,
            completions: true,
            logging: true,
        }
    }

    fn changes(&self) -> Box<dyn ChangeStream> {
        Box::new(Heard(self.changes.subscribe()))
    }

    fn schema(&self, _: &Caller, tool: &str) -> Option<Arc<RawValue>> {
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        (tool == "echo")
            .then(|| raw(&json!({"type": "object", "properties": {"region": region}})).into())
    }

    fn handle<'a>(
        &'a self,
        _: &'a Caller,
        client: &'a Arc<dyn ClientHandle>,
        asked: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>> {
        Box::pin(async move {
            let keep = Some(CacheControl { ttl_ms: 60_000, shared: true });
            match &asked.request {
                Request::ListTools { .. } => {
                    let tools = json!({"tools": [
                        {"name": "echo", "inputSchema": {"type": "object"}},
                    ]});
                    Ok(Response::Done { result: object(&tools), cache: keep })
                }
                Request::CallTool { name, .. } => {
                    let name = name.clone();
                    self.call(client, &name, asked).await
                }
                Request::ListResources { .. } => {
                    Ok(Response::Done { result: object(&json!({"resources": []})), cache: keep })
                }
                Request::ListTemplates { .. } => Ok(Response::Done {
                    result: object(&json!({"resourceTemplates": []})),
                    cache: keep,
                }),
                Request::ListPrompts { .. } => {
                    Ok(Response::Done { result: object(&json!({"prompts": []})), cache: keep })
                }
                Request::SetLogLevel { .. } => Ok(done(&json!({}))),
                Request::Resource(_) => match asked.request {
                    Request::Resource(what) => self.other(what),
                    _ => Err(RequestError::Internal("not possible".to_owned())),
                },
            }
        })
    }
}
