//! Messages for requests that another replica may be serving.

use std::sync::{Arc, atomic::Ordering};

use http::{HeaderMap, HeaderName, Response, StatusCode};
use muster_core::json::Raw;
use serde_json::value::RawValue;

use super::{
    super::{
        body::{Body, EventSource},
        replica_sessions::{self, not_shared},
        request_headers::first,
        responses,
        resumed_stream::{self, UnknownStream},
        serving::save_later,
        sessions::HttpSession,
    },
    Refusal, Router, Step,
};

/// The header that names the last event that a client received.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A message to the replica that serves a request.
pub(super) enum Forwarded {
    /// The client cancelled the request.
    Cancellation(Raw),
    /// The client responded to an input request.
    Answer { replica: String, id: Raw, outcome: Result<Raw, Raw> },
}

/// Delivers the response to an input request, to whichever replica waits for it.
pub(super) fn complete(
    session: &Arc<HttpSession>,
    id: &RawValue,
    outcome: Result<&RawValue, &RawValue>,
) -> Step {
    let pending = &session.state.input_requests;
    if pending.complete(id, outcome) {
        return Step::Respond(responses::accepted());
    }
    let Some(replica) = pending.other_replica(id) else {
        tracing::debug!("a response to no pending input request");
        return Step::Respond(responses::accepted());
    };
    let outcome = outcome.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
    let answer = Forwarded::Answer { replica, id: id.to_owned(), outcome };
    Step::Forward(Arc::clone(session), answer)
}

impl Router {
    /// Cancels a request, at whichever replica it is running.
    pub(super) fn cancel(&self, session: &Arc<HttpSession>, request: Raw) -> Step {
        if session.cancel(&request) || self.app.replica_sessions.is_none() {
            return Step::Respond(responses::accepted());
        }
        Step::Forward(Arc::clone(session), Forwarded::Cancellation(request))
    }

    /// Sends a message to another replica.
    pub(super) async fn forward(
        &self,
        session: &HttpSession,
        message: Forwarded,
    ) -> Response<Body> {
        let Some(shared) = &self.app.replica_sessions else { return responses::accepted() };
        let sent = match message {
            Forwarded::Cancellation(request) => shared.cancel(&session.id, request).await,
            Forwarded::Answer { replica, id, outcome } => {
                shared.answer(&replica, &session.id, &id, outcome).await
            }
        };
        match sent {
            Ok(()) => responses::accepted(),
            Err(error) => not_shared(&error),
        }
    }

    /// The rest of a response stream that the client resumes; `None` if it opens its standalone stream.
    pub(super) async fn resume(
        &self,
        headers: &HeaderMap,
        session: &Arc<HttpSession>,
    ) -> Result<Option<Box<dyn EventSource>>, Refusal> {
        let Some(id) = first(headers, LAST_EVENT_ID) else { return Ok(None) };
        let resumed = resumed_stream::resume(&self.app, session, id).await;
        resumed.map_err(|UnknownStream| {
            let message = "the events of this stream are not stored, or no longer";
            Box::new(responses::refuse(StatusCode::GONE, message))
        })
    }

    /// Records for other replicas that the client has its standalone stream here.
    pub(super) fn note_stream(&self, session: &Arc<HttpSession>) {
        if self.app.replica_sessions.is_none() {
            return;
        }
        replica_sessions::resubscribe(&self.app, session);
        if !session.was_streamed.swap(true, Ordering::Relaxed) {
            session.state.record_stream();
        }
        save_later(&self.app, session);
    }
}
