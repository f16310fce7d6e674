//! Input requests to a legacy client that it has not responded to.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use muster_core::{
    client::InputError,
    json::{Raw, RawObject},
    shared::is_replica_id,
};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::{
    lock::Lock,
    replica_names::ReplicaNames,
    wire::{RpcError, notification_line, request_line},
};

type InputResponse = Result<Raw, InputError>;

/// The pending input requests to one client. Closed when the client is gone.
#[derive(Debug, Default)]
pub(crate) struct PendingInputs {
    /// The names of the replica that sends the requests, if there are several.
    names: Option<Arc<ReplicaNames>>,
    next_number: AtomicU64,
    state: Lock<State>,
}

#[derive(Debug, Default)]
struct State {
    closed: bool,
    waiting: BTreeMap<u64, oneshot::Sender<InputResponse>>,
}

impl PendingInputs {
    /// Creates the input requests of this replica. Another replica that receives a response sees in its id where it
    /// belongs.
    pub(crate) fn of_replica(names: &Arc<ReplicaNames>) -> Self {
        Self { names: Some(Arc::clone(names)), ..Self::default() }
    }

    fn next_number(&self) -> u64 {
        match &self.names {
            None => self.next_number.fetch_add(1, Ordering::Relaxed),
            Some(names) => names.next_number(),
        }
    }

    /// The other replica that waits for a response, if another one sent the request.
    pub(crate) fn other_replica(&self, id: &RawValue) -> Option<String> {
        let id: String = serde_json::from_str(id.get()).ok()?;
        let (replica, _) = id.strip_prefix(PREFIX)?.rsplit_once('-')?;
        let is_other = self.names.as_ref().is_some_and(|own| own.replica() != replica);
        (is_replica_id(replica) && is_other).then(|| replica.to_owned())
    }

    fn request_id(&self, number: u64) -> String {
        match &self.names {
            None => format!("{PREFIX}{number}"),
            Some(names) => format!("{PREFIX}{}-{number}", names.replica()),
        }
    }

    fn number(&self, id: &RawValue) -> Option<u64> {
        let id: String = serde_json::from_str(id.get()).ok()?;
        let number = id.strip_prefix(PREFIX)?;
        match &self.names {
            None => number.parse().ok(),
            Some(names) => number.strip_prefix(names.replica())?.strip_prefix('-')?.parse().ok(),
        }
    }

    /// Sends a request and waits for the response. Dropping the future cancels the request.
    pub(crate) async fn send(
        &self,
        out: &mpsc::Sender<Vec<u8>>,
        method: &str,
        params: &RawValue,
    ) -> InputResponse {
        let number = self.next_number();
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = self.state.lock();
            if state.closed {
                return Err(InputError::Disconnected);
            }
            state.waiting.insert(number, sender);
        }
        let mut cancellation = CancelOnDrop { pending: self, out, number, sent: false };
        let line = request_line(&self.request_id(number), method, params);
        out.send(line).await.map_err(|_| InputError::Disconnected)?;
        cancellation.sent = true;
        tokio::select! {
            response = receiver => response.unwrap_or(Err(InputError::Disconnected)),
            () = out.closed() => Err(InputError::Disconnected),
        }
    }

    /// Delivers a response; `false` if no request waits for it.
    pub(crate) fn complete(&self, id: &RawValue, outcome: Result<&RawValue, &RawValue>) -> bool {
        let number = self.number(id);
        let Some(sender) = number.and_then(|number| self.state.lock().waiting.remove(&number))
        else {
            return false;
        };
        sender.send(outcome.map(ToOwned::to_owned).map_err(input_error)).is_ok()
    }

    /// The client is gone: fails all pending requests.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.waiting.clear();
    }
}

/// Cancels a request that is dropped before its response.
struct CancelOnDrop<'a> {
    pending: &'a PendingInputs,
    out: &'a mpsc::Sender<Vec<u8>>,
    number: u64,
    sent: bool,
}

impl Drop for CancelOnDrop<'_> {
    fn drop(&mut self) {
        let is_pending = self.pending.state.lock().waiting.remove(&self.number).is_some();
        if is_pending && self.sent {
            let mut params = RawObject::new();
            params.set_value("requestId", &self.pending.request_id(self.number));
            let line = notification_line("notifications/cancelled", Some(&params.to_raw()));
            // If the queue is full, the late response will be ignored.
            drop(self.out.try_send(line));
        }
    }
}

const PREFIX: &str = "muster-";

fn input_error(error: &RawValue) -> InputError {
    let RpcError { code, message, data } = RpcError::parse(error);
    let message = if message.is_empty() { "the client refused".to_owned() } else { message };
    InputError::Refused { code, message, data }
}

/// The capability that a client must declare for an input request, if any.
pub(crate) fn required_capability(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

/// Whether a capability is declared and not `null`.
pub(crate) fn is_declared(capabilities: &RawValue, capability: &str) -> bool {
    RawObject::parse(capabilities)
        .unwrap_or_default()
        .get(capability)
        .is_some_and(|value| value.get() != "null")
}
