//! The body of a response: all at once, or as it comes.

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
    /// Some bytes, time for them to leave, then nothing although more was promised.
    Torn(Option<Bytes>, Pin<Box<Sleep>>),
}

/// Enough for bytes to leave before the connection is cut, which would take them along.
pub(super) const LEAVING: Duration = Duration::from_millis(20);

impl Body {
    pub(super) fn torn(bytes: Bytes) -> Self {
        Self::Torn(Some(bytes), Box::pin(sleep(LEAVING)))
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
            Self::Torn(bytes, leaving) => match bytes.take() {
                Some(bytes) => Some(Ok(bytes)),
                None => match leaving.as_mut().poll(cx) {
                    Poll::Ready(()) => Some(Err(super::cut())),
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
            Self::Stream(_) | Self::Torn(..) => SizeHint::default(),
        }
    }
}
