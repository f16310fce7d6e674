//! Followers of the journal.

use std::sync::Arc;

use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::Event;

/// The events from now on, until the journal closes.
#[derive(Debug)]
pub struct Following {
    pub(super) events: Receiver<Arc<Event>>,
    pub(super) ending: CancellationToken,
}

impl Following {
    /// The next event. A slow follower misses some; a query returns them.
    pub async fn next(&mut self) -> Option<Arc<Event>> {
        loop {
            tokio::select! {
                biased;
                event = self.events.recv() => match event {
                    Ok(event) => return Some(event),
                    Err(RecvError::Lagged(_)) => (),
                    Err(RecvError::Closed) => return None,
                },
                () = self.ending.cancelled() => return None,
            }
        }
    }
}
