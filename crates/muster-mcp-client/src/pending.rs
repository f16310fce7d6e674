//! The pending requests of one upstream connection, and the clients they belong to.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use muster_core::{client::ClientHandle, json::Raw, lock::Lock};
use muster_mcp::wire::RpcError;
use tokio::{sync::oneshot, task::AbortHandle};

use crate::{error::TransportError, spooled_result::ResultBody};

/// An upstream's response to one of our requests.
pub(crate) type RequestOutcome = Result<ResultBody, RpcError>;

/// The client that a request is made for.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) client: Arc<dyn ClientHandle>,
    /// The subject of the caller.
    pub(crate) subject: Arc<str>,
    /// The client's own progress token, as written.
    pub(crate) progress_token: Option<Raw>,
}

/// The pending requests of one connection. Their ids double as the progress tokens that the upstream
/// sees.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    last_id: AtomicU64,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    requests: BTreeMap<u64, PendingRequest>,
    /// Why the connection was closed.
    closed: Option<String>,
}

/// A request without a response.
#[derive(Debug, Default)]
pub(crate) struct PendingRequest {
    /// The client it is made for; `None` for the gateway's own requests.
    requester: Option<Arc<Requester>>,
    /// Receives the response, unless it arrives on a stream of its own.
    pub(crate) response: Option<oneshot::Sender<RequestOutcome>>,
    /// Receives the subscriptions that the upstream acknowledged.
    acknowledged: Option<oneshot::Sender<Raw>>,
    /// The requests that the upstream makes in the course of this one, by their ids.
    input_requests: Vec<(String, AbortHandle)>,
}

impl PendingRequest {
    pub(crate) fn new(
        requester: Option<Arc<Requester>>,
        acknowledged: Option<oneshot::Sender<Raw>>,
    ) -> Self {
        Self { requester, acknowledged, ..Self::default() }
    }
}

/// The pending request that an unattributed message of the upstream belongs to.
#[derive(Debug)]
pub(crate) enum Attribution {
    /// No client has a pending request.
    None,
    /// This request.
    Request(u64, Arc<Requester>),
    /// Several callers have pending requests.
    Ambiguous,
}

impl PendingRequests {
    /// Registers a request and assigns its id.
    pub(crate) fn begin(&self, request: PendingRequest) -> Result<u64, TransportError> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.closed {
            return Err(TransportError::Lost(reason.clone()));
        }
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        state.requests.insert(id, request);
        Ok(id)
    }

    /// Whether at most one request is pending.
    pub(crate) fn is_at_most_one(&self) -> bool {
        self.state.lock().requests.len() <= 1
    }

    /// Removes a request and cancels the input requests that belong to it.
    pub(crate) fn end(&self, id: u64) {
        let request = self.state.lock().requests.remove(&id);
        for (_, task) in request.into_iter().flat_map(|request| request.input_requests) {
            task.abort();
        }
    }

    /// Delivers the response to its waiting request; `false` if none waits.
    pub(crate) fn complete(&self, id: u64, outcome: RequestOutcome) -> bool {
        let mut state = self.state.lock();
        let waiting = state.requests.get_mut(&id).and_then(|request| request.response.take());
        drop(state);
        waiting.is_some_and(|waiting| waiting.send(outcome).is_ok())
    }

    /// Delivers the subscriptions that the upstream acknowledged.
    pub(crate) fn acknowledge(&self, id: u64, params: Raw) {
        let mut state = self.state.lock();
        let waiting = state.requests.get_mut(&id).and_then(|request| request.acknowledged.take());
        drop(state);
        if let Some(waiting) = waiting {
            // The receiver may have timed out.
            drop(waiting.send(params));
        }
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        self.state.lock().requests.contains_key(&id)
    }

    /// The client that a request is made for.
    pub(crate) fn requester(&self, id: u64) -> Option<Arc<Requester>> {
        self.state.lock().requests.get(&id).and_then(|request| request.requester.clone())
    }

    /// Attributes a message that did not arrive on the stream of a request. If one caller has several
    /// requests, the latest whose client is `suitable` wins, else the latest.
    pub(crate) fn attribute(&self, suitable: impl Fn(&Requester) -> bool) -> Attribution {
        let state = self.state.lock();
        let latest_first = state.requests.iter().rev();
        let mut candidates =
            latest_first.filter_map(|(id, request)| Some((*id, request.requester.as_ref()?)));
        let Some((latest, first)) = candidates.next() else { return Attribution::None };
        let mut found = suitable(first).then_some((latest, first));
        for (id, requester) in candidates {
            if requester.subject != first.subject {
                return Attribution::Ambiguous;
            }
            if found.is_none() && suitable(requester) {
                found = Some((id, requester));
            }
        }
        let (id, requester) = found.unwrap_or((latest, first));
        Attribution::Request(id, Arc::clone(requester))
    }

    /// The client of the pending requests, if there is only one such request.
    pub(crate) fn sole_requester(&self) -> Option<Arc<Requester>> {
        let state = self.state.lock();
        let mut requesters =
            state.requests.values().filter_map(|request| request.requester.as_ref());
        let first = requesters.next()?;
        requesters.next().is_none().then(|| Arc::clone(first))
    }

    /// Ties an input request of the upstream to a pending request, so that it ends with it.
    pub(crate) fn add_input_request(&self, id: u64, input_request: String, task: AbortHandle) {
        match self.state.lock().requests.get_mut(&id) {
            Some(request) => request.input_requests.push((input_request, task)),
            None => task.abort(),
        }
    }

    /// Cancels an input request, because the upstream withdrew it.
    pub(crate) fn cancel_input_request(&self, input_request: &str) {
        let state = self.state.lock();
        let all = state.requests.values().flat_map(|request| &request.input_requests);
        for (_, task) in all.filter(|(id, _)| id == input_request) {
            task.abort();
        }
    }

    /// The connection is closed: fails every pending request.
    pub(crate) fn close(&self, reason: &str) {
        let mut input_requests = Vec::new();
        {
            let mut state = self.state.lock();
            state.closed.get_or_insert_with(|| reason.to_owned());
            for request in state.requests.values_mut() {
                request.response = None;
                request.acknowledged = None;
                input_requests.append(&mut request.input_requests);
            }
        }
        for (_, task) in input_requests {
            task.abort();
        }
    }

    /// Why the connection was closed, if it was.
    pub(crate) fn closed(&self) -> Option<String> {
        self.state.lock().closed.clone()
    }
}
