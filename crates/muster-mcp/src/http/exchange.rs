//! One request and its HTTP response: a document if the response comes first, else an event stream.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{Response, StatusCode};

use super::{
    accept::Accepts,
    body::{Body, EventSource, EventStream, event},
    caller_limits::TooMany,
    coarse_timer::CoarseDeadline,
    connections::StandingStream,
    event_log::EventLog,
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
    /// Where events are stored for a client that resumes the stream elsewhere.
    pub(super) log: Option<EventLog>,
}

/// The first event.
enum First {
    /// The response; `None` if the request was cancelled.
    Response(Option<RpcResponse>),
    Line(Vec<u8>),
    Timeout,
}

impl Exchange {
    /// Refuses the request instead of serving it.
    pub(super) fn refuse(self, too_many: &TooMany) -> Response<Body> {
        let message = too_many.to_string();
        let id = self.serving.request_id().to_owned();
        self.serving.cancel();
        responses::busy(StatusCode::TOO_MANY_REQUESTS, Some(&id), &message)
    }

    /// Serves the request until the form of the HTTP response is known.
    pub(super) async fn respond(mut self) -> Response<Body> {
        let mut silence = None;
        let first = poll_fn(|cx| self.poll_first(&mut silence, cx)).await;
        let Self { serving, mailbox, accepts, keep_alive, log } = self;
        let mut stream = ResponseEvents { ready: VecDeque::new(), serving: Some(serving), mailbox };
        match first {
            First::Response(response) => {
                stream.serving = None;
                stream.drain();
                match response {
                    Some(response) if stream.ready.is_empty() && accepts.json => {
                        return responses::rpc(&response);
                    }
                    Some(response) => {
                        stream.ready.push_back(Outgoing::Response(response.to_line()));
                    }
                    None => (),
                }
            }
            First::Line(line) => stream.ready.push_back(Outgoing::Message(line)),
            First::Timeout => stream.ready.push_back(Outgoing::Comment(WORKING)),
        }
        let source = match log {
            None => Box::new(stream) as Box<dyn EventSource>,
            Some(log) => log.serve(stream),
        };
        responses::events(EventStream::new(source, keep_alive))
    }

    /// Polls for the first event. `silence` is the end of the keep-alive interval, which starts with the first poll
    /// that is pending.
    fn poll_first(
        &mut self,
        silence: &mut Option<CoarseDeadline>,
        cx: &mut Context<'_>,
    ) -> Poll<First> {
        if let Poll::Ready(response) = self.serving.poll(cx) {
            return Poll::Ready(First::Response(response));
        }
        let Some(mailbox) = &mut self.mailbox else { return Poll::Pending };
        if let Poll::Ready(Some(line)) = mailbox.poll_next(cx) {
            return Poll::Ready(First::Line(line));
        }
        // After a long silence open the stream, so that the client does not time out.
        let silence = silence.get_or_insert_with(|| CoarseDeadline::after(self.keep_alive));
        if silence.is_over() { Poll::Ready(First::Timeout) } else { Poll::Pending }
    }
}

/// A comment that opens the stream.
const WORKING: Bytes = Bytes::from_static(b": working\n\n");

/// A message on the stream of a request.
pub(super) enum Outgoing {
    Comment(Bytes),
    Message(Vec<u8>),
    Response(Vec<u8>),
}

/// The rest of a request, as events.
pub(super) struct ResponseEvents {
    ready: VecDeque<Outgoing>,
    serving: Option<Serving>,
    mailbox: Option<Mailbox>,
}

impl ResponseEvents {
    /// Queues everything that has been sent.
    fn drain(&mut self) {
        while let Some(line) = self.mailbox.as_mut().and_then(Mailbox::try_next) {
            self.ready.push_back(Outgoing::Message(line));
        }
    }

    /// Cancels the request.
    pub(super) fn cancel(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.cancel();
        }
    }

    /// The next event; `None` after the last.
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outgoing>> {
        loop {
            if let Some(next) = self.ready.pop_front() {
                return Poll::Ready(Some(next));
            }
            let Some(serving) = &mut self.serving else { return Poll::Ready(None) };
            match serving.poll(cx) {
                Poll::Ready(response) => {
                    self.serving = None;
                    self.drain();
                    let line = response.map(|response| response.to_line());
                    self.ready.extend(line.map(Outgoing::Response));
                }
                Poll::Pending => {
                    let Some(mailbox) = &mut self.mailbox else { return Poll::Pending };
                    return match mailbox.poll_next(cx) {
                        Poll::Ready(Some(line)) => Poll::Ready(Some(Outgoing::Message(line))),
                        Poll::Ready(None) | Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    }
}

impl EventSource for ResponseEvents {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        self.poll_next(cx).map(|next| match next? {
            Outgoing::Comment(comment) => Some(comment),
            Outgoing::Message(line) | Outgoing::Response(line) => Some(event(&line)),
        })
    }

    fn standing(&self) -> Option<StandingStream> {
        let is_listening = self.serving.as_ref().is_some_and(Serving::is_listening);
        is_listening.then_some(StandingStream::Changes)
    }
}
