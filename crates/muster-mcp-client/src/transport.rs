//! The transport to one upstream: streamable HTTP, or any transport whose messages arrive on one stream.

use std::sync::Arc;

use muster_core::{backend::BoxFuture, json::Raw};
use muster_mcp::param_headers::RoutingHeaders;
use muster_net::Url;
use tokio::sync::oneshot;

use crate::{
    error::TransportError,
    http::HttpTransport,
    pending::{PendingRequest, Requester},
    router::{MessageRouter, MessageSink, RequestGuard},
    spooled_result::ResultBody,
};

/// The transport to one upstream.
#[derive(Debug, Clone)]
pub(crate) enum Transport {
    /// Streamable HTTP: every request has a response of its own.
    Http(Arc<HttpTransport>),
    /// Responses arrive on one stream, as from a child process.
    Duplex(Arc<dyn DuplexTransport>),
}

/// A transport whose responses arrive on one stream, which a [`MessageRouter`] reads.
pub(crate) trait DuplexTransport: Send + Sync {
    /// Sends messages.
    fn sink(&self) -> Arc<dyn MessageSink>;

    /// The URL of the upstream; `None` for a process.
    fn url(&self) -> Option<&Url> {
        None
    }

    /// Reports an unexpected end of the connection from now on.
    fn report_end(&self);

    /// Closes the connection and waits until it is closed.
    fn close(&self) -> BoxFuture<'_, ()>;
}

muster_core::opaque_debug!(DuplexTransport);

/// The options of a request, apart from its message.
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

/// The end of a request that is dropped before its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum OnDrop {
    /// It is cancelled.
    #[default]
    Cancel,
    /// Nothing: the protocol forbids cancelling a handshake.
    Leave,
}

impl Transport {
    /// Sends a request and waits for its response. `write` receives the id.
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
            Self::Http(_) | Self::Duplex(_) => (on_drop == OnDrop::Cancel).then(|| self.sink()),
        };
        if let Self::Http(http) = self {
            let mut guard = RequestGuard::new(router, request, cancel)?;
            let body = write(guard.id).into();
            // Its future is long, and calls over other transports need not reserve the memory for it.
            let result = Box::pin(http.request(guard.id, body, routing.as_ref())).await;
            guard.complete();
            return result;
        }
        let (sender, response) = oneshot::channel();
        request.response = Some(sender);
        let mut guard = RequestGuard::new(router, request, cancel)?;
        let message = write(guard.id);
        if let Err(error) = self.notify(message).await {
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
            Self::Http(http) => http.clone(),
            Self::Duplex(duplex) => duplex.sink(),
        }
    }

    /// The URL of the upstream; `None` for a process.
    pub(crate) fn url(&self) -> Option<&Url> {
        match self {
            Self::Http(http) => Some(http.url()),
            Self::Duplex(duplex) => duplex.url(),
        }
    }

    /// Closes the connection and waits until it is closed.
    pub(crate) async fn close(&self) {
        match self {
            Self::Http(http) => http.close().await,
            Self::Duplex(duplex) => duplex.close().await,
        }
    }

    /// Reports an unexpected end of the connection from now on. Before the handshake is complete, the
    /// end is the error of the handshake.
    pub(crate) fn report_end(&self) {
        if let Self::Duplex(duplex) = self {
            duplex.report_end();
        }
    }
}
