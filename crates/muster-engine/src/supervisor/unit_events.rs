//! The events of a connection, buffered for its unit.

use std::sync::Arc;

use muster_core::connect::{ConnectionEvent, ConnectionObserver, OutputStream};
use tokio::sync::{mpsc, watch};

use crate::server_logs::ServerLogs;

/// The size of the buffer. Updates beyond it are dropped; the resource's next change sends another.
const BUFFERED_UPDATES: usize = 256;

/// The connection's side of the channel. It never blocks: events that must not be lost are kept as a state that is
/// overwritten.
#[derive(Debug)]
struct EventSender {
    name: String,
    logs: ServerLogs,
    state: watch::Sender<ConnectionState>,
    updates: mpsc::Sender<String>,
}

#[derive(Debug, Default)]
struct ConnectionState {
    lists_changed: bool,
    moved: bool,
    closed: Option<String>,
}

/// The unit's side of the channel.
#[derive(Debug)]
pub(crate) struct UnitEvents {
    state: watch::Receiver<ConnectionState>,
    updates: mpsc::Receiver<String>,
}

/// An event of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum UnitEvent {
    ListsChanged,
    ResourceUpdated(String),
    Moved,
    Closed(String),
}

/// Creates a channel of events for one connection to the server `name`.
pub(crate) fn channel(name: &str, logs: ServerLogs) -> (Arc<dyn ConnectionObserver>, UnitEvents) {
    let (state, states) = watch::channel(ConnectionState::default());
    let (updates, updated) = mpsc::channel(BUFFERED_UPDATES);
    let sender = EventSender { name: name.to_owned(), logs, state, updates };
    (Arc::new(sender), UnitEvents { state: states, updates: updated })
}

impl ConnectionObserver for EventSender {
    fn on_event(&self, event: ConnectionEvent) {
        match event {
            ConnectionEvent::ListChanged => {
                self.state.send_modify(|state| state.lists_changed = true);
            }
            ConnectionEvent::Moved => self.state.send_modify(|state| state.moved = true),
            ConnectionEvent::Closed { reason } => {
                self.state.send_modify(|state| {
                    state.closed.get_or_insert(reason);
                });
            }
            ConnectionEvent::ResourceUpdated { uri } => drop(self.updates.try_send(uri)),
            ConnectionEvent::Log { params } => {
                tracing::debug!(server = self.name, "logs {}", params.get());
            }
        }
    }

    fn on_output(&self, stream: OutputStream, line: &str) {
        self.logs.add(&self.name, stream, line);
    }
}

impl UnitEvents {
    /// The next event. Cancel-safe.
    pub(crate) async fn next(&mut self) -> UnitEvent {
        tokio::select! {
            biased;
            () = changed(&mut self.state) => {
                // A connection that is dropped without an event is closed.
                let dropped = self.state.has_changed().is_err();
                let state = self.state.borrow_and_update();
                match &state.closed {
                    _ if state.moved => UnitEvent::Moved,
                    Some(reason) => UnitEvent::Closed(reason.clone()),
                    None if dropped => UnitEvent::Closed("the connection is gone".to_owned()),
                    None => UnitEvent::ListsChanged,
                }
            }
            Some(uri) = self.updates.recv() => UnitEvent::ResourceUpdated(uri),
        }
    }
}

async fn changed(state: &mut watch::Receiver<ConnectionState>) {
    // An error means that the sender was dropped, which the caller checks.
    drop(state.changed().await);
}

#[cfg(test)]
mod tests {
    use muster_core::connect::ConnectionEvent;

    use super::{ServerLogs, UnitEvent, channel};

    #[tokio::test]
    async fn list_changes_and_closing_are_never_dropped() {
        let (sender, mut events) = channel("x", ServerLogs::default());
        for _ in 0..1000 {
            sender.on_event(ConnectionEvent::ListChanged);
            sender.on_event(ConnectionEvent::ResourceUpdated { uri: "u".to_owned() });
        }
        assert_eq!(events.next().await, UnitEvent::ListsChanged);
        for _ in 0..256 {
            assert_eq!(events.next().await, UnitEvent::ResourceUpdated("u".to_owned()));
        }
        sender.on_event(ConnectionEvent::Closed { reason: "first".to_owned() });
        sender.on_event(ConnectionEvent::Closed { reason: "second".to_owned() });
        assert_eq!(events.next().await, UnitEvent::Closed("first".to_owned()));
        let (sender, mut events) = channel("x", ServerLogs::default());
        drop(sender);
        assert_eq!(events.next().await, UnitEvent::Closed("the connection is gone".to_owned()));
    }
}
