//! What a connection says unasked, kept for its unit.

use std::sync::Arc;

use muster_core::connect::{Event, Events};
use tokio::sync::{mpsc, watch};

/// How many notices may wait; what comes then is dropped, for the next change says the same.
const NOTICES: usize = 256;

/// The connection's side. It never waits: what matters is a state that is overwritten, not a queue.
#[derive(Debug)]
struct Mouth {
    name: String,
    heard: watch::Sender<Heard>,
    updates: mpsc::Sender<String>,
}

#[derive(Debug, Default)]
struct Heard {
    lists_changed: bool,
    closed: Option<String>,
}

/// The unit's side.
#[derive(Debug)]
pub(crate) struct Ear {
    heard: watch::Receiver<Heard>,
    updates: mpsc::Receiver<String>,
}

/// What a unit hears.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    ListsChanged,
    Updated(String),
    Closed(String),
}

/// Both sides for one connection to the server `name`.
pub(crate) fn pair(name: &str) -> (Arc<dyn Events>, Ear) {
    let (heard, hears) = watch::channel(Heard::default());
    let (updates, updated) = mpsc::channel(NOTICES);
    let mouth = Mouth { name: name.to_owned(), heard, updates };
    (Arc::new(mouth), Ear { heard: hears, updates: updated })
}

impl Events for Mouth {
    fn happened(&self, event: Event) {
        match event {
            Event::ListChanged => self.heard.send_modify(|heard| heard.lists_changed = true),
            Event::Closed { reason } => {
                self.heard.send_modify(|heard| {
                    heard.closed.get_or_insert(reason);
                });
            }
            Event::ResourceUpdated { uri } => drop(self.updates.try_send(uri)),
            Event::Log { params } => tracing::debug!(server = self.name, "says {}", params.get()),
        }
    }
}

impl Ear {
    /// The next notice. Dropping the future loses none.
    pub(crate) async fn next(&mut self) -> Notice {
        tokio::select! {
            biased;
            // A connection that forgets us without a word is closed.
            () = changed(&mut self.heard) => {
                let gone = self.heard.has_changed().is_err();
                let heard = self.heard.borrow_and_update();
                match &heard.closed {
                    Some(reason) => Notice::Closed(reason.clone()),
                    None if gone => Notice::Closed("the connection is gone".to_owned()),
                    None => Notice::ListsChanged,
                }
            }
            Some(uri) = self.updates.recv() => Notice::Updated(uri),
        }
    }
}

async fn changed(heard: &mut watch::Receiver<Heard>) {
    // An error means that the other side is gone, which the caller sees too.
    drop(heard.changed().await);
}

#[cfg(test)]
mod tests {
    use muster_core::connect::Event;

    use super::{Notice, pair};

    #[tokio::test]
    async fn nothing_that_matters_is_lost() {
        let (mouth, mut ear) = pair("x");
        for _ in 0..1000 {
            mouth.happened(Event::ListChanged);
            mouth.happened(Event::ResourceUpdated { uri: "u".to_owned() });
        }
        assert_eq!(ear.next().await, Notice::ListsChanged);
        for _ in 0..256 {
            assert_eq!(ear.next().await, Notice::Updated("u".to_owned()));
        }
        mouth.happened(Event::Closed { reason: "first".to_owned() });
        mouth.happened(Event::Closed { reason: "second".to_owned() });
        assert_eq!(ear.next().await, Notice::Closed("first".to_owned()));
        let (mouth, mut ear) = pair("x");
        drop(mouth);
        assert_eq!(ear.next().await, Notice::Closed("the connection is gone".to_owned()));
    }
}
