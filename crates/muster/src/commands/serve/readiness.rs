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

/// How long a gateway waits for its servers and its identity provider before it is ready anyway. One that hangs must
/// not block callers that do not need it, such as users who are logged in.
const START_WAIT: Duration = Duration::from_secs(30);

/// The readiness check, which tells load balancers whether to send requests.
///
/// A replica that cannot reach the shared storage is not ready, however long it takes: it cannot serve any session, and
/// a rollout must not replace working pods with it. Once ready, a replica stays ready. All replicas would lose a shared
/// dependency at the same time, and taking all of them out of the load balancer would only make an outage worse.
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
        self.check_after(self.began.elapsed())
    }

    /// The response of `/ready` when `elapsed` has passed since the start.
    fn check_after(&self, elapsed: Duration) -> HealthResponse {
        let starting = self.view.borrow().starting();
        let waits = elapsed < START_WAIT;
        let provider = self.logins.as_ref().and_then(AuthServer::pending_reason);
        let storage = self.replica.as_deref().and_then(Replica::pending_reason);
        let reason = storage
            .or(provider.filter(|_| waits))
            .or((waits && starting > 0).then_some("servers-starting"));
        if reason.is_none() {
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

/// Why a gateway does not admit callers yet, or does not share its state with other replicas; `None` if it does.
pub(super) fn pending_reason(
    logins: Option<&AuthServer>,
    replica: Option<&Replica>,
) -> Option<&'static str> {
    logins
        .and_then(AuthServer::pending_reason)
        .or_else(|| replica.and_then(Replica::pending_reason))
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use muster_engine::view::View;
    use muster_net::TrustStore;
    use muster_shared::{MemoryShared, Replica, SharedState, ValkeyOptions, clock::Clock};
    use tokio::sync::watch;

    use super::{Readiness, START_WAIT};

    fn readiness(state: Arc<dyn SharedState>) -> (Readiness, Arc<Replica>) {
        let (_, view) = watch::channel(Arc::new(View::default()));
        let replica = Replica::new(state).unwrap();
        (Readiness::new(view, None, Some(Arc::clone(&replica))), replica)
    }

    #[tokio::test]
    async fn a_replica_without_its_storage_is_never_ready() {
        let options = ValkeyOptions { url: "127.0.0.1:1".to_owned(), ..ValkeyOptions::default() };
        let storage = muster_shared::open(&options, &TrustStore::system()).unwrap();
        let (readiness, _) = readiness(storage);
        for elapsed in [Duration::ZERO, START_WAIT, START_WAIT * 100] {
            let response = readiness.check_after(elapsed);
            assert_eq!(response.status, 503, "{elapsed:?}");
            assert!(response.body.get().contains("shared-storage-unavailable"), "{elapsed:?}");
        }
    }

    #[tokio::test]
    async fn a_replica_that_was_ready_once_stays_ready() {
        let (readiness, replica) = readiness(Arc::new(MemoryShared::new(Clock::system())));
        assert_eq!(readiness.check().status, 503);
        let connected = async {
            while replica.pending_reason().is_some() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            never = replica.run() => match never {},
            () = connected => (),
        }
        assert_eq!(readiness.check().status, 200);
        let lost = Replica::new(Arc::new(MemoryShared::new(Clock::system()))).unwrap();
        let readiness = Readiness { replica: Some(lost), ..readiness };
        assert_eq!(readiness.check().status, 200);
    }
}
