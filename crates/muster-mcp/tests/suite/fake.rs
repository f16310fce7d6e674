//! A server behind the transports that does what a test needs, and keeps a journal.

use std::sync::Arc;

use muster_core::{
    backend::{BoxFuture, What},
    call::Caller,
    client::{Asking, Client, NeedsInput, Notice, Question},
    json::{Raw, raw},
    request::{Asked, Change, Changes, Fault, Identity, Keep, Offers, Reply, Request, Serve},
};
use serde_json::{Value, json, value::RawValue};
use tokio::sync::{broadcast, mpsc};

#[derive(Debug)]
pub(crate) struct Fake {
    identity: Identity,
    pub(crate) changes: broadcast::Sender<Change>,
    journal: mpsc::UnboundedSender<String>,
}

/// What happened behind the transports.
pub(crate) type Journal = mpsc::UnboundedReceiver<String>;

pub(crate) fn fake() -> (Arc<Fake>, Journal) {
    let (journal, read) = mpsc::unbounded_channel();
    let identity =
        Identity { name: "fake".to_owned(), version: "1".to_owned(), instructions: None };
    let (changes, _) = broadcast::channel(16);
    (Arc::new(Fake { identity, changes, journal }), read)
}

fn object(value: &Value) -> Raw {
    raw(value)
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn done(result: &Value) -> Reply {
    Reply::Done { result: object(result), keep: None }
}

fn elicitation() -> Question {
    let params = object(&json!({"message": "sure?", "requestedSchema": {"type": "object"}}));
    Question { method: "elicitation/create".to_owned(), params }
}

fn progress(client: &Arc<dyn Client>, step: u32) {
    let params = object(&json!({"progressToken": "t", "progress": step}));
    client.notify(Notice { method: "notifications/progress".to_owned(), params });
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
        client: &Arc<dyn Client>,
        name: &str,
        asked: Asked,
    ) -> Result<Reply, Fault> {
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
                    client.notify(Notice { method: "notifications/message".to_owned(), params });
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
            "brief" => {
                self.note("began brief");
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                Ok(done(&text("finished")))
            }
            "crash" => panic!("as asked"),
            "needy" => Err(Fault::MissingCapability { capability: "sampling".to_owned() }),
            name => Err(Fault::InvalidParams(format!("Unknown tool: {name}"))),
        }
    }

    async fn ask(&self, client: &Arc<dyn Client>, asked: &Asked) -> Result<Reply, Fault> {
        match client.asking() {
            Asking::Directly => {
                let _dropped = Dropped(self.journal.clone(), "ask".to_owned());
                match client.ask(elicitation()).await {
                    Ok(answer) => Ok(done(&text(answer.get()))),
                    Err(err) => Ok(done(&text(&err.to_string()))),
                }
            }
            Asking::ByReply if asked.continuation.is_empty() => Ok(Reply::NeedsInput(NeedsInput {
                questions: vec![("q".to_owned(), elicitation())],
                state: Some(raw("s")),
                result: None,
            })),
            Asking::ByReply => {
                let continuation = &asked.continuation;
                let answers = continuation.answers.as_deref().map_or("-", |raw| raw.get());
                let state = continuation.state.as_deref().map_or("-", |raw| raw.get());
                Ok(done(&text(&format!("{answers} {state}"))))
            }
            Asking::Never => Ok(done(&text("cannot ask"))),
        }
    }

    fn other(&self, what: What) -> Result<Reply, Fault> {
        match what {
            What::Read { uri } if uri == "a:gone" => Err(Fault::NoResource { uri }),
            What::Read { uri } => Ok(done(&json!({"contents": [{"uri": uri, "text": "here"}]}))),
            What::Prompt { name, .. } => Ok(done(&json!({"messages": [], "description": name}))),
            What::Complete { .. } => Ok(done(&json!({"completion": {"values": ["x"]}}))),
            What::Subscribe { uri } if uri == "a:gone" => Err(Fault::NoResource { uri }),
            What::Subscribe { uri } => {
                self.note(format!("subscribed {uri}"));
                Ok(done(&json!({})))
            }
            What::Unsubscribe { uri } => {
                self.note(format!("unsubscribed {uri}"));
                Ok(done(&json!({})))
            }
        }
    }
}

struct Heard(broadcast::Receiver<Change>);

impl Changes for Heard {
    fn next(&mut self) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async { self.0.recv().await.ok() })
    }
}

impl Serve for Fake {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn offers(&self) -> Offers {
        Offers {
            tools_change: true,
            resources: true,
            prompts: true,
            completions: true,
            logging: true,
        }
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(Heard(self.changes.subscribe()))
    }

    fn schema(&self, _: &Caller, tool: &str) -> Option<Arc<RawValue>> {
        let region = json!({"type": "string", "x-mcp-header": "Region"});
        (tool == "echo")
            .then(|| raw(&json!({"type": "object", "properties": {"region": region}})).into())
    }

    fn serve<'a>(
        &'a self,
        _: &'a Caller,
        client: &'a Arc<dyn Client>,
        asked: Asked,
    ) -> BoxFuture<'a, Result<Reply, Fault>> {
        Box::pin(async move {
            let keep = Some(Keep { ttl_ms: 60_000, shared: true });
            match &asked.request {
                Request::ListTools { .. } => {
                    let tools = json!({"tools": [
                        {"name": "echo", "inputSchema": {"type": "object"}},
                    ]});
                    Ok(Reply::Done { result: object(&tools), keep })
                }
                Request::CallTool { name, .. } => {
                    let name = name.clone();
                    self.call(client, &name, asked).await
                }
                Request::ListResources { .. } => {
                    Ok(Reply::Done { result: object(&json!({"resources": []})), keep })
                }
                Request::ListTemplates { .. } => {
                    Ok(Reply::Done { result: object(&json!({"resourceTemplates": []})), keep })
                }
                Request::ListPrompts { .. } => {
                    Ok(Reply::Done { result: object(&json!({"prompts": []})), keep })
                }
                Request::SetLogLevel { .. } => Ok(done(&json!({}))),
                Request::Ask(_) => match asked.request {
                    Request::Ask(what) => self.other(what),
                    _ => Err(Fault::Internal("not possible".to_owned())),
                },
            }
        })
    }
}
