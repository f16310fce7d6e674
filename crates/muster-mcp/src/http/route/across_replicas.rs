//! Messages about what another replica may be doing.

use std::sync::{Arc, atomic::Ordering};

use muster_core::json::Raw;
use serde_json::value::RawValue;

use super::{
    super::{replica_sessions, sessions::HttpSession},
    Router,
};

impl Router {
    /// Cancels a request, at whichever replica it is running.
    pub(super) fn cancel(&self, session: &HttpSession, request: Raw) {
        if session.cancel(&request) || self.app.replica_sessions.is_none() {
            return;
        }
        let (app, session) = (Arc::clone(&self.app), session.id.clone());
        self.app.tasks.spawn(async move {
            if let Some(shared) = &app.replica_sessions {
                shared.cancel(&session, request).await;
            }
        });
    }

    /// Delivers the response to an input request, to whichever replica waits for it.
    pub(super) fn complete(
        &self,
        session: &HttpSession,
        id: &RawValue,
        outcome: Result<&RawValue, &RawValue>,
    ) {
        let pending = &session.state.input_requests;
        if pending.complete(id, outcome) {
            return;
        }
        let Some(replica) = pending.other_replica(id) else {
            tracing::debug!("a response to no pending input request");
            return;
        };
        let (app, session, id) = (Arc::clone(&self.app), session.id.clone(), id.to_owned());
        let outcome = outcome.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
        self.app.tasks.spawn(async move {
            if let Some(shared) = &app.replica_sessions {
                shared.answer(&replica, &session, &id, outcome).await;
            }
        });
    }

    /// Other replicas learn that the client has its standalone stream here.
    pub(super) fn note_stream(&self, session: &Arc<HttpSession>) {
        if self.app.replica_sessions.is_none() {
            return;
        }
        replica_sessions::resubscribe(&self.app, session);
        if session.was_streamed.swap(true, Ordering::Relaxed) {
            return;
        }
        session.state.record_stream();
        let (app, session) = (Arc::clone(&self.app), Arc::clone(session));
        self.app.tasks.spawn(async move {
            if let Some(shared) = &app.replica_sessions
                && let Err(error) = shared.save(&session).await
            {
                tracing::debug!("session {}: {error}", session.id);
            }
        });
    }
}
