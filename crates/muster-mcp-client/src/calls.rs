//! The requests that wait for a server, and whom each of them belongs to.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use muster_core::{client::ClientHandle, json::Raw};
use muster_mcp::wire::RpcError;
use tokio::{sync::oneshot, task::AbortHandle};

use super::{failure::Failure, stored::Taken};
use crate::lock::Lock;

/// What a server says to a request of ours.
pub(super) type Settled = Result<Taken, RpcError>;

/// Whom a request is made for.
#[derive(Debug)]
pub(super) struct Asker {
    /// The client behind it.
    pub(super) client: Arc<dyn ClientHandle>,
    /// Who the caller is.
    pub(super) subject: Arc<str>,
    /// The client's own progress token, as it wrote it.
    pub(super) token: Option<Raw>,
}

/// The requests under way on one connection. Their ids are also the progress tokens that the server
/// is given.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last: AtomicU64,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    flights: BTreeMap<u64, Flight>,
    /// Why there will be no more answers.
    closed: Option<String>,
}

/// A request under way.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// Whom it is made for; none where it is our own.
    asker: Option<Arc<Asker>>,
    /// Where its answer goes, if that does not come on a stream of its own.
    pub(super) answer: Option<oneshot::Sender<Settled>>,
    /// Where it is told which subscriptions the server accepted.
    accepted: Option<oneshot::Sender<Raw>>,
    /// What the server asks meanwhile, by its ids.
    questions: Vec<(String, AbortHandle)>,
}

impl Flight {
    pub(super) fn new(asker: Option<Arc<Asker>>, accepted: Option<oneshot::Sender<Raw>>) -> Self {
        Self { asker, accepted, ..Self::default() }
    }
}

/// Whom a message of the server belongs to that does not say it.
#[derive(Debug)]
pub(super) enum Owner {
    /// There is no request that it could belong to.
    Nobody,
    /// This request.
    One(u64, Arc<Asker>),
    /// Requests of different callers wait.
    Unclear,
}

impl Calls {
    /// Enters a request.
    pub(super) fn begin(&self, flight: Flight) -> Result<u64, Failure> {
        let mut state = self.state.lock();
        if let Some(reason) = &state.closed {
            return Err(Failure::Lost(reason.clone()));
        }
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        state.flights.insert(id, flight);
        Ok(id)
    }

    /// Whether there is one request at most.
    pub(super) fn has_few(&self) -> bool {
        self.state.lock().flights.len() <= 1
    }

    /// Forgets a request, with whatever the server still asks in its name.
    pub(super) fn end(&self, id: u64) {
        let flight = self.state.lock().flights.remove(&id);
        for (_, question) in flight.into_iter().flat_map(|flight| flight.questions) {
            question.abort();
        }
    }

    /// Hands an answer to whom waits for it; whether someone does.
    pub(super) fn settle(&self, id: u64, answer: Settled) -> bool {
        let waiting =
            self.state.lock().flights.get_mut(&id).and_then(|flight| flight.answer.take());
        waiting.is_some_and(|waiting| waiting.send(answer).is_ok())
    }

    /// Hands over what the server accepted of a subscription.
    pub(super) fn accept(&self, id: u64, params: Raw) {
        let waiting =
            self.state.lock().flights.get_mut(&id).and_then(|flight| flight.accepted.take());
        if let Some(waiting) = waiting {
            // Nobody may be waiting any more.
            drop(waiting.send(params));
        }
    }

    /// Whether a request is under way.
    pub(super) fn knows(&self, id: u64) -> bool {
        self.state.lock().flights.contains_key(&id)
    }

    /// Whom a request belongs to.
    pub(super) fn asker(&self, id: u64) -> Option<Arc<Asker>> {
        self.state.lock().flights.get(&id).and_then(|flight| flight.asker.clone())
    }

    /// Whom a message belongs to that came on no stream of a request: of several requests of one
    /// caller it is the latest whose client `fits`, or the latest.
    pub(super) fn owner(&self, fits: impl Fn(&Asker) -> bool) -> Owner {
        let state = self.state.lock();
        let askers = state.flights.iter().rev();
        let mut askers = askers.filter_map(|(id, flight)| Some((*id, flight.asker.as_ref()?)));
        let Some((latest, first)) = askers.next() else { return Owner::Nobody };
        let mut found = fits(first).then_some((latest, first));
        for (id, asker) in askers {
            if asker.subject != first.subject {
                return Owner::Unclear;
            }
            if found.is_none() && fits(asker) {
                found = Some((id, asker));
            }
        }
        let (id, asker) = found.unwrap_or((latest, first));
        Owner::One(id, Arc::clone(asker))
    }

    /// The only client that waits for something.
    pub(super) fn only(&self) -> Option<Arc<Asker>> {
        let state = self.state.lock();
        let mut askers = state.flights.values().filter_map(|flight| flight.asker.as_ref());
        let first = askers.next()?;
        askers.next().is_none().then(|| Arc::clone(first))
    }

    /// Remembers a question that the server asks in the name of a request, so that it ends with it.
    pub(super) fn asks(&self, id: u64, question: String, handle: AbortHandle) {
        match self.state.lock().flights.get_mut(&id) {
            Some(flight) => flight.questions.push((question, handle)),
            None => handle.abort(),
        }
    }

    /// The server takes a question back.
    pub(super) fn withdraw(&self, question: &str) {
        let state = self.state.lock();
        let questions = state.flights.values().flat_map(|flight| &flight.questions);
        for (_, handle) in questions.filter(|(id, _)| id == question) {
            handle.abort();
        }
    }

    /// There will be no more answers: whoever waits hears it now.
    pub(super) fn close(&self, reason: &str) {
        let flights = {
            let mut state = self.state.lock();
            state.closed.get_or_insert_with(|| reason.to_owned());
            for flight in state.flights.values_mut() {
                flight.answer = None;
                flight.accepted = None;
            }
            state
                .flights
                .values_mut()
                .flat_map(|flight| std::mem::take(&mut flight.questions))
                .collect::<Vec<_>>()
        };
        for (_, question) in flights {
            question.abort();
        }
    }

    /// Why there will be no more answers, if so.
    pub(super) fn closed(&self) -> Option<String> {
        self.state.lock().closed.clone()
    }
}
