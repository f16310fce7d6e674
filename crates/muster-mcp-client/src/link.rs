//! The wire to one server, whichever it is.

use std::sync::Arc;

use muster_core::json::Raw;
use muster_mcp::param_headers::Mirrored;
use tokio::sync::oneshot;

use super::{
    calls::{Asker, Flight},
    failure::Failure,
    http::Http,
    http_sse::HttpSse,
    inbox::{Inbox, Outlet, Ticket},
    pipe::Pipe,
    stored::Taken,
};

/// The wire to one server.
#[derive(Debug, Clone)]
pub(super) enum Link {
    /// A process of ours.
    Pipe(Arc<Pipe>),
    /// Streamable HTTP.
    Http(Arc<Http>),
    /// HTTP+SSE of 2024-11-05.
    Sse(Arc<HttpSse>),
}

/// What is to be known about a request besides its message.
#[derive(Debug, Default)]
pub(super) struct Sending {
    /// Whom it is made for; none where it is our own.
    pub(super) asker: Option<Arc<Asker>>,
    /// Where it is told which subscriptions the server accepted.
    pub(super) accepted: Option<oneshot::Sender<Raw>>,
    /// What a modern request repeats in headers; none for a legacy one.
    pub(super) mirrored: Option<Mirrored>,
    /// Whether it is taken back when nobody waits any more.
    pub(super) end: WhenDropped,
}

/// What happens to a request that nobody waits for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum WhenDropped {
    /// It is taken back.
    #[default]
    Cancel,
    /// Nothing: the introduction must not be cancelled.
    Leave,
}

impl Link {
    /// Sends a request and waits for its answer. `write` is given the id.
    pub(super) async fn request(
        &self,
        inbox: &Arc<Inbox>,
        sending: Sending,
        write: impl FnOnce(u64) -> Vec<u8>,
    ) -> Result<Taken, Failure> {
        let Sending { asker, accepted, mirrored, end } = sending;
        let mut flight = Flight::new(asker, accepted);
        let outlet = match self {
            // The end of the stream says it.
            Self::Http(_) if mirrored.is_some() => None,
            Self::Pipe(_) | Self::Http(_) | Self::Sse(_) => {
                (end == WhenDropped::Cancel).then(|| self.outlet())
            }
        };
        let (pipe, sse) = match self {
            Self::Http(http) => {
                let mut ticket = Ticket::new(inbox, flight, outlet)?;
                let body = write(ticket.id).into();
                let answer = http.request(ticket.id, body, mirrored.as_ref()).await;
                ticket.done();
                return answer;
            }
            Self::Pipe(pipe) => (Some(pipe), None),
            Self::Sse(sse) => (None, Some(sse)),
        };
        let (sender, answer) = oneshot::channel();
        flight.answer = Some(sender);
        let mut ticket = Ticket::new(inbox, flight, outlet)?;
        let line = write(ticket.id);
        let sent = match (pipe, sse) {
            (Some(pipe), _) => pipe.send(line).await,
            (None, Some(sse)) => sse.send(line).await,
            (None, None) => Ok(()),
        };
        if let Err(failure) = sent {
            ticket.done();
            return Err(failure);
        }
        let answer = answer.await;
        ticket.done();
        match answer {
            Ok(answer) => answer.map_err(Failure::refused),
            Err(_) => Err(Failure::Lost(inbox.calls.closed().unwrap_or_default())),
        }
    }

    /// Sends a message that has no answer.
    pub(super) async fn notify(&self, message: Vec<u8>) -> Result<(), Failure> {
        self.outlet().send(message).await
    }

    fn outlet(&self) -> Arc<dyn Outlet> {
        match self {
            Self::Pipe(pipe) => pipe.outlet(),
            Self::Http(http) => http.clone(),
            Self::Sse(sse) => sse.outlet(),
        }
    }

    /// Says goodbye and waits until it is gone.
    pub(super) async fn close(&self) {
        match self {
            Self::Pipe(pipe) => pipe.close().await,
            Self::Http(http) => http.close().await,
            Self::Sse(sse) => sse.close(),
        }
    }

    /// From now on its end is news.
    pub(super) fn introduced(&self) {
        match self {
            Self::Pipe(pipe) => pipe.introduced(),
            Self::Sse(sse) => sse.introduced(),
            Self::Http(_) => (),
        }
    }
}
