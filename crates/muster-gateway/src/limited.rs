//! A backend that is given only so much to do at once.

use std::sync::Arc;

use muster_core::{
    backend::{Ask, Backend, BoxFuture, Cx},
    call::{CallError, Outcome},
    policy::Permitted,
};
use tokio::sync::Semaphore;

/// Passes on as many calls at once as there is room for; the others wait. Who goes away while
/// waiting takes no room.
#[derive(Debug)]
pub(crate) struct Limited {
    backend: Arc<dyn Backend>,
    room: Semaphore,
}

impl Limited {
    pub(crate) fn new(backend: Arc<dyn Backend>, at_once: usize) -> Self {
        Self { backend, room: Semaphore::new(at_once.min(Semaphore::MAX_PERMITS)) }
    }
}

impl Backend for Limited {
    fn run<'a>(&'a self, cx: Cx<'a>, call: Permitted) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            // It is never closed.
            let _room = self.room.acquire().await;
            self.backend.run(cx, call).await
        })
    }

    fn ask<'a>(&'a self, cx: Cx<'a>, ask: Ask) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(async move {
            let _room = self.room.acquire().await;
            self.backend.ask(cx, ask).await
        })
    }
}
