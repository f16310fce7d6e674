//! Response bodies: a document, or an event stream.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use super::connections::{InService, StandingStream};

/// A source of events. Dropping it cancels the work that produces them.
pub(super) trait EventSource: Send {
    /// The next event, framed; `None` after the last.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;

    /// The kind of a stream without an end of its own; `None` for the response to a request.
    fn standing(&self) -> Option<StandingStream> {
        None
    }
}

/// A response body.
pub(super) enum Body {
    /// A document; `None` if it is empty or has been sent.
    Whole(Option<Bytes>),
    /// An event stream.
    Events(EventStream),
}

impl Body {
    pub(super) const fn empty() -> Self {
        Self::Whole(None)
    }
}

/// An event stream with keep-alive comments.
pub(super) struct EventStream {
    source: Option<Box<dyn EventSource>>,
    keep_alive: Duration,
    timer: Pin<Box<Sleep>>,
    /// The request that the stream answers is in service until the stream ends.
    in_service: Option<InService>,
}

impl EventStream {
    pub(super) fn new(source: Box<dyn EventSource>, keep_alive: Duration) -> Self {
        let timer = Box::pin(tokio::time::sleep(keep_alive));
        Self { source: Some(source), keep_alive, timer, in_service: None }
    }

    pub(super) fn hold(&mut self, in_service: InService) {
        if let Some(stream) = self.source.as_ref().and_then(|source| source.standing()) {
            in_service.stands(stream);
        }
        self.in_service = Some(in_service);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        let event = match source.poll_event(cx) {
            Poll::Ready(None) => {
                self.source = None;
                self.in_service = None;
                return Poll::Ready(None);
            }
            Poll::Ready(Some(event)) => event,
            Poll::Pending => match self.timer.as_mut().poll(cx) {
                Poll::Ready(()) => Bytes::from_static(KEEP_ALIVE),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.timer.as_mut().reset(Instant::now() + self.keep_alive);
        Poll::Ready(Some(event))
    }
}

/// A comment, which clients ignore and proxies take as a sign of life.
const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

/// Frames a line as an event that a client can resume from.
pub(super) fn event_with_id(id: &str, line: &[u8]) -> Bytes {
    let event = event(line);
    let mut framed = Vec::with_capacity(id.len() + 5 + event.len());
    framed.extend_from_slice(b"id: ");
    framed.extend_from_slice(id.as_bytes());
    framed.push(b'\n');
    framed.extend_from_slice(&event);
    framed.into()
}

/// An event without data, that a client can resume from.
pub(super) fn priming_event(id: &str) -> Bytes {
    format!("id: {id}\ndata: \n\n").into()
}

/// Frames a line as an event. The line ends with a newline and contains no other.
pub(super) fn event(line: &[u8]) -> Bytes {
    let (start, end) = (b"event: message\ndata: ", b"\n");
    let mut event = Vec::with_capacity(start.len() + line.len() + end.len());
    event.extend_from_slice(start);
    event.extend_from_slice(line);
    event.extend_from_slice(end);
    event.into()
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Self::Whole(data) => data.take(),
            Self::Events(events) => std::task::ready!(events.poll(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(data) => data.is_none(),
            Self::Events(events) => events.source.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(data) => SizeHint::with_exact(data.as_ref().map_or(0, Bytes::len) as u64),
            Self::Events(_) => SizeHint::default(),
        }
    }
}
