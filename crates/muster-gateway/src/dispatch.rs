//! The one call path: resolve, permit, run.

mod audit;
mod caller_views;
mod observation;
mod request_span;

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use memchr::memmem::Finder;
use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceRequest, ToolCaller},
    call::{Call, CallError, Caller, Outcome},
    catalog::CatalogSnapshot,
    client::ClientHandle,
    json::RawObject,
    name::BackendName,
    observer::CallObserver,
    policy::{Permitted, Policy},
    spooled::{MEMORY_LIMIT, ToolResult},
};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tracing::{Instrument as _, Span};

pub use self::caller_views::CallerViews;
use self::observation::Observation;
pub(crate) use self::request_span::RequestSpan;
use crate::{absent::Absent, background_job};

/// The surface of calls that the gateway makes itself.
const INTERNAL: &str = "internal";

/// The backend of the gateway's own tools.
pub const CORE_BACKEND: &str = "core";

/// JSON-RPC's code for a failure on our side.
const INTERNAL_ERROR: i64 = -32603;
/// The depth limit of nested calls.
const MAX_DEPTH: u8 = 8;

/// An immutable snapshot of everything that a request is served from.
#[derive(Debug, Clone, Default)]
pub struct GatewaySnapshot {
    /// The tools, resources and prompts.
    pub catalog: CatalogSnapshot,
    /// The policy that calls are checked against: the caller's own in a caller's view of the snapshot, otherwise the
    /// policy for everybody.
    pub policy: Arc<Policy>,
    /// The backends that run calls.
    pub backends: BTreeMap<BackendName, Arc<dyn Backend>>,
    /// The servers whose tools cannot be called now, by the prefix of their tools' names.
    pub absent: Arc<BTreeMap<String, Absent>>,
    /// The bundled CLIs of tools that are switched off, by the name of the tool.
    pub switched_off: Arc<BTreeMap<String, Arc<str>>>,
    /// A cache of the views that callers have of this snapshot.
    pub views: CallerViews,
}

/// The port to connections that belong to a single caller.
pub trait CallerSnapshots: Send + Sync {
    /// Returns the snapshot for one caller: the shared one, with the caller's own connections added.
    fn snapshot(&self, caller: &Caller, shared: Arc<GatewaySnapshot>) -> Arc<GatewaySnapshot>;

    /// Registers that a caller is active: connections that need no interaction are made in the background.
    /// The request waits for the returned future: the first attempts after a login, within a limit.
    fn touch(self: Arc<Self>, caller: &Caller) -> Option<BoxFuture<'static, ()>>;
}

muster_core::opaque_debug!(CallerSnapshots);

/// Routes calls. A request takes one [`GatewaySnapshot`] and works on it from start to end; the state's
/// owner publishes new ones.
#[derive(Debug)]
pub struct Dispatcher {
    state: watch::Receiver<Arc<GatewaySnapshot>>,
    principals: Option<Arc<dyn CallerSnapshots>>,
    observer: Option<Arc<dyn CallObserver>>,
    surface: &'static str,
}

impl Dispatcher {
    /// A dispatcher over the newest snapshot of `state`.
    pub fn new(state: watch::Receiver<Arc<GatewaySnapshot>>) -> Self {
        Self { state, principals: None, observer: None, surface: INTERNAL }
    }

    /// Adds the connections that belong to a single caller.
    #[must_use]
    pub fn with_principals(mut self, principals: Arc<dyn CallerSnapshots>) -> Self {
        self.principals = Some(principals);
        self
    }

    /// Reports every call to `observer`.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn CallObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Names the surface that calls come from.
    #[must_use]
    pub const fn serving(mut self, surface: &'static str) -> Self {
        self.surface = surface;
        self
    }

    /// Returns the current snapshot for one caller. A request takes it once and uses it from start to end.
    pub fn snapshot(&self, caller: &Caller) -> Arc<GatewaySnapshot> {
        let shared = self.shared();
        let owned = match &self.principals {
            Some(principals) => principals.snapshot(caller, shared),
            None => shared,
        };
        owned.for_caller(caller)
    }

    /// Returns the current snapshot that all callers share.
    pub(crate) fn shared(&self) -> Arc<GatewaySnapshot> {
        Arc::clone(&self.state.borrow())
    }

    /// Registers that the caller is active, before their request is served.
    pub async fn touch(&self, caller: &Caller) {
        let principals = self.principals.as_ref();
        if let Some(wait) = principals.and_then(|all| Arc::clone(all).touch(caller)) {
            wait.await;
        }
    }

    /// Requests a resource or a prompt from a backend that is in the catalog of `snapshot`, in the
    /// backend's own names.
    pub(crate) async fn ask_in(
        &self,
        snapshot: &GatewaySnapshot,
        (caller, client): (&Caller, &Arc<dyn ClientHandle>),
        backend: &BackendName,
        ask: ResourceRequest,
    ) -> Result<Outcome, CallError> {
        check_depth(caller)?;
        let listed = snapshot.catalog.sources().any(|source| source.backend == *backend);
        let found = snapshot.backends.get(backend).filter(|_| listed);
        let found = found.ok_or_else(|| not_connected(backend))?;
        found.request(CallContext { client, caller, tools: self, sent: None }, ask).await
    }

    /// Calls a tool of `snapshot`. Use [`in_memory`] where a spooled result cannot be read in pieces.
    pub(crate) async fn call_in(
        &self,
        snapshot: &GatewaySnapshot,
        caller: &Caller,
        client: &Arc<dyn ClientHandle>,
        mut call: Call,
    ) -> Result<ToolResult, CallError> {
        let mut observation = Observation::begin(self, snapshot, caller, &mut call);
        let nested = observation.as_ref().and_then(Observation::nested_caller);
        let log_span = observation.as_ref().map_or_else(Span::none, Observation::log_span);
        let result = match permitted(snapshot, caller, call).instrument(log_span.clone()).await {
            Ok((backend, call)) => {
                if let Some(observation) = &mut observation {
                    observation.hand_over(&call);
                }
                let caller = nested.as_ref().unwrap_or(caller);
                let sent = observation.as_ref().and_then(Observation::sent_request);
                let context = CallContext { client, caller, tools: self, sent };
                backend.run(context, call).instrument(log_span).await
            }
            Err(error) => Err(error),
        };
        if let Some(observation) = observation {
            observation.end(&result);
        }
        result
    }
}

/// Reads a spooled result into memory, within [`MEMORY_LIMIT`].
pub(crate) async fn in_memory(result: ToolResult) -> Result<Outcome, CallError> {
    if let ToolResult::Inline(outcome) = result {
        return Ok(outcome);
    }
    let loading = tokio::task::spawn_blocking(move || result.load(MEMORY_LIMIT));
    let loaded = match loading.await {
        Ok(loaded) => loaded.map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    loaded.map_err(|message| CallError::Upstream { code: INTERNAL_ERROR, message, data: None })
}

/// The backend of a call and the proof that the call is permitted, both of one snapshot.
async fn permitted<'a>(
    snapshot: &'a GatewaySnapshot,
    caller: &Caller,
    call: Call,
) -> Result<(&'a Arc<dyn Backend>, Permitted), CallError> {
    check_depth(caller)?;
    let permitted = if is_slow_to_check(snapshot, &call) {
        // Boxed: other calls need not reserve the memory for it.
        Box::pin(permitted_in_background(snapshot, caller, call)).await?
    } else {
        snapshot.policy.permit(&snapshot.catalog, caller, call)?
    };
    let entry = permitted.entry();
    if entry.validator.report_skipped() {
        tracing::warn!(
            "the input schema of `{}` is invalid or too complex: its server gets arguments unchecked",
            entry.name
        );
    }
    let name = &entry.backend;
    let backend = snapshot.backends.get(name).ok_or_else(|| not_connected(name))?;
    Ok((backend, permitted))
}

/// Checks a call in a background job, off the threads that serve requests.
async fn permitted_in_background(
    snapshot: &GatewaySnapshot,
    caller: &Caller,
    call: Call,
) -> Result<Permitted, CallError> {
    let (policy, catalog) = (Arc::clone(&snapshot.policy), snapshot.catalog.clone());
    let caller = caller.clone();
    let check =
        background_job::run(caller.owner(), move |_| policy.permit(&catalog, &caller, call));
    check.await.ok_or_else(|| CallError::Upstream {
        code: INTERNAL_ERROR,
        message: "the arguments could not be checked".to_owned(),
        data: None,
    })?
}

/// Finds the key of the flag that marks an error.
static IS_ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));

/// Whether an MCP result is an error. Most results lack the key or have `false`; only the others are parsed.
pub(crate) fn is_error(result: &RawValue) -> bool {
    let text = result.get();
    let Some(at) = IS_ERROR.find(text.as_bytes()) else { return false };
    let value = text.get(at + IS_ERROR.needle().len()..).unwrap_or_default();
    let is_false =
        value.strip_prefix(":false").is_some_and(|rest| IS_ERROR.find(rest.as_bytes()).is_none());
    !is_false
        && RawObject::parse(result)
            .and_then(|result| result.get("isError").map(|value| value.get() == "true"))
            .unwrap_or(false)
}

/// Whether checking the arguments may take long enough to delay other requests.
fn is_slow_to_check(snapshot: &GatewaySnapshot, call: &Call) -> bool {
    let entry = snapshot.catalog.get(call.tool.as_str());
    entry.is_some_and(|entry| entry.validator.is_slow(&entry.input_schema, &call.arguments))
}

fn check_depth(caller: &Caller) -> Result<(), CallError> {
    if caller.depth > MAX_DEPTH { Err(CallError::TooDeep { limit: MAX_DEPTH }) } else { Ok(()) }
}

fn not_connected(backend: &BackendName) -> CallError {
    let reason = "it is not connected".to_owned();
    CallError::Unavailable { backend: backend.clone(), reason, no_answer: false }
}

impl ToolCaller for Dispatcher {
    /// Calls a tool of the newest snapshot: a step of a workflow sees what the step before it changed.
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn ClientHandle>,
        call: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            let snapshot = self.snapshot(caller);
            in_memory(self.call_in(&snapshot, caller, client, call).await?).await
        })
    }
}
