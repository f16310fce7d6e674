//! The call path: resolve, permit, run. There is no other.

mod audit;
mod tally;

use std::{collections::BTreeMap, fmt, sync::Arc};

use muster_core::{
    backend::{Ask, Backend, BoxFuture, CallTool, Cx},
    bulk::{Bulk, Ran},
    call::{Call, CallError, Caller, Outcome},
    catalog::Snapshot,
    client::Client,
    name::BackendName,
    policy::{Permitted, Policy},
};
use tokio::sync::watch;

use self::audit::Audit;
pub use self::tally::{Counted, Tally};
use crate::condition::Condition;

/// The backend of the gateway's own tools.
pub const CORE_BACKEND: &str = "core";

/// How many calls deep a call may be.
const MAX_DEPTH: u8 = 8;

/// Everything a call needs, as of one moment.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What there is.
    pub catalog: Snapshot,
    /// What is allowed.
    pub policy: Arc<Policy>,
    /// Who runs it.
    pub backends: BTreeMap<BackendName, Arc<dyn Backend>>,
    /// Servers that should have tools and have none, by what the names of these begin with.
    pub absent: Arc<BTreeMap<String, Absent>>,
}

/// A server whose tools cannot be called now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// Which.
    pub server: BackendName,
    /// What it is doing.
    pub condition: Condition,
    /// Why it is not as it should be. Never holds a secret.
    pub error: Option<String>,
}

/// The port to the connections that callers have for themselves.
pub trait CallerStates: fmt::Debug + Send + Sync {
    /// The state for one caller: what is shared by all, and the caller's own connections.
    fn state(&self, caller: &Caller, shared: Arc<State>) -> Arc<State>;

    /// Registers that a caller is active: connections that need no interaction are made in the background.
    fn touch(self: Arc<Self>, caller: &Caller);
}

/// Routes calls. Readers take one [`State`] for each request; someone else writes new ones.
#[derive(Debug)]
pub struct Dispatcher {
    state: watch::Receiver<Arc<State>>,
    principals: Option<Arc<dyn CallerStates>>,
    tally: Tally,
}

impl Dispatcher {
    /// A dispatcher that follows `state`.
    pub fn new(state: watch::Receiver<Arc<State>>) -> Self {
        Self { state, principals: None, tally: Tally::default() }
    }

    /// The same, where people also have servers for themselves.
    #[must_use]
    pub fn with_principals(mut self, principals: Arc<dyn CallerStates>) -> Self {
        self.principals = Some(principals);
        self
    }

    /// The same, with its calls counted where others can see it.
    #[must_use]
    pub fn with_tally(mut self, tally: Tally) -> Self {
        self.tally = tally;
        self
    }

    /// What there is for one caller, as of now.
    pub fn state(&self, caller: &Caller) -> Arc<State> {
        let shared = Arc::clone(&self.state.borrow());
        match &self.principals {
            Some(principals) => principals.state(caller, shared),
            None => shared,
        }
    }

    /// What there is for everybody, as of now.
    pub(crate) fn shared(&self) -> Arc<State> {
        Arc::clone(&self.state.borrow())
    }

    /// Registers that the caller is active, before their request is served.
    pub fn touch(&self, caller: &Caller) {
        if let Some(principals) = &self.principals {
            Arc::clone(principals).touch(caller);
        }
    }

    /// Asks a backend for something else than a tool, in its own names: a resource, a prompt. Whoever
    /// is asked must be in the catalog.
    pub async fn ask(
        &self,
        caller: &Caller,
        client: &Arc<dyn Client>,
        backend: &BackendName,
        ask: Ask,
    ) -> Result<Outcome, CallError> {
        if caller.depth > MAX_DEPTH {
            return Err(CallError::TooDeep { limit: MAX_DEPTH });
        }
        let found = {
            let state = self.state(caller);
            let listed = state.catalog.sources().any(|source| source.backend == *backend);
            state.backends.get(backend).filter(|_| listed).map(Arc::clone)
        };
        let Some(found) = found else {
            let reason = "it is not connected".to_owned();
            return Err(CallError::Backend { backend: backend.clone(), reason });
        };
        found.ask(Cx { client, caller, tools: self }, ask).await
    }

    /// Calls a tool as [`CallTool::call`] does, for who can deal with a result that is not in memory.
    pub async fn call_bulk(
        &self,
        caller: &Caller,
        client: &Arc<dyn Client>,
        call: Call,
    ) -> Result<Ran, CallError> {
        let audit = Audit::begin(caller, &call);
        let result = async {
            let (backend, call) = self.permitted(caller, call)?;
            let running = self.tally.begin(&call.entry().backend);
            let result = backend.run_bulk(Cx { client, caller, tools: self }, call).await;
            running.end(Ending::of(&result));
            result
        };
        let result = result.await;
        audit.end(Ending::of(&result));
        result
    }

    /// Who runs a call, if it may be run.
    fn permitted(
        &self,
        caller: &Caller,
        call: Call,
    ) -> Result<(Arc<dyn Backend>, Permitted), CallError> {
        if caller.depth > MAX_DEPTH {
            return Err(CallError::TooDeep { limit: MAX_DEPTH });
        }
        let state = self.state(caller);
        let permitted = state.policy.permit(&state.catalog, caller, call)?;
        let name = &permitted.entry().backend;
        let Some(backend) = state.backends.get(name).map(Arc::clone) else {
            let reason = "it is not connected".to_owned();
            return Err(CallError::Backend { backend: name.clone(), reason });
        };
        Ok((backend, permitted))
    }
}

impl CallTool for Dispatcher {
    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        client: &'a Arc<dyn Client>,
        call: Call,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            let audit = Audit::begin(caller, &call);
            let result = async {
                let (backend, call) = self.permitted(caller, call)?;
                let running = self.tally.begin(&call.entry().backend);
                let result = backend.run(Cx { client, caller, tools: self }, call).await;
                running.end(result.as_ref().into());
                result
            };
            let result = result.await;
            audit.end(result.as_ref().into());
            result
        })
    }
}

/// How a call ended, for those who only look on.
#[derive(Debug, Clone, Copy)]
enum Ending<'a> {
    Outcome(&'a Outcome),
    Bulk(&'a dyn Bulk),
    Error(&'a CallError),
}

impl<'a> Ending<'a> {
    fn of(result: &'a Result<Ran, CallError>) -> Self {
        match result {
            Ok(Ran::Outcome(outcome)) => Self::Outcome(outcome),
            Ok(Ran::Bulk(bulk)) => Self::Bulk(&**bulk),
            Err(error) => Self::Error(error),
        }
    }
}

impl<'a> From<Result<&'a Outcome, &'a CallError>> for Ending<'a> {
    fn from(result: Result<&'a Outcome, &'a CallError>) -> Self {
        result.map_or_else(Self::Error, Self::Outcome)
    }
}
