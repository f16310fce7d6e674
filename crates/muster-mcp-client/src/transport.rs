//! The transport to one upstream: a process, streamable HTTP, or HTTP+SSE.

use std::sync::Arc;

use muster_core::json::Raw;
use muster_mcp::param_headers::RoutingHeaders;
use tokio::sync::oneshot;

use crate::{
    error::TransportError,
    http::HttpTransport,
    http_sse::SseTransport,
    pending::{PendingRequest, Requester},
    process::ProcessTransport,
    router::{MessageRouter, MessageSink, RequestGuard},
    spooled_result::ResultBody,
};

/// The transport to one upstream.
#[derive(Debug, Clone)]
pub(crate) enum Transport {
    /// A child process.
    Process(Arc<ProcessTransport>),
    /// Streamable HTTP.
    Http(Arc<HttpTransport>),
    /// HTTP+SSE of 2024-11-05.
    Sse(Arc<SseTransport>),
}

/// What a request needs beside its message.
#[derive(Debug, Default)]
pub(crate) struct RequestOptions {
    /// The client it is made for; `None` for the gateway's own requests.
    pub(crate) requester: Option<Arc<Requester>>,
    /// Receives the subscriptions that the upstream acknowledged.
    pub(crate) acknowledged: Option<oneshot::Sender<Raw>>,
    /// The headers of a modern request over HTTP.
    pub(crate) routing: Option<RoutingHeaders>,
    /// What happens when the request is dropped before its response.
    pub(crate) on_drop: OnDrop,
}

/// What happens to a request that is dropped before its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnDrop {
    /// It is cancelled.
    #[default]
    Cancel,
    /// Nothing: the protocol forbids to cancel a handshake.
    Leave,
}

impl Transport {
    /// Sends a request and waits for its response. `write` is given the id.
    pub(crate) async fn request(
        &self,
        router: &Arc<MessageRouter>,
        options: RequestOptions,
        write: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<ResultBody, TransportError> {
        let RequestOptions { requester, acknowledged, routing, on_drop } = options;
        let mut request = PendingRequest::new(requester, acknowledged);
        let cancel = match self {
            // Closing the stream cancels a modern request.
            Self::Http(_) if routing.is_some() => None,
            Self::Process(_) | Self::Http(_) | Self::Sse(_) => {
                (on_drop == OnDrop::Cancel).then(|| self.sink())
            }
        };
        let (process, sse) = match self {
            Self::Http(http) => {
                let mut guard = RequestGuard::new(router, request, cancel)?;
                let body = write(guard.id).into();
                let result = http.request(guard.id, body, routing.as_ref()).await;
                guard.complete();
                return result;
            }
            Self::Process(process) => (Some(process), None),
            Self::Sse(sse) => (None, Some(sse)),
        };
        let (sender, response) = oneshot::channel();
        request.response = Some(sender);
        let mut guard = RequestGuard::new(router, request, cancel)?;
        let message = write(guard.id);
        let sent = match (process, sse) {
            (Some(process), _) => process.send(message).await,
            (None, Some(sse)) => sse.send(message).await,
            (None, None) => Ok(()),
        };
        if let Err(error) = sent {
            guard.complete();
            return Err(error);
        }
        let response = response.await;
        guard.complete();
        match response {
            Ok(outcome) => outcome.map_err(TransportError::refused),
            Err(_) => Err(TransportError::Lost(router.pending.closed().unwrap_or_default())),
        }
    }

    /// Sends a message that has no response.
    pub(crate) async fn notify(&self, message: Vec<u8>) -> Result<(), TransportError> {
        self.sink().send(message).await
    }

    fn sink(&self) -> Arc<dyn MessageSink> {
        match self {
            Self::Process(process) => process.sink(),
            Self::Http(http) => http.clone(),
            Self::Sse(sse) => sse.sink(),
        }
    }

    /// Closes the connection and waits until it is closed.
    pub(crate) async fn close(&self) {
        match self {
            Self::Process(process) => process.close().await,
            Self::Http(http) => http.close().await,
            Self::Sse(sse) => sse.close(),
        }
    }

    /// Reports an unexpected end of the connection from now on. Before the handshake is complete, the
    /// end is the error of the handshake.
    pub(crate) fn report_end(&self) {
        match self {
            Self::Process(process) => process.report_end(),
            Self::Sse(sse) => sse.report_end(),
            Self::Http(_) => (),
        }
    }
}
