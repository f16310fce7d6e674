//! The connection to an upstream, as the gateway uses it.

mod legacy_session;
mod resource_updates;

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest, boxed},
    call::{CallError, Outcome},
    client::{Continuation, InputRequest, InputRequired},
    connect::{ConnectError, Connection, ServerListing},
    json::{Raw, RawObject},
    lock::Lock,
    name::BackendName,
    policy::Permitted,
    spooled::ToolResult,
};
use muster_mcp::{
    param_headers::{self, ParamHeader},
    version::{Era, SERVER_INFO_KEY},
    wire::code,
};
use serde_json::value::RawValue;
use tokio::{
    sync::{OnceCell, oneshot},
    task::AbortHandle,
    time::timeout,
};
use tracing::{debug, warn};

use crate::{
    error::TransportError,
    listing::{self, List, ListedItems, PROMPTS, RESOURCES, TEMPLATES, TOOLS},
    message::MessageWriter,
    peer::{OutgoingRequest, Peer, requester},
    spooled_result::ResultBody,
    subscription::{self, MayHaveChanged},
    transport::Transport,
};

/// How long the stream of change notifications may take to open before the tools are listed anyway.
/// Changes in between are missed.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);

/// A connection to an upstream. Dropping it ends its subscriptions.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    backend: BackendName,
    pub(crate) peer: Arc<Peer>,
    /// The upstream in the legacy era, for legacy clients of an upstream that speaks both eras; `None` if the legacy
    /// era is not tried.
    legacy: Option<OnceCell<Option<Arc<Peer>>>>,
    /// How long a page of a list may take.
    page_timeout: Duration,
    /// The arguments that headers repeat, by tool.
    param_headers: Lock<Arc<BTreeMap<String, Vec<ParamHeader>>>>,
    /// The tasks that receive change notifications.
    listeners: Lock<Vec<AbortHandle>>,
    /// The tasks that receive updates of one resource, by its URI.
    subscriptions: Lock<BTreeMap<String, AbortHandle>>,
}

impl UpstreamConnection {
    /// A connection that receives change notifications.
    pub(crate) async fn new(name: &str, peer: Peer, page_timeout: Duration) -> Self {
        let connection = Self::build(name, peer, page_timeout);
        connection.listen(&connection.peer).await;
        connection.peer.transport.report_end();
        connection
    }

    /// Uses the legacy era for legacy clients, if the upstream has sessions there. Processes are excluded: they would
    /// have to be started a second time.
    #[must_use]
    pub(crate) fn of_both_eras(mut self) -> Self {
        if has_routing(&self.peer) {
            self.legacy = Some(OnceCell::new());
        }
        self
    }

    /// A connection that receives no change notifications.
    pub(crate) fn without_notifications(name: &str, peer: Peer, page_timeout: Duration) -> Self {
        peer.transport.report_end();
        Self::build(name, peer, page_timeout)
    }

    fn build(name: &str, peer: Peer, page_timeout: Duration) -> Self {
        Self {
            backend: BackendName::new(name),
            peer: Arc::new(peer),
            legacy: None,
            page_timeout,
            param_headers: Lock::default(),
            listeners: Lock::default(),
            subscriptions: Lock::default(),
        }
    }

    /// Starts to receive change notifications, by the mechanism of the era.
    async fn listen(&self, peer: &Arc<Peer>) {
        match (peer.profile.era, &peer.transport) {
            (Era::Legacy, Transport::Http(http)) => {
                let (sender, opened) = oneshot::channel();
                let listener = peer.router.tasks.spawn(boxed(Arc::clone(http).listen(sender)));
                self.listeners.lock().push(listener.abort_handle());
                drop(timeout(OPEN_TIMEOUT, opened).await);
            }
            (Era::Legacy, Transport::Duplex(_)) => (),
            (Era::Modern, _) => {
                let Some(filter) = listing::change_filter(peer) else { return };
                let subscription = subscription::subscribe(peer, filter, MayHaveChanged::Lists);
                self.listeners.lock().push(subscription.task.clone());
                if let Err(error) = subscription.acknowledged(OPEN_TIMEOUT).await {
                    let name = &*peer.router.name;
                    debug!(server = name, "no change notifications yet: {error}");
                }
            }
        }
    }

    async fn call_tool(
        &self,
        peer: &Peer,
        cx: CallContext<'_>,
        call: &Permitted,
    ) -> Result<ResultBody, TransportError> {
        let name = &*call.entry().local_name;
        let attempt = || async {
            let meta = call.meta().map(|meta| &**meta);
            let request = OutgoingRequest {
                method: "tools/call",
                name: Some(name),
                headers: self.headers(name, call.raw_arguments()),
                meta,
                requester: Some(requester(cx, meta)),
                acknowledged: None,
                sent: cx.sent,
            };
            let result = peer.send(request, |writer| {
                let writer = writer.text("name", name).raw("arguments", call.raw_arguments());
                add_continuation(peer, writer, call.continuation())
            });
            result.await
        };
        match attempt().await {
            Err(error) if error.code() == Some(code::HEADER_MISMATCH) && has_routing(peer) => {
                // The tools have changed since they were listed.
                Box::pin(self.tools()).await?;
                attempt().await
            }
            result => result,
        }
    }

    /// Calls a tool; a long result stays on disk.
    async fn run_tool(
        &self,
        cx: CallContext<'_>,
        call: &Permitted,
    ) -> Result<ToolResult, TransportError> {
        let peer = self.peer_for(cx).await;
        let spooled = match self.call_tool(peer, cx, call).await? {
            ResultBody::Inline(result) => return Ok(outcome(peer, result).into()),
            ResultBody::Spooled(spooled) => spooled,
        };
        Ok(match peer.profile.era {
            Era::Modern if spooled.requires_input() => outcome(peer, spooled.load().await?).into(),
            Era::Modern => ToolResult::Spooled(Arc::new(spooled.without_era())),
            Era::Legacy => ToolResult::Spooled(Arc::new(spooled)),
        })
    }

    async fn serve(
        &self,
        cx: CallContext<'_>,
        request: &ResourceRequest,
    ) -> Result<Outcome, TransportError> {
        let ResourceRequest { operation, meta, continuation } = request;
        let peer = self.peer_for(cx).await;
        let meta = meta.as_deref();
        let request = |method, name| OutgoingRequest {
            method,
            name,
            meta,
            requester: Some(requester(cx, meta)),
            ..OutgoingRequest::default()
        };
        let result = match operation {
            ResourceOperation::Read { uri } => {
                let write = |writer: MessageWriter| {
                    add_continuation(peer, writer.text("uri", uri), continuation)
                };
                peer.request(request("resources/read", Some(uri)), write).await
            }
            ResourceOperation::Prompt { name, arguments } => {
                let write = |writer: MessageWriter| {
                    let writer = writer.text("name", name);
                    let writer = writer.maybe("arguments", arguments.as_deref());
                    add_continuation(peer, writer, continuation)
                };
                peer.request(request("prompts/get", Some(name)), write).await
            }
            ResourceOperation::Complete { params } => {
                let write = |writer: MessageWriter| writer.members(params, &["_meta"]);
                peer.request(request("completion/complete", None), write).await
            }
            ResourceOperation::Subscribe { uri } => {
                self.subscribe(peer, uri, request("resources/subscribe", None)).await
            }
            ResourceOperation::Unsubscribe { uri } => {
                self.unsubscribe(peer, uri, request("resources/unsubscribe", None)).await
            }
        };
        result.map(|result| outcome(peer, result))
    }

    fn headers(
        &self,
        tool: &str,
        arguments: &RawValue,
    ) -> Vec<(http::HeaderName, http::HeaderValue)> {
        let headers = Arc::clone(&self.param_headers.lock());
        headers.get(tool).map_or_else(Vec::new, |params| param_headers::values(params, arguments))
    }

    /// Lists the tools, without those that cannot be called.
    async fn tools(&self) -> Result<ListedItems, TransportError> {
        let mut listed = listing::all(&self.peer, TOOLS, self.page_timeout).await?;
        if !has_routing(&self.peer) {
            return Ok(listed);
        }
        let mut headers = BTreeMap::new();
        listed.items.retain(|tool| {
            let name = RawObject::parse(tool).and_then(|tool| tool.get_text("name"));
            let name = name.unwrap_or_default();
            match param_headers::of_tool(tool) {
                Ok(params) if params.is_empty() => true,
                Ok(params) => {
                    headers.insert(name, params);
                    true
                }
                Err(reason) => {
                    let server = &*self.peer.router.name;
                    warn!(server, "tool `{name}` is omitted: {reason}");
                    false
                }
            }
        });
        *self.param_headers.lock() = Arc::new(headers);
        Ok(listed)
    }

    async fn listing(&self) -> Result<ServerListing, ConnectError> {
        let all = |list| Box::pin(listing::all(&self.peer, list, self.page_timeout));
        let (tools, resources, templates, prompts) =
            tokio::join!(Box::pin(self.tools()), all(RESOURCES), all(TEMPLATES), all(PROMPTS));
        let profile = &self.peer.profile;
        let listed = |listed: Result<ListedItems, TransportError>, list: List| {
            listed.map_err(|error| error.into_connect_error(list.method))
        };
        let tools = listed(tools, TOOLS)?;
        Ok(ServerListing {
            tools_members: tools.members(),
            tools: tools.items,
            resources: listed(resources, RESOURCES)?.items,
            templates: listed(templates, TEMPLATES)?.items,
            prompts: listed(prompts, PROMPTS)?.items,
            instructions: profile.instructions.clone(),
            protocol: profile.version.clone(),
            subscriptions: profile.has_capability("resources.subscribe"),
            completions: profile.has_capability("completions"),
            logging: profile.has_capability("logging"),
        })
    }

    fn stop_listening(&self) {
        let listeners = std::mem::take(&mut *self.listeners.lock());
        let subscriptions = std::mem::take(&mut *self.subscriptions.lock());
        for task in listeners.into_iter().chain(subscriptions.into_values()) {
            task.abort();
        }
    }
}

impl Drop for UpstreamConnection {
    fn drop(&mut self) {
        self.stop_listening();
    }
}

impl Backend for UpstreamConnection {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(async move {
            let result = self.run_tool(cx, &call).await;
            result.map_err(|error| error.into_call_error(&self.backend))
        })
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        request: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            let outcome = self.serve(cx, &request).await;
            outcome.map_err(|error| error.into_call_error(&self.backend))
        })
    }
}

impl Connection for UpstreamConnection {
    fn list(&self) -> BoxFuture<'_, Result<ServerListing, ConnectError>> {
        Box::pin(self.listing())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.stop_listening();
            self.peer.transport.close().await;
            self.peer.router.pending.close("the connection was closed");
        })
    }
}

/// Adds the responses to earlier input requests. Only a modern server requests input in its result.
fn add_continuation(
    peer: &Peer,
    writer: MessageWriter,
    continuation: &Continuation,
) -> MessageWriter {
    match peer.profile.era {
        Era::Legacy => writer,
        Era::Modern => writer
            .maybe("inputResponses", continuation.responses.as_deref())
            .maybe("requestState", continuation.state.as_deref()),
    }
}

/// Whether requests repeat parts of their body in headers.
fn has_routing(peer: &Peer) -> bool {
    peer.profile.era == Era::Modern && matches!(peer.transport, Transport::Http(_))
}

fn outcome(peer: &Peer, result: Raw) -> Outcome {
    match peer.profile.era {
        Era::Modern if result.get().contains("input_required") => input_required(result),
        Era::Modern => Outcome::Raw(without_era(result)),
        Era::Legacy => Outcome::Raw(result),
    }
}

/// Reads the input requests of a result. A result without them is passed on as usual.
fn input_required(result: Raw) -> Outcome {
    let found = {
        let object = RawObject::parse(&result).unwrap_or_default();
        let is_required = object.get_text("resultType").as_deref() == Some("input_required");
        is_required.then(|| {
            let requests =
                object.get("inputRequests").and_then(RawObject::parse).unwrap_or_default();
            let input_requests = requests.iter().filter_map(|(key, request)| {
                let request = RawObject::parse(request)?;
                let method = request.get_text("method")?;
                let params = request.get("params");
                let params = params.map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned);
                Some((key.to_owned(), InputRequest { method, params }))
            });
            (input_requests.collect(), object.get("requestState").map(ToOwned::to_owned))
        })
    };
    match found {
        Some((requests, state)) => {
            Outcome::InputRequired(InputRequired { requests, state, result: Some(result) })
        }
        None => Outcome::Raw(without_era(result)),
    }
}

/// Removes the members that belong to the protocol era and not to the result: the marker that it is complete, and the
/// server's name. The gateway adds both in the form that its own client expects.
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
