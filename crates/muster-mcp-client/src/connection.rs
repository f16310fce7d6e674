//! A connected server as the rest of the gateway knows it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest},
    call::{CallError, Outcome},
    client::{Continuation, InputRequest, InputRequired},
    connect::{ConnectError, Connection, ServerListing},
    json::{Raw, RawObject},
    name::BackendName,
    policy::Permitted,
    spooled::ToolResult,
};
use muster_mcp::{
    param_headers::{self, Headed},
    version::{Era, SERVER_INFO_KEY},
    wire::{RpcError, code},
};
use serde_json::value::RawValue;
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};
use tracing::{debug, warn};

use super::{
    failure::Failure,
    link::Link,
    listen::{self, Missed},
    listing::{self, PROMPTS, RESOURCES, TEMPLATES, TOOLS},
    message::Writing,
    peer::{Peer, Want, asker},
    stored::Taken,
};
use crate::lock::Lock;

/// How long a stream of changes may take to open before the server is listed anyway. What changes
/// between the two is heard of by nobody.
const OPEN_LIMIT: Duration = Duration::from_millis(500);
/// How long a modern server may take to accept a subscription.
const ACCEPT_LIMIT: Duration = Duration::from_secs(10);

/// A connected server. Dropping it ends whatever listens to it.
#[derive(Debug)]
pub(super) struct Conn {
    backend: BackendName,
    pub(super) peer: Arc<Peer>,
    /// How long a page of a list may take.
    limit: Duration,
    /// The arguments of its tools that headers repeat, by tool.
    headed: Lock<Arc<BTreeMap<String, Vec<Headed>>>>,
    /// What listens to it.
    listening: Lock<Vec<AbortHandle>>,
    /// What listens for changes of one resource, by its address.
    watching: Lock<BTreeMap<String, AbortHandle>>,
}

impl Conn {
    /// A server that has just introduced itself.
    pub(super) async fn new(name: &str, peer: Peer, limit: Duration) -> Self {
        let conn = Self::unheard(name, peer, limit);
        conn.listen().await;
        conn.peer.link.introduced();
        conn
    }

    /// The same, but nobody listens to what it says unasked.
    pub(super) fn unheard(name: &str, peer: Peer, limit: Duration) -> Self {
        Self {
            backend: BackendName::new(name),
            peer: Arc::new(peer),
            limit,
            headed: Lock::default(),
            listening: Lock::default(),
            watching: Lock::default(),
        }
    }

    /// Listens for changes, in the way of its era.
    async fn listen(&self) {
        match (self.peer.about.era, &self.peer.link) {
            (Era::Legacy, Link::Http(http)) => {
                let (sender, opened) = oneshot::channel();
                let standing = self.peer.inbox.tasks.spawn(Arc::clone(http).stand(sender));
                self.listening.lock().push(standing.abort_handle());
                drop(timeout(OPEN_LIMIT, opened).await);
            }
            (Era::Legacy, Link::Pipe(_) | Link::Sse(_)) => (),
            (Era::Modern, _) => {
                let Some(filter) = listing::changes(&self.peer) else { return };
                let begun = listen::listen(&self.peer, filter, Missed::Lists);
                self.listening.lock().push(begun.task.clone());
                if let Err(failure) = begun.accepted(OPEN_LIMIT).await {
                    let name = &*self.peer.inbox.name;
                    debug!(server = name, "it gives no word of changes yet: {failure}");
                }
            }
        }
    }

    async fn call_tool(&self, cx: CallContext<'_>, call: &Permitted) -> Result<Taken, Failure> {
        let name = &*call.entry().local_name;
        let once = || async {
            let meta = call.meta().map(|meta| &**meta);
            let want = Want {
                method: "tools/call",
                name: Some(name),
                headers: self.headers(name, call.raw_arguments()),
                meta,
                asker: Some(asker(cx, meta)),
                accepted: None,
            };
            let result = self.peer.ask(want, |writing| {
                let writing = writing.text("name", name).raw("arguments", call.raw_arguments());
                self.answered(writing, call.continuation())
            });
            result.await
        };
        match once().await {
            Err(failure) if failure.code() == Some(code::HEADER_MISMATCH) && self.is_mirrored() => {
                // Its tools have changed since they were listed.
                self.tools().await?;
                once().await
            }
            result => result,
        }
    }

    /// Calls a tool; a long result stays on disk.
    async fn run_tool(&self, cx: CallContext<'_>, call: &Permitted) -> Result<ToolResult, Failure> {
        let stored = match self.call_tool(cx, call).await? {
            Taken::Raw(result) => return Ok(self.outcome(result).into()),
            Taken::Stored(stored) => stored,
        };
        Ok(match self.peer.about.era {
            Era::Modern if stored.asks() => self.outcome(stored.load().await?).into(),
            Era::Modern => ToolResult::Spooled(Arc::new(stored.without_era())),
            Era::Legacy => ToolResult::Spooled(Arc::new(stored)),
        })
    }

    async fn serve(&self, cx: CallContext<'_>, ask: &ResourceRequest) -> Result<Outcome, Failure> {
        let ResourceRequest { operation: what, meta, continuation } = ask;
        let meta = meta.as_deref();
        let want = |method, name| Want {
            method,
            name,
            meta,
            asker: Some(asker(cx, meta)),
            ..Want::default()
        };
        let result = match what {
            ResourceOperation::Read { uri } => {
                let want = want("resources/read", Some(uri));
                let write =
                    |writing: Writing| self.answered(writing.text("uri", uri), continuation);
                self.peer.request(want, write).await
            }
            ResourceOperation::Prompt { name, arguments } => {
                let want = want("prompts/get", Some(name));
                let write = |writing: Writing| {
                    let writing = writing.text("name", name);
                    self.answered(writing.maybe("arguments", arguments.as_deref()), continuation)
                };
                self.peer.request(want, write).await
            }
            ResourceOperation::Complete { params } => {
                let want = want("completion/complete", None);
                self.peer.request(want, |writing| writing.members(params, &["_meta"])).await
            }
            ResourceOperation::Subscribe { uri } => {
                self.subscribe(uri, want("resources/subscribe", None)).await
            }
            ResourceOperation::Unsubscribe { uri } => {
                self.unsubscribe(uri, want("resources/unsubscribe", None)).await
            }
        };
        result.map(|result| self.outcome(result))
    }

    async fn subscribe(&self, uri: &str, want: Want<'_>) -> Result<Raw, Failure> {
        if self.peer.about.era == Era::Legacy {
            let result = self.peer.request(want, |writing| writing.text("uri", uri)).await?;
            if let Link::Http(http) = &self.peer.link {
                http.watch(uri);
            }
            return Ok(result);
        }
        let nothing = RawObject::new().to_raw();
        if self.watching.lock().contains_key(uri) {
            return Ok(nothing);
        }
        let missed = Missed::Resource(uri.to_owned());
        let begun = listen::listen(&self.peer, listing::changes_of(uri), missed);
        let task = begun.task.clone();
        let refused = match begun.accepted(ACCEPT_LIMIT).await {
            Ok(accepted) if listen::covers(&accepted, uri) => None,
            Ok(_) => {
                let message = format!("the server gives no word of changes of `{uri}`");
                Some(Failure::refused(RpcError::new(code::INVALID_PARAMS, message)))
            }
            Err(failure) => Some(failure),
        };
        if let Some(failure) = refused {
            task.abort();
            return Err(failure);
        }
        if let Some(other) = self.watching.lock().insert(uri.to_owned(), task) {
            other.abort();
        }
        Ok(nothing)
    }

    async fn unsubscribe(&self, uri: &str, want: Want<'_>) -> Result<Raw, Failure> {
        if self.peer.about.era == Era::Legacy {
            if let Link::Http(http) = &self.peer.link {
                http.unwatch(uri);
            }
            return self.peer.request(want, |writing| writing.text("uri", uri)).await;
        }
        if let Some(task) = self.watching.lock().remove(uri) {
            task.abort();
        }
        Ok(RawObject::new().to_raw())
    }

    /// Answers to earlier questions, which only a modern server has asked.
    fn answered(&self, writing: Writing, continuation: &Continuation) -> Writing {
        match self.peer.about.era {
            Era::Legacy => writing,
            Era::Modern => writing
                .maybe("inputResponses", continuation.responses.as_deref())
                .maybe("requestState", continuation.state.as_deref()),
        }
    }

    fn outcome(&self, result: Raw) -> Outcome {
        match self.peer.about.era {
            Era::Modern if result.get().contains("input_required") => needs_input(result),
            Era::Modern => Outcome::Raw(without_era(result)),
            Era::Legacy => Outcome::Raw(result),
        }
    }

    /// Whether its requests repeat themselves in headers.
    fn is_mirrored(&self) -> bool {
        self.peer.about.era == Era::Modern && matches!(self.peer.link, Link::Http(_))
    }

    fn headers(
        &self,
        tool: &str,
        arguments: &RawValue,
    ) -> Vec<(http::HeaderName, http::HeaderValue)> {
        let headed = Arc::clone(&self.headed.lock());
        headed.get(tool).map_or_else(Vec::new, |headed| param_headers::values(headed, arguments))
    }

    /// Its tools, without those that could not be called.
    async fn tools(&self) -> Result<Vec<Raw>, Failure> {
        let mut tools = listing::all(&self.peer, TOOLS, self.limit).await?;
        if !self.is_mirrored() {
            return Ok(tools);
        }
        let mut all = BTreeMap::new();
        tools.retain(|tool| {
            let name = RawObject::parse(tool).and_then(|tool| tool.get_text("name"));
            let name = name.unwrap_or_default();
            match param_headers::headed(tool) {
                Ok(headed) if headed.is_empty() => true,
                Ok(headed) => {
                    all.insert(name, headed);
                    true
                }
                Err(reason) => {
                    let server = &*self.peer.inbox.name;
                    warn!(server, "tool `{name}` is left out: {reason}");
                    false
                }
            }
        });
        *self.headed.lock() = Arc::new(all);
        Ok(tools)
    }

    async fn listing(&self) -> Result<ServerListing, ConnectError> {
        let all = |list| Box::pin(listing::all(&self.peer, list, self.limit));
        let (tools, resources, templates, prompts) =
            tokio::join!(Box::pin(self.tools()), all(RESOURCES), all(TEMPLATES), all(PROMPTS));
        let about = &self.peer.about;
        Ok(ServerListing {
            tools: tools.map_err(|failure| failure.into_connect_error(TOOLS.method))?,
            resources: resources.map_err(|failure| failure.into_connect_error(RESOURCES.method))?,
            templates: templates.map_err(|failure| failure.into_connect_error(TEMPLATES.method))?,
            prompts: prompts.map_err(|failure| failure.into_connect_error(PROMPTS.method))?,
            instructions: about.instructions.clone(),
            protocol: about.version.clone(),
            subscriptions: about.can("resources.subscribe"),
            completions: about.can("completions"),
            logging: about.can("logging"),
        })
    }

    fn stop_listening(&self) {
        let listening = std::mem::take(&mut *self.listening.lock());
        let watching = std::mem::take(&mut *self.watching.lock());
        for task in listening.into_iter().chain(watching.into_values()) {
            task.abort();
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl Backend for Conn {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let result = self.run_tool(cx, &call).await;
            result.map_err(|failure| failure.into_call_error(&self.backend))
        })
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            let outcome = self.serve(cx, &ask).await;
            outcome.map_err(|failure| failure.into_call_error(&self.backend))
        })
    }
}

impl Connection for Conn {
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>> {
        Box::pin(self.listing())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop_listening();
            self.peer.link.close().await;
            self.peer.inbox.calls.close("the connection was closed");
        })
    }
}

/// Reads questions out of a result; one that has none after all is a result like any other.
fn needs_input(result: Raw) -> Outcome {
    let found = {
        let object = RawObject::parse(&result).unwrap_or_default();
        let asks = object.get_text("resultType").as_deref() == Some("input_required");
        asks.then(|| {
            let requests =
                object.get("inputRequests").and_then(RawObject::parse).unwrap_or_default();
            let questions = requests.iter().filter_map(|(key, request)| {
                let request = RawObject::parse(request)?;
                let method = request.get_text("method")?;
                let params = request.get("params");
                let params = params.map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned);
                Some((key.to_owned(), InputRequest { method, params }))
            });
            (questions.collect(), object.get("requestState").map(ToOwned::to_owned))
        })
    };
    match found {
        Some((questions, state)) => Outcome::InputRequired(InputRequired {
            requests: questions,
            state,
            result: Some(result),
        }),
        None => Outcome::Raw(without_era(result)),
    }
}

/// Takes out what belongs to the era and not to the result: that it is complete, and who made it.
/// Whoever passes it on says both anew, in the way its own client expects.
fn without_era(result: Raw) -> Raw {
    let Some(mut object) = RawObject::parse(&result) else { return result };
    let complete = object.get_text("resultType").as_deref() == Some("complete");
    let own = object.get("_meta").map(ToOwned::to_owned);
    let meta = own.as_deref().and_then(RawObject::parse);
    let Some(mut meta) = meta.filter(|meta| meta.get(SERVER_INFO_KEY).is_some()) else {
        if !complete {
            return result;
        }
        object.remove("resultType");
        return object.to_raw();
    };
    if complete {
        object.remove("resultType");
    }
    meta.remove(SERVER_INFO_KEY);
    match meta.is_empty() {
        true => object.remove("_meta"),
        false => object.set("_meta", Cow::Owned(meta.to_raw())),
    }
    object.to_raw()
}
