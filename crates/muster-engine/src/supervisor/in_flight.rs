//! A backend that counts its calls in flight.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceRequest},
    call::{CallError, Outcome},
    policy::Permitted,
    spooled::ToolResult,
};

/// The number of calls in flight. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct InFlight(Arc<AtomicUsize>);

impl InFlight {
    /// Whether no call is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Counts a call until the guard is dropped.
    fn begin(&self) -> CallGuard {
        self.0.fetch_add(1, Ordering::Relaxed);
        CallGuard(self.clone())
    }
}

struct CallGuard(InFlight);

impl Drop for CallGuard {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A backend whose calls are counted.
#[derive(Debug)]
pub(super) struct Counted {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) in_flight: InFlight,
}

impl Backend for Counted {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        let guard = self.in_flight.begin();
        Box::pin(async move {
            let _guard = guard;
            self.backend.run(cx, call).await
        })
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        let guard = self.in_flight.begin();
        Box::pin(async move {
            let _guard = guard;
            self.backend.request(cx, ask).await
        })
    }
}
