//! Readiness: whether a gateway that has just started should get requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use http::StatusCode;
use muster_auth::server::AuthServer;
use muster_core::json::raw;
use muster_engine::view::View;
use muster_mcp::http::HealthResponse;
use muster_shared::Replica;
use serde::Serialize;
use tokio::sync::watch;

/// After this time a gateway is ready in any case: a server that hangs must not keep it from serving the others.
const LIMIT: Duration = Duration::from_secs(30);

/// Whether load balancers should send requests, decided once: later every replica would lose the same server at the same
/// time, and a balancer that took all of them out would only make it worse.
pub(super) struct Readiness {
    view: watch::Receiver<Arc<View>>,
    logins: Option<AuthServer>,
    replica: Option<Arc<Replica>>,
    began: Instant,
    is_ready: AtomicBool,
}

#[derive(Serialize)]
struct Body {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    starting: Option<usize>,
}

impl Readiness {
    pub(super) fn new(
        view: watch::Receiver<Arc<View>>,
        logins: Option<AuthServer>,
        replica: Option<Arc<Replica>>,
    ) -> Self {
        Self { view, logins, replica, began: Instant::now(), is_ready: AtomicBool::new(false) }
    }

    /// The response of `/ready`.
    pub(super) fn check(&self) -> HealthResponse {
        let starting = self.view.borrow().starting();
        let reason = pending_reason(self.logins.as_ref(), self.replica.as_deref())
            .or((starting > 0).then_some("servers-starting"));
        if reason.is_none() || self.began.elapsed() >= LIMIT {
            self.is_ready.store(true, Ordering::Relaxed);
        }
        if self.is_ready.load(Ordering::Relaxed) {
            let body = Body { status: "ready", reason: None, starting: None };
            return HealthResponse { status: StatusCode::OK, body: raw(&body) };
        }
        let body = Body { status: "starting", reason, starting: Some(starting) };
        HealthResponse { status: StatusCode::SERVICE_UNAVAILABLE, body: raw(&body) }
    }
}

/// What keeps a gateway from admitting callers, or from sharing state with other replicas.
pub(super) fn pending_reason(
    logins: Option<&AuthServer>,
    replica: Option<&Replica>,
) -> Option<&'static str> {
    logins
        .and_then(AuthServer::pending_reason)
        .or_else(|| replica.and_then(Replica::pending_reason))
}
