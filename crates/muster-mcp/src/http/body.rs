//! The bodies of responses: a document, or events as they happen.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::time::{Instant, Sleep};

/// Where events come from. Dropping it gives them up.
pub(super) trait Source: Send {
    /// The next event, framed; `None` after the last.
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>>;
}

/// A body.
pub(super) enum Body {
    /// A document; none is an empty one, or one that was sent.
    Whole(Option<Bytes>),
    /// Events.
    Events(Events),
}

impl Body {
    pub(super) const fn empty() -> Self {
        Self::Whole(None)
    }
}

/// Events, with a sign of life after every silence.
pub(super) struct Events {
    source: Option<Box<dyn Source>>,
    silence: Duration,
    alarm: Pin<Box<Sleep>>,
}

impl Events {
    pub(super) fn new(source: Box<dyn Source>, silence: Duration) -> Self {
        Self { source: Some(source), silence, alarm: Box::pin(tokio::time::sleep(silence)) }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        let event = match source.poll_event(cx) {
            Poll::Ready(None) => {
                self.source = None;
                return Poll::Ready(None);
            }
            Poll::Ready(Some(event)) => event,
            Poll::Pending => match self.alarm.as_mut().poll(cx) {
                Poll::Ready(()) => Bytes::from_static(ALIVE),
                Poll::Pending => return Poll::Pending,
            },
        };
        self.alarm.as_mut().reset(Instant::now() + self.silence);
        Poll::Ready(Some(event))
    }
}

/// A comment: clients pass over it, and whoever watches the connection sees that it is alive.
const ALIVE: &[u8] = b": keep-alive\n\n";

/// A message as an event. Lines end with a newline, and have no other.
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
