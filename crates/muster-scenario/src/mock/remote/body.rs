//! Response bodies: complete, streamed or truncated.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::{
    sync::mpsc,
    time::{Sleep, sleep},
};

use super::Chunk;

/// The body of a response.
pub(super) enum Body {
    Whole(Option<Bytes>),
    Stream(mpsc::Receiver<Chunk>),
    /// Some bytes, then an error although more was announced.
    Truncated(Option<Bytes>, Pin<Box<Sleep>>),
}

/// Time for bytes to be sent before the connection is aborted, which would discard them.
pub(super) const FLUSH_DELAY: Duration = Duration::from_millis(20);

impl Body {
    pub(super) fn truncated(bytes: Bytes) -> Self {
        Self::Truncated(Some(bytes), Box::pin(sleep(FLUSH_DELAY)))
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Whole((!text.is_empty()).then(|| Bytes::from(text)))
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let chunk = match self.get_mut() {
            Self::Whole(bytes) => bytes.take().map(Ok),
            Self::Truncated(bytes, flush_delay) => match bytes.take() {
                Some(bytes) => Some(Ok(bytes)),
                None => match flush_delay.as_mut().poll(cx) {
                    Poll::Ready(()) => Some(Err(super::aborted())),
                    Poll::Pending => return Poll::Pending,
                },
            },
            Self::Stream(chunks) => match chunks.poll_recv(cx) {
                Poll::Ready(chunk) => chunk,
                Poll::Pending => return Poll::Pending,
            },
        };
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Self::Stream(_) | Self::Truncated(..) => SizeHint::default(),
        }
    }
}
