//! One request and its HTTP response: a document if the response comes first, else an event stream.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Response;

use super::{
    accept::Accepts,
    body::{Body, EventSource, EventStream, event},
    coarse_timer::CoarseDeadline,
    responses,
    serving::Serving,
};
use crate::{client_channel::Mailbox, server::RpcResponse};

/// A request that is about to be served.
pub(super) struct Exchange {
    pub(super) serving: Serving,
    /// Messages that precede the response; `None` if the client accepts no events.
    pub(super) mailbox: Option<Mailbox>,
    pub(super) accepts: Accepts,
    /// How long the client waits before it needs a sign of life.
    pub(super) keep_alive: Duration,
}

/// What happened first.
enum First {
    /// The response; `None` if the request was cancelled.
    Response(Option<RpcResponse>),
    Line(Vec<u8>),
    Timeout,
}

impl Exchange {
    /// Serves the request until the form of the HTTP response is known.
    pub(super) async fn respond(mut self) -> Response<Body> {
        let deadline = CoarseDeadline::after(self.keep_alive);
        let first = poll_fn(|cx| self.poll_first(&deadline, cx)).await;
        let Self { serving, mailbox, accepts, keep_alive } = self;
        let mut stream = ResponseEvents { ready: VecDeque::new(), serving: Some(serving), mailbox };
        match first {
            First::Response(response) => {
                stream.serving = None;
                stream.drain();
                match response {
                    Some(response) if stream.ready.is_empty() && accepts.json => {
                        return responses::rpc(&response);
                    }
                    Some(response) => stream.ready.push_back(event(&response.to_line())),
                    None => (),
                }
            }
            First::Line(line) => stream.ready.push_back(event(&line)),
            First::Timeout => stream.ready.push_back(Bytes::from_static(b": working\n\n")),
        }
        responses::events(EventStream::new(Box::new(stream), keep_alive))
    }

    fn poll_first(&mut self, deadline: &CoarseDeadline, cx: &mut Context<'_>) -> Poll<First> {
        if let Poll::Ready(response) = self.serving.poll(cx) {
            return Poll::Ready(First::Response(response));
        }
        let Some(mailbox) = &mut self.mailbox else { return Poll::Pending };
        if let Poll::Ready(Some(line)) = mailbox.poll_next(cx) {
            return Poll::Ready(First::Line(line));
        }
        // After a long silence open the stream, so that the client does not time out.
        if deadline.is_over() { Poll::Ready(First::Timeout) } else { Poll::Pending }
    }
}

/// The rest of a request, as events.
struct ResponseEvents {
    ready: VecDeque<Bytes>,
    serving: Option<Serving>,
    mailbox: Option<Mailbox>,
}

impl ResponseEvents {
    /// Queues everything that has been sent.
    fn drain(&mut self) {
        while let Some(line) = self.mailbox.as_mut().and_then(Mailbox::try_next) {
            self.ready.push_back(event(&line));
        }
    }
}

impl EventSource for ResponseEvents {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some(serving) = &mut self.serving else { return Poll::Ready(None) };
            match serving.poll(cx) {
                Poll::Ready(response) => {
                    self.serving = None;
                    self.drain();
                    self.ready.extend(response.map(|response| event(&response.to_line())));
                }
                Poll::Pending => {
                    let Some(mailbox) = &mut self.mailbox else { return Poll::Pending };
                    return match mailbox.poll_next(cx) {
                        Poll::Ready(Some(line)) => Poll::Ready(Some(event(&line))),
                        Poll::Ready(None) | Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    }
}
