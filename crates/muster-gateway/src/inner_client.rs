//! The client of a call that is one of several in a request.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    client::{
        CallCounter, ClientHandle, ClientSession, InputError, InputMode, InputRequest, Notification,
    },
    connect::ProtocolEra,
    json::Raw,
    protocol_request::ProtocolRequest,
};

/// The client of a request, for one of its calls: a capability that it lacks fails that call, and not the request.
#[derive(Debug)]
pub(crate) struct InnerClient(Arc<dyn ClientHandle>);

impl InnerClient {
    /// A shared handle.
    pub(crate) fn shared(client: &Arc<dyn ClientHandle>) -> Arc<dyn ClientHandle> {
        Arc::new(Self(Arc::clone(client)))
    }
}

impl ClientHandle for InnerClient {
    fn capabilities(&self) -> Raw {
        self.0.capabilities()
    }

    fn input_mode(&self) -> InputMode {
        self.0.input_mode()
    }

    fn era(&self) -> Option<ProtocolEra> {
        self.0.era()
    }

    fn protocol_request(&self) -> Option<ProtocolRequest> {
        self.0.protocol_request()
    }

    fn notify(&self, notice: Notification) {
        self.0.notify(notice);
    }

    fn client_session(&self) -> Option<Arc<dyn ClientSession>> {
        self.0.client_session()
    }

    fn missing_capability(&self, _: &str) {}

    fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
        self.0.call_counter()
    }

    fn request_input(&self, question: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        self.0.request_input(question)
    }
}
