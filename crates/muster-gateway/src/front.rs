//! The request handler behind the transports: a surface over the call path.

mod resources;

use std::{
    borrow::Cow,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use muster_core::{
    backend::BoxFuture,
    call::{Caller, Outcome},
    client::{ClientHandle, InputMode},
    json::{Raw, RawObject, raw},
    request::{
        CacheControl, Change, ChangeStream, ClientRequest, Request, RequestError, RequestHandler,
        Response, ServerCapabilities, ServerInfo,
    },
    shared::ReplicaLink,
};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::{broadcast, watch};
use tracing::{Instrument as _, Span};

use crate::{
    dispatch::{Dispatcher, RequestSpan},
    input_rounds,
    surface::{Surface, SurfaceContext, ToolCall},
    suspended_calls::{self, SuspendedCalls},
};

/// How long a request waits for the first connection attempts of servers.
const STARTUP_WAIT: Duration = Duration::from_secs(10);

/// A gateway as its clients see it.
#[derive(Debug)]
pub struct Front {
    frontend: Arc<Frontend>,
    suspended: Arc<SuspendedCalls>,
    /// The number of servers whose first attempt to connect has not ended, if clients wait for them.
    untried: Option<watch::Receiver<usize>>,
}

/// The parts that requests are served from.
#[derive(Debug)]
struct Frontend {
    identity: ServerInfo,
    offers: ServerCapabilities,
    surface: Box<dyn Surface>,
    dispatcher: Arc<Dispatcher>,
    changes: broadcast::Sender<Change>,
}

impl Front {
    /// Serves `surface`, with the capabilities in `offers`.
    pub fn new(
        identity: ServerInfo,
        offers: ServerCapabilities,
        surface: Box<dyn Surface>,
        dispatcher: Arc<Dispatcher>,
        changes: broadcast::Sender<Change>,
    ) -> Self {
        let instructions = identity.instructions;
        let instructions = instructions.or_else(|| Some(surface.instructions().to_owned()));
        let identity = ServerInfo { instructions, ..identity };
        let frontend = Frontend { identity, offers, surface, dispatcher, changes };
        Self { frontend: Arc::new(frontend), suspended: Arc::default(), untried: None }
    }

    /// Makes early requests wait, within a limit, until every server has been tried once.
    #[must_use]
    pub fn waiting_for(mut self, untried: watch::Receiver<usize>) -> Self {
        self.untried = Some(untried);
        self
    }

    /// Lets clients resume calls of this replica at other replicas, and vice versa.
    #[must_use]
    pub fn sharing(mut self, link: Arc<dyn ReplicaLink>) -> Self {
        self.suspended = SuspendedCalls::of_replica(link);
        self
    }

    async fn wait_for_first_attempts(&self) {
        let Some(untried) = &self.untried else { return };
        if *untried.borrow() > 0 {
            let mut untried = untried.clone();
            let all_tried = untried.wait_for(|left| *left == 0);
            // A slower server appears later, with a change notification.
            drop(tokio::time::timeout(STARTUP_WAIT, all_tried).await);
        }
    }
}

impl RequestHandler for Front {
    fn server_info(&self) -> &ServerInfo {
        &self.frontend.identity
    }

    fn capabilities(&self) -> ServerCapabilities {
        self.frontend.offers
    }

    fn changes(&self) -> Box<dyn ChangeStream> {
        let (frontend, changes) = (Arc::clone(&self.frontend), self.frontend.changes.subscribe());
        let last = frontend.advertised();
        Box::new(ChangeFeed { frontend, changes, last })
    }

    fn schema(&self, caller: &Caller, tool: &str) -> Option<Arc<RawValue>> {
        let state = self.frontend.dispatcher.snapshot(caller);
        if !self.frontend.surface.lists_catalog(&state) {
            return None;
        }
        let entry = state.catalog.get(tool).filter(|entry| state.policy.shows(entry))?;
        Some(Arc::clone(&entry.input_schema))
    }

    fn handle<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn ClientHandle>,
        client_request: ClientRequest,
    ) -> BoxFuture<'a, Result<Response, RequestError>> {
        Box::pin(async move {
            self.wait_for_first_attempts().await;
            let frontend = &self.frontend;
            frontend.dispatcher.touch(caller).await;
            if suspended_calls::is_suspended(&client_request.continuation) {
                // Boxed: every request allocates room for the largest of these futures.
                let resumed = self.suspended.resume(caller, client, &client_request.continuation);
                return Box::pin(resumed).await;
            }
            match client.input_mode() {
                InputMode::Direct => {
                    let perform = |client_request| frontend.perform(caller, client, client_request);
                    input_rounds::ask_and_repeat(client, client_request, perform).await
                }
                InputMode::InResult if client_request.request.may_require_input() => {
                    let (frontend, caller_then) = (Arc::clone(frontend), caller.clone());
                    let perform = |client: Arc<dyn ClientHandle>| -> BoxFuture<'static, _> {
                        Box::pin(async move {
                            frontend.perform(&caller_then, &client, client_request).await
                        })
                    };
                    self.suspended.begin(caller, client, perform).await
                }
                InputMode::InResult | InputMode::Unsupported => {
                    frontend.perform(caller, client, client_request).await
                }
            }
        })
    }
}

impl Frontend {
    /// A hash of the surface's tools. `None` for a surface that lists the catalog, and so changes with it.
    fn advertised(&self) -> Option<u64> {
        let shared = self.dispatcher.shared();
        if self.surface.lists_catalog(&shared) {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for tool in self.surface.tools(&shared) {
            tool.get().hash(&mut hasher);
        }
        // Another policy may change what a caller sees of them.
        Arc::as_ptr(&shared.policy).hash(&mut hasher);
        Some(hasher.finish())
    }

    async fn perform(
        &self,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        client_request: ClientRequest,
    ) -> Result<Response, RequestError> {
        let ClientRequest { request, mut meta, continuation } = client_request;
        // The one place where a request reads the state. A repetition with input reads it again: the policy
        // may have changed while the client was asked.
        let snapshot = &self.dispatcher.snapshot(caller);
        let cx = SurfaceContext { dispatcher: &self.dispatcher, snapshot, caller, client };
        match request {
            Request::ListTools { .. } => {
                let beside = self.surface.tools_members(snapshot);
                Ok(listed_beside("tools", &self.surface.tools_for(cx), beside.as_deref()))
            }
            Request::CallTool { name, arguments } => {
                let arguments = arguments.unwrap_or_else(|| RawObject::new().to_raw());
                let span =
                    RequestSpan::begin(&self.dispatcher, (caller, &**client), &name, &mut meta);
                let call = ToolCall { name, arguments, meta, continuation };
                let log_span = span.as_ref().map_or_else(Span::none, RequestSpan::log_span);
                let answer = self.surface.call(cx, call).instrument(log_span).await;
                if let Some(span) = span {
                    span.end(&answer);
                }
                Ok(reply(answer?))
            }
            Request::ListResources { .. } if self.offers.resources => {
                Ok(listed("resources", &resources::resources(&snapshot.catalog)))
            }
            Request::ListTemplates { .. } if self.offers.resources => {
                let templates = resources::templates(&snapshot.catalog);
                Ok(listed("resourceTemplates", &templates))
            }
            Request::ListPrompts { .. } if self.offers.prompts => {
                Ok(listed("prompts", &resources::prompts(&snapshot.catalog)))
            }
            Request::Resource(operation) if self.offers.resources || self.offers.prompts => {
                Box::pin(resources::ask(cx, operation, meta, continuation)).await
            }
            Request::SetLogLevel { .. } if self.offers.logging => {
                Ok(Response::Done { result: RawObject::new().to_raw(), cache: None })
            }
            Request::ListResources { .. }
            | Request::ListTemplates { .. }
            | Request::ListPrompts { .. }
            | Request::Resource(_)
            | Request::SetLogLevel { .. } => {
                Err(RequestError::Unsupported("Method not found".to_owned()))
            }
        }
    }
}

/// The cache control of lists, which are never cached: they change with the configuration and belong to one caller.
const LIST_KEEP: CacheControl = CacheControl { ttl_ms: 0, shared: false };

struct ChangeFeed {
    frontend: Arc<Frontend>,
    changes: broadcast::Receiver<Change>,
    /// The hash of the surface's tools at the last change.
    last: Option<u64>,
}

impl ChangeFeed {
    /// Whether the surface's tools changed. Meta-tools change only in the line that names the servers.
    fn differs(&mut self) -> bool {
        let now = self.frontend.advertised();
        let differs = now.is_none() || now != self.last;
        self.last = now;
        differs
    }
}

impl ChangeStream for ChangeFeed {
    fn next(&mut self) -> BoxFuture<'_, Option<Change>> {
        Box::pin(async move {
            loop {
                match self.changes.recv().await {
                    // Only the shared change is filtered; a change for one owner is always passed on.
                    Ok(Change::Tools) if !self.differs() => (),
                    Ok(change) => return Some(change),
                    // A client that missed changes lists again with the next one.
                    Err(broadcast::error::RecvError::Lagged(_)) => (),
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }
}

fn listed(key: &'static str, items: &[Raw]) -> Response {
    listed_beside(key, items, None)
}

/// The reply with a list, and with further members beside it.
fn listed_beside(key: &'static str, items: &[Raw], beside: Option<&RawValue>) -> Response {
    let mut list = RawObject::new();
    list.set_value(key, items);
    let beside = beside.and_then(RawObject::parse).unwrap_or_default();
    for (key, value) in beside.iter() {
        list.set(key, Cow::Borrowed(value));
    }
    Response::Done { result: list.to_raw(), cache: Some(LIST_KEEP) }
}

pub(crate) fn reply(outcome: Outcome) -> Response {
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
            Response::Done { result, cache: None }
        }
        Outcome::Raw(result) => Response::Done { result, cache: None },
        Outcome::InputRequired(needs) => Response::InputRequired(needs),
    }
}
