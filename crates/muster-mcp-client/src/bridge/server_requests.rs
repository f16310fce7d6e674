//! Requests of the upstream that the client has not responded to.

use std::collections::BTreeSet;

use muster_core::lock::Lock;
use muster_mcp::wire::{RpcError, code, error_body};
use serde_json::value::RawValue;

/// The pending requests of the upstream.
#[derive(Debug, Default)]
pub(super) struct ServerRequests(Lock<State>);

#[derive(Debug, Default)]
struct State {
    /// The upstream's ids, as written.
    pending: BTreeSet<String>,
    /// The client has closed its input and will not respond.
    closed: bool,
}

impl ServerRequests {
    /// Registers a request; once closed, returns the error response to send instead.
    pub(super) fn register(&self, id: &RawValue) -> Option<String> {
        let mut state = self.0.lock();
        if state.closed {
            return Some(error_response(id));
        }
        state.pending.insert(id.get().to_owned());
        None
    }

    /// Records that the client has responded.
    pub(super) fn complete(&self, id: &RawValue) {
        self.0.lock().pending.remove(id.get());
    }

    /// Returns the error responses to the pending requests, because the client has left.
    pub(super) fn close(&self) -> Vec<String> {
        let mut state = self.0.lock();
        state.closed = true;
        let ids = std::mem::take(&mut state.pending);
        let ids = ids.into_iter().filter_map(|id| RawValue::from_string(id).ok());
        ids.map(|id| error_response(&id)).collect()
    }
}

fn error_response(id: &RawValue) -> String {
    let error = RpcError::new(code::INTERNAL_ERROR, "the client left without an answer");
    String::from_utf8(error_body(Some(id), &error)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::ServerRequests;

    fn id(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn pending_requests_fail_when_the_client_leaves() {
        let requests = ServerRequests::default();
        assert!(requests.register(&id("1")).is_none());
        assert!(requests.register(&id("\"b\"")).is_none());
        requests.complete(&id("1"));
        let [response] = &requests.close()[..] else { panic!("one request was pending") };
        assert!(response.contains(r#""id":"b""#), "{response}");
        let late = requests.register(&id("3"));
        assert!(late.is_some_and(|response| response.contains(r#""id":3"#)));
    }
}
