//! Limits on the calls of a backend: concurrency, call timeout and circuit breaker.

use std::{sync::Arc, time::Duration};

use muster_config::mcpserver::McpServer;
use muster_core::{
    backend::{Backend, BoxFuture, CallContext, ResourceRequest},
    call::{CallError, Outcome},
    name::BackendName,
    policy::Permitted,
    spooled::ToolResult,
};
use tokio::{sync::Semaphore, time::timeout};

use crate::circuit_breaker::CircuitBreaker;

/// Runs a limited number of calls at once; others queue. A queued call that is cancelled takes no permit.
#[derive(Debug)]
pub(crate) struct LimitedBackend {
    backend: Arc<dyn Backend>,
    permits: Semaphore,
    call_timeout: Option<CallTimeout>,
    breaker: Option<Arc<CircuitBreaker>>,
}

/// The call timeout of a server.
#[derive(Debug)]
pub(crate) struct CallTimeout {
    pub(crate) server: BackendName,
    pub(crate) limit: Duration,
}

impl LimitedBackend {
    /// Applies the limits of a server: how many calls run at once, each within the server's call timeout, while its
    /// circuit breaker is closed.
    pub(crate) fn for_server(
        backend: Arc<dyn Backend>,
        server: &McpServer,
        max_concurrent_calls: usize,
        breaker: Arc<CircuitBreaker>,
    ) -> Self {
        let call_timeout = server
            .spec
            .call_timeout()
            .map(|limit| CallTimeout { server: BackendName::new(server.name.as_str()), limit });
        Self {
            breaker: Some(breaker),
            ..Self::new(backend, max_concurrent_calls).with_timeout(call_timeout)
        }
    }

    pub(crate) fn new(backend: Arc<dyn Backend>, max_concurrent_calls: usize) -> Self {
        let permits = Semaphore::new(max_concurrent_calls.min(Semaphore::MAX_PERMITS));
        Self { backend, permits, call_timeout: None, breaker: None }
    }

    /// Sets the call timeout.
    pub(crate) fn with_timeout(self, call_timeout: Option<CallTimeout>) -> Self {
        Self { call_timeout, ..self }
    }

    /// Does the work once there is a permit.
    async fn limited<'a, T>(
        &'a self,
        work: impl FnOnce() -> BoxFuture<'a, Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let Some(breaker) = &self.breaker else {
            // The semaphore is never closed.
            let _permit = self.permits.acquire().await;
            return self.within_call_timeout(work()).await;
        };
        // Checked twice: calls must not queue behind those that a dead server keeps waiting, and those that did must not
        // all be sent.
        breaker.check()?;
        let _permit = self.permits.acquire().await;
        let attempt = breaker.begin()?;
        let result = self.within_call_timeout(work()).await;
        attempt.end(&result);
        result
    }

    /// Waits within the call timeout. Time in the queue does not count.
    async fn within_call_timeout<T>(
        &self,
        work: BoxFuture<'_, Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let Some(CallTimeout { server, limit }) = &self.call_timeout else { return work.await };
        timeout(*limit, work).await.unwrap_or_else(|_| {
            let seconds = limit.as_secs();
            let reason = format!(
                "it did not answer within {seconds} s, which is the `callTimeout` of this server"
            );
            Err(CallError::Unavailable { backend: server.clone(), reason, no_answer: true })
        })
    }
}

impl Backend for LimitedBackend {
    fn run<'a>(
        &'a self,
        cx: CallContext<'a>,
        call: Permitted,
    ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
        Box::pin(self.limited(move || self.backend.run(cx, call)))
    }

    fn request<'a>(
        &'a self,
        cx: CallContext<'a>,
        ask: ResourceRequest,
    ) -> BoxFuture<'a, Result<Outcome, CallError>> {
        Box::pin(self.limited(move || self.backend.request(cx, ask)))
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc, time::Duration};

    use muster_core::{
        backend::{
            Backend, BoxFuture, CallContext, ResourceOperation, ResourceRequest, ToolCaller,
        },
        call::{Call, CallError, Caller, Outcome},
        client::{ClientHandle, Continuation, NoClient},
        name::BackendName,
        policy::Permitted,
        spooled::ToolResult,
    };

    use super::{CallTimeout, LimitedBackend};

    /// A backend that never replies.
    #[derive(Debug)]
    struct Silent;

    impl Backend for Silent {
        fn run<'a>(
            &'a self,
            _: CallContext<'a>,
            _: Permitted,
        ) -> BoxFuture<'a, Result<ToolResult, CallError>> {
            Box::pin(pending())
        }

        fn request<'a>(
            &'a self,
            _: CallContext<'a>,
            _: ResourceRequest,
        ) -> BoxFuture<'a, Result<Outcome, CallError>> {
            Box::pin(pending())
        }
    }

    impl ToolCaller for Silent {
        fn call<'a>(
            &'a self,
            _: &'a Caller,
            _: &'a Arc<dyn ClientHandle>,
            _: Call,
        ) -> BoxFuture<'a, Result<Outcome, CallError>> {
            Box::pin(pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_is_given_up() {
        let server = BackendName::new("slow");
        let limit = Duration::from_secs(7);
        let limited = LimitedBackend::new(Arc::new(Silent), 1)
            .with_timeout(Some(CallTimeout { server, limit }));
        let (client, caller) = (NoClient::shared(), Caller::local());
        let cx = CallContext { client: &client, caller: &caller, tools: &Silent, sent: None };
        let what = ResourceOperation::Read { uri: "a:b".to_owned() };
        let ask =
            ResourceRequest { operation: what, meta: None, continuation: Continuation::default() };
        let error = limited.request(cx, ask).await.unwrap_err();
        let expected = "backend `slow` is not available: it did not answer within 7 s, \
            which is the `callTimeout` of this server";
        assert_eq!(error.to_string(), expected);
    }
}
