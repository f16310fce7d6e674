//! Events as they happen.

use std::sync::Arc;

use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio_util::sync::CancellationToken;

use super::Event;

/// What happens, until nobody tells of it any more.
#[derive(Debug)]
pub(crate) struct Following {
    pub(super) events: Receiver<Arc<Event>>,
    pub(super) ending: CancellationToken,
}

impl Following {
    /// The next event. Who is too slow misses some; they can be asked for.
    pub(crate) async fn next(&mut self) -> Option<Arc<Event>> {
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
