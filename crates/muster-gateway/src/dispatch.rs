//! The call path: resolve, permit, run. There is no other.

mod audit;
mod tally;

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    backend::{Ask, Backend, BoxFuture, CallTool, Cx},
    call::{Call, CallError, Caller, Outcome},
    catalog::Snapshot,
    client::Client,
    name::BackendName,
    policy::Policy,
};
use tokio::sync::watch;

use self::audit::Audit;
pub use self::tally::{Counted, Tally};
use crate::principals::Principals;

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
    /// Servers that want a login first, by what the names of their tools begin with.
    pub locked: Arc<BTreeMap<String, BackendName>>,
}

/// Routes calls. Readers take one [`State`] for each request; someone else writes new ones.
#[derive(Debug)]
pub struct Dispatcher {
    state: watch::Receiver<Arc<State>>,
    principals: Option<Arc<Principals>>,
    tally: Tally,
}

impl Dispatcher {
    /// A dispatcher that follows `state`.
    pub fn new(state: watch::Receiver<Arc<State>>) -> Self {
        Self { state, principals: None, tally: Tally::default() }
    }

    /// The same, where people also have servers for themselves.
    #[must_use]
    pub fn with_principals(mut self, principals: Arc<Principals>) -> Self {
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

    /// Notices who is there, before anything is done for them.
    pub fn greet(&self, caller: &Caller) {
        if let Some(principals) = &self.principals {
            principals.greet(caller);
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

    async fn dispatch(
        &self,
        caller: &Caller,
        client: &Arc<dyn Client>,
        call: Call,
    ) -> Result<Outcome, CallError> {
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
        let running = self.tally.begin(name);
        let result = backend.run(Cx { client, caller, tools: self }, permitted).await;
        running.end(&result);
        result
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
            let result = self.dispatch(caller, client, call).await;
            audit.end(&result);
            result
        })
    }
}
