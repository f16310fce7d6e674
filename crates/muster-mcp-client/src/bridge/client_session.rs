//! The session state of a legacy client, kept to restore it when the session is replaced.

use std::collections::BTreeMap;

use bytes::Bytes;
use muster_core::{json::RawObject, lock::Lock};
use muster_mcp::wire::notification_line;
use tokio_util::sync::CancellationToken;

use super::request::BridgedRequest;

/// The lists that a server may announce changes of.
const LISTS: [&str; 3] = ["tools", "resources", "prompts"];

/// The session state of a legacy client.
#[derive(Debug, Default)]
pub(super) struct ClientSession {
    state: Lock<State>,
    leaving: CancellationToken,
}

#[derive(Debug, Default)]
struct State {
    /// The client's `initialize`.
    initialize: Option<Bytes>,
    /// The client's `notifications/initialized`.
    initialized: Option<Bytes>,
    /// The latest request for each setting: subscriptions and the log level.
    settings: BTreeMap<String, Bytes>,
    /// The lists whose changes the server announces.
    announced: Vec<&'static str>,
}

impl ClientSession {
    /// Records the client's `initialize`, which the upstream has not received yet.
    pub(super) fn set_initialize(&self, message: &Bytes) {
        let mut state = self.state.lock();
        if state.initialize.as_ref() != Some(message) {
            state.initialized = None;
            state.settings.clear();
        }
        state.initialize = Some(message.clone());
    }

    /// Begins the session: the upstream returned `result` to `initialize`.
    pub(super) fn begin(&self, initialize: &Bytes, result: &RawObject<'_>) {
        self.set_initialize(initialize);
        let capabilities =
            result.get("capabilities").and_then(RawObject::parse).unwrap_or_default();
        let is_announced = |list: &&str| {
            let capability = capabilities.get(list).and_then(RawObject::parse).unwrap_or_default();
            capability.get("listChanged").is_some_and(|value| value.get() == "true")
        };
        self.state.lock().announced = LISTS.into_iter().filter(is_announced).collect();
    }

    /// Records the client's `notifications/initialized`.
    pub(super) fn set_initialized(&self, text: &str) {
        self.state.lock().initialized = Some(Bytes::copy_from_slice(text.as_bytes()));
    }

    /// Records a change of the session state that the upstream accepted.
    pub(super) fn apply(&self, request: &BridgedRequest) {
        let settings = &mut self.state.lock().settings;
        match request.method.as_str() {
            "resources/unsubscribe" => {
                settings.remove(&format!("resources/subscribe {}", request.uri));
            }
            method => {
                settings.insert(format!("{method} {}", request.uri), request.body.clone());
            }
        }
    }

    /// The client's `initialize`, if it sent one.
    pub(super) fn initialize(&self) -> Option<Bytes> {
        self.state.lock().initialize.clone()
    }

    /// The messages after `initialize` that restore the session.
    pub(super) fn replay(&self) -> Vec<Bytes> {
        let state = self.state.lock();
        state.initialized.iter().chain(state.settings.values()).cloned().collect()
    }

    /// Notifications that the lists may have changed, for the lists whose changes the server announces.
    pub(super) fn list_changes(&self) -> Vec<Vec<u8>> {
        self.state.lock().announced.iter().copied().map(list_changed).collect()
    }

    /// Records that the client has closed its input.
    pub(super) fn leave(&self) {
        self.leaving.cancel();
    }

    pub(super) async fn left(&self) {
        self.leaving.cancelled().await;
    }
}

/// Notifications that every list has changed.
pub(super) fn all_list_changes() -> impl Iterator<Item = Vec<u8>> {
    LISTS.into_iter().map(list_changed)
}

fn list_changed(list: &str) -> Vec<u8> {
    notification_line(&format!("notifications/{list}/list_changed"), None)
}
