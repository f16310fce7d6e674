//! One request and its response: a document if the answer comes first, else a stream of events.

use std::{
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::Response;
use tokio::sync::mpsc;

use super::{
    accept::Accepts,
    body::{Body, Events, Source, event},
    reply,
    tick::Due,
    work::Work,
};
use crate::server::Answer;

/// A request that is about to run.
pub(super) struct Exchange {
    pub(super) work: Work,
    /// What is said before the answer; none when the client takes no events.
    pub(super) mail: Option<mpsc::Receiver<Vec<u8>>>,
    pub(super) accepts: Accepts,
    pub(super) silence: Duration,
}

/// What happened first.
enum First {
    Answer(Option<Answer>),
    Line(Vec<u8>),
    Silence,
}

impl Exchange {
    /// Runs until it is clear what the response will be.
    pub(super) async fn respond(mut self) -> Response<Body> {
        let patience = Due::after(self.silence);
        let first = poll_fn(|cx| self.poll_first(&patience, cx)).await;
        let Self { work, mail, accepts, silence } = self;
        let mut stream = Stream { ready: VecDeque::new(), work: Some(work), mail };
        match first {
            First::Answer(answer) => {
                stream.work = None;
                stream.drain();
                match answer {
                    Some(answer) if stream.ready.is_empty() && accepts.json => {
                        return reply::answer(&answer);
                    }
                    Some(answer) => stream.ready.push_back(event(&answer.to_line())),
                    // Taken back: there is nothing to say.
                    None => (),
                }
            }
            First::Line(line) => stream.ready.push_back(event(&line)),
            First::Silence => stream.ready.push_back(Bytes::from_static(b": working\n\n")),
        }
        reply::events(Events::new(Box::new(stream), silence))
    }

    fn poll_first(&mut self, patience: &Due, cx: &mut Context<'_>) -> Poll<First> {
        if let Poll::Ready(answer) = self.work.poll(cx) {
            return Poll::Ready(First::Answer(answer));
        }
        let Some(mail) = &mut self.mail else { return Poll::Pending };
        if let Poll::Ready(Some(line)) = mail.poll_recv(cx) {
            return Poll::Ready(First::Line(line));
        }
        // After a long silence the stream is opened, so that nobody takes us for dead.
        if patience.has_come() { Poll::Ready(First::Silence) } else { Poll::Pending }
    }
}

/// The rest of a request, as events.
struct Stream {
    ready: VecDeque<Bytes>,
    work: Option<Work>,
    mail: Option<mpsc::Receiver<Vec<u8>>>,
}

impl Stream {
    /// Everything that was said so far.
    fn drain(&mut self) {
        while let Some(line) = self.mail.as_mut().and_then(|mail| mail.try_recv().ok()) {
            self.ready.push_back(event(&line));
        }
    }
}

impl Source for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some(work) = &mut self.work else { return Poll::Ready(None) };
            match work.poll(cx) {
                Poll::Ready(answer) => {
                    self.work = None;
                    self.drain();
                    self.ready.extend(answer.map(|answer| event(&answer.to_line())));
                }
                Poll::Pending => {
                    let Some(mail) = &mut self.mail else { return Poll::Pending };
                    match mail.poll_recv(cx) {
                        Poll::Ready(Some(line)) => return Poll::Ready(Some(event(&line))),
                        Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                    }
                }
            }
        }
    }
}
