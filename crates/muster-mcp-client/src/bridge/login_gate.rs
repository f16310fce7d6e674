//! The gate that is closed while the user has to log in: until then, a local server serves the client.
//!
//! The gate closes when the upstream requires a login that only the user can do. While it is closed,
//! nothing is sent. Once there is a token, the client's handshake is repeated with the upstream, the gate
//! opens, and the client is notified that every list has changed.

use std::{fmt, sync::Arc, time::Duration};

use muster_core::request::RequestHandler;
use muster_mcp::server::{LocalSession, RpcResponse, Server};
use tokio::{sync::watch, time::sleep};
use tracing::{debug, info};

use super::{
    client_session::all_list_changes,
    request::{BridgedRequest, RequestKind},
    upstream::Upstream,
};
use crate::error::TransportError;

/// The delay before an unreachable upstream is retried after a login.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Whether the upstream may be used, and the server that serves the client if not.
#[derive(Debug)]
pub(super) struct LoginGate {
    server: Option<Server>,
    /// The client's session with that server.
    session: LocalSession,
    state: watch::Sender<GateState>,
}

#[derive(Clone, PartialEq, Eq)]
enum GateState {
    Open,
    /// Closed, because the upstream rejected this token.
    Closed(Option<String>),
}

impl fmt::Debug for GateState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Closed(_) => "Closed",
        })
    }
}

impl LoginGate {
    pub(super) fn new(until_login: Option<Arc<dyn RequestHandler>>) -> Self {
        Self {
            server: until_login.map(Server::new),
            session: LocalSession::new(),
            state: watch::Sender::new(GateState::Open),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        *self.state.borrow() != GateState::Open
    }

    /// Closes the gate; `false` if there is no local server for the time until the login.
    pub(super) fn close(&self, rejected: Option<String>) -> bool {
        if self.server.is_some() {
            info!("the upstream requires a login by the user");
            self.state.send_replace(GateState::Closed(rejected));
        }
        self.server.is_some()
    }

    /// Waits until the gate is open.
    pub(super) async fn opened(&self) {
        let mut state = self.state.subscribe();
        // It cannot fail: the sender is borrowed.
        drop(state.wait_for(|state| *state == GateState::Open).await);
    }

    /// Waits until the gate is closed; returns the rejected token.
    async fn closed(&self) -> Option<String> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| *state != GateState::Open).await.as_deref() {
            Ok(GateState::Closed(rejected)) => rejected.clone(),
            Ok(GateState::Open) | Err(_) => None,
        }
    }
}

impl Upstream {
    /// Serves a request while the gate is closed; `None` if the request must go to the upstream, because the gate has
    /// been opened.
    pub(super) async fn serve_until_login(&self, request: &BridgedRequest) -> Option<RpcResponse> {
        let server = self.gate.server.as_ref()?;
        if request.kind == RequestKind::Initialize {
            self.session.set_initialize(&request.body);
        }
        let text = String::from_utf8_lossy(&request.body);
        let response = server.serve_line(&self.gate.session, &text, &self.out.lines).await?;
        // A subscription has reported the opening as a change, and continues with the upstream.
        let continues = request.kind == RequestKind::Subscription && !self.gate.is_closed();
        (!continues).then_some(response)
    }

    /// Opens the gate whenever there is a token, for as long as the client is connected.
    pub(super) async fn operate_gate(self: Arc<Self>) {
        loop {
            let rejected = self.gate.closed().await;
            self.login.changed(rejected.as_deref()).await;
            match self.introduce_client().await {
                Err(TransportError::Unauthorized { .. }) => {
                    self.gate.close(self.login.token());
                    continue;
                }
                Err(error) if error.is_disconnect() => {
                    debug!("the upstream cannot be used yet: {error}");
                    sleep(RETRY_DELAY).await;
                    continue;
                }
                // Other errors reach the client with its next request.
                Err(error) => debug!("the upstream rejects the handshake: {error}"),
                Ok(()) => (),
            }
            info!("logged in; the client now uses the upstream");
            self.gate.state.send_replace(GateState::Open);
            self.login.accepted();
            if self.session.initialize().is_some() {
                for change in all_list_changes() {
                    self.out.line(change).await;
                }
            }
        }
    }

    /// Repeats the handshake of a legacy client that the upstream has never seen.
    async fn introduce_client(&self) -> Result<(), TransportError> {
        let id = self.http.id();
        let is_unknown = id.generation == 0 && self.session.initialize().is_some();
        if is_unknown { self.initialize_again(&id).await.map(drop) } else { Ok(()) }
    }
}
