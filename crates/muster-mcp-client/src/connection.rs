//! The connection to an upstream, as the gateway uses it.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest},
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
    wire::{RpcError, code},
};
use serde_json::value::RawValue;
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};
use tracing::{debug, warn};

use crate::{
    error::TransportError,
    listing::{self, PROMPTS, RESOURCES, TEMPLATES, TOOLS},
    message::MessageWriter,
    peer::{OutgoingRequest, Peer, requester},
    spooled_result::ResultBody,
    subscription::{self, MayHaveChanged},
    transport::Transport,
};

/// How long the stream of change notifications may take to open before the tools are listed anyway.
/// Changes in between are missed.
const OPEN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long a modern server may take to acknowledge a subscription.
const ACKNOWLEDGE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection to an upstream. Dropping it ends its subscriptions.
#[derive(Debug)]
pub(crate) struct UpstreamConnection {
    backend: BackendName,
    pub(crate) peer: Arc<Peer>,
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
        connection.listen().await;
        connection.peer.transport.report_end();
        connection
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
            page_timeout,
            param_headers: Lock::default(),
            listeners: Lock::default(),
            subscriptions: Lock::default(),
        }
    }

    /// Starts to receive change notifications, in the way of the era.
    async fn listen(&self) {
        match (self.peer.profile.era, &self.peer.transport) {
            (Era::Legacy, Transport::Http(http)) => {
                let (sender, opened) = oneshot::channel();
                let listener = self.peer.router.tasks.spawn(Arc::clone(http).listen(sender));
                self.listeners.lock().push(listener.abort_handle());
                drop(timeout(OPEN_TIMEOUT, opened).await);
            }
            (Era::Legacy, Transport::Duplex(_)) => (),
            (Era::Modern, _) => {
                let Some(filter) = listing::change_filter(&self.peer) else { return };
                let subscription =
                    subscription::subscribe(&self.peer, filter, MayHaveChanged::Lists);
                self.listeners.lock().push(subscription.task.clone());
                if let Err(error) = subscription.acknowledged(OPEN_TIMEOUT).await {
                    let name = &*self.peer.router.name;
                    debug!(server = name, "no change notifications yet: {error}");
                }
            }
        }
    }

    async fn call_tool(
        &self,
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
            };
            let result = self.peer.send(request, |writer| {
                let writer = writer.text("name", name).raw("arguments", call.raw_arguments());
                self.add_continuation(writer, call.continuation())
            });
            result.await
        };
        match attempt().await {
            Err(error) if error.code() == Some(code::HEADER_MISMATCH) && self.has_routing() => {
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
        let spooled = match self.call_tool(cx, call).await? {
            ResultBody::Inline(result) => return Ok(self.outcome(result).into()),
            ResultBody::Spooled(spooled) => spooled,
        };
        Ok(match self.peer.profile.era {
            Era::Modern if spooled.requires_input() => self.outcome(spooled.load().await?).into(),
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
                    self.add_continuation(writer.text("uri", uri), continuation)
                };
                self.peer.request(request("resources/read", Some(uri)), write).await
            }
            ResourceOperation::Prompt { name, arguments } => {
                let write = |writer: MessageWriter| {
                    let writer = writer.text("name", name);
                    let writer = writer.maybe("arguments", arguments.as_deref());
                    self.add_continuation(writer, continuation)
                };
                self.peer.request(request("prompts/get", Some(name)), write).await
            }
            ResourceOperation::Complete { params } => {
                let write = |writer: MessageWriter| writer.members(params, &["_meta"]);
                self.peer.request(request("completion/complete", None), write).await
            }
            ResourceOperation::Subscribe { uri } => {
                self.subscribe(uri, request("resources/subscribe", None)).await
            }
            ResourceOperation::Unsubscribe { uri } => {
                self.unsubscribe(uri, request("resources/unsubscribe", None)).await
            }
        };
        result.map(|result| self.outcome(result))
    }

    async fn subscribe(
        &self,
        uri: &str,
        request: OutgoingRequest<'_>,
    ) -> Result<Raw, TransportError> {
        if self.peer.profile.era == Era::Legacy {
            let result = self.peer.request(request, |writer| writer.text("uri", uri)).await?;
            if let Transport::Http(http) = &self.peer.transport {
                http.add_subscription(uri);
            }
            return Ok(result);
        }
        let empty = RawObject::new().to_raw();
        if self.subscriptions.lock().contains_key(uri) {
            return Ok(empty);
        }
        let changed = MayHaveChanged::Resource(uri.to_owned());
        let subscription =
            subscription::subscribe(&self.peer, listing::resource_filter(uri), changed);
        let task = subscription.task.clone();
        let error = match subscription.acknowledged(ACKNOWLEDGE_TIMEOUT).await {
            Ok(acknowledged) if subscription::covers(&acknowledged, uri) => None,
            Ok(_) => {
                let message = format!("the server sends no updates of `{uri}`");
                Some(TransportError::refused(RpcError::new(code::INVALID_PARAMS, message)))
            }
            Err(error) => Some(error),
        };
        if let Some(error) = error {
            task.abort();
            return Err(error);
        }
        if let Some(other) = self.subscriptions.lock().insert(uri.to_owned(), task) {
            other.abort();
        }
        Ok(empty)
    }

    async fn unsubscribe(
        &self,
        uri: &str,
        request: OutgoingRequest<'_>,
    ) -> Result<Raw, TransportError> {
        if self.peer.profile.era == Era::Legacy {
            if let Transport::Http(http) = &self.peer.transport {
                http.remove_subscription(uri);
            }
            return self.peer.request(request, |writer| writer.text("uri", uri)).await;
        }
        if let Some(task) = self.subscriptions.lock().remove(uri) {
            task.abort();
        }
        Ok(RawObject::new().to_raw())
    }

    /// Adds the responses to earlier input requests. Only a modern server makes those by its result.
    fn add_continuation(
        &self,
        writer: MessageWriter,
        continuation: &Continuation,
    ) -> MessageWriter {
        match self.peer.profile.era {
            Era::Legacy => writer,
            Era::Modern => writer
                .maybe("inputResponses", continuation.responses.as_deref())
                .maybe("requestState", continuation.state.as_deref()),
        }
    }

    fn outcome(&self, result: Raw) -> Outcome {
        match self.peer.profile.era {
            Era::Modern if result.get().contains("input_required") => input_required(result),
            Era::Modern => Outcome::Raw(without_era(result)),
            Era::Legacy => Outcome::Raw(result),
        }
    }

    /// Whether requests repeat parts of their body in headers.
    fn has_routing(&self) -> bool {
        self.peer.profile.era == Era::Modern && matches!(self.peer.transport, Transport::Http(_))
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
    async fn tools(&self) -> Result<Vec<Raw>, TransportError> {
        let mut tools = listing::all(&self.peer, TOOLS, self.page_timeout).await?;
        if !self.has_routing() {
            return Ok(tools);
        }
        let mut headers = BTreeMap::new();
        tools.retain(|tool| {
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
        Ok(tools)
    }

    async fn listing(&self) -> Result<ServerListing, ConnectError> {
        let all = |list| Box::pin(listing::all(&self.peer, list, self.page_timeout));
        let (tools, resources, templates, prompts) =
            tokio::join!(Box::pin(self.tools()), all(RESOURCES), all(TEMPLATES), all(PROMPTS));
        let profile = &self.peer.profile;
        Ok(ServerListing {
            tools: tools.map_err(|error| error.into_connect_error(TOOLS.method))?,
            resources: resources.map_err(|error| error.into_connect_error(RESOURCES.method))?,
            templates: templates.map_err(|error| error.into_connect_error(TEMPLATES.method))?,
            prompts: prompts.map_err(|error| error.into_connect_error(PROMPTS.method))?,
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

/// Removes the members that belong to the protocol era and not to the result: that it is complete, and
/// the server's name. The gateway adds both as its own client expects them.
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
