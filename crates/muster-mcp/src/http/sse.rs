//! HTTP+SSE, the transport of 2024-11-05: a stream to the client, and a place to post to.
//!
//! The stream is the session: everything for the client goes there, answers too, and when it closes,
//! what is running is cancelled.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header, request};
use muster_core::call::Caller;

use super::{
    App,
    body::{Body, Events, Source, event},
    reply,
    route::{cancelled_id, refuse_message},
    sessions::HttpSession,
    work,
};
use crate::{
    incoming::{Incoming, Prepared},
    wire::Message,
};

/// Where messages are posted.
pub(super) const MESSAGE_PATH: &str = "/message";

/// After how much silence the stream says that it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);

/// Opens a session.
pub(super) fn open(app: &Arc<App>, headers: &HeaderMap, caller: &Caller) -> Response<Body> {
    let Some(session) = app.streams.mint(caller) else {
        return reply::refuse(StatusCode::INTERNAL_SERVER_ERROR, "no randomness for a session");
    };
    // Only names that were let in come here; behind a proxy it is the proxy's.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_https = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let scheme = if is_https { "https" } else { "http" };
    let endpoint = format!("{scheme}://{host}{MESSAGE_PATH}?sessionId={}", session.id);
    let first = Bytes::from(format!("event: endpoint\ndata: {endpoint}\n\n"));
    session.streams.send_modify(|streams| *streams += 1);
    let stream = Stream {
        app: Arc::clone(app),
        first: Some(first),
        over: Box::pin(over(Arc::clone(app), Arc::clone(&session))),
        session,
    };
    reply::events(Events::new(Box::new(stream), PING_EVERY))
}

/// The session was closed, or we leave and nothing is running any more.
async fn over(app: Arc<App>, session: Arc<HttpSession>) {
    let finished = async {
        app.draining.cancelled().await;
        session.quiet().await;
    };
    tokio::select! {
        () = session.ended.cancelled() => (),
        () = finished => (),
    }
}

/// Everything for one client.
struct Stream {
    app: Arc<App>,
    first: Option<Bytes>,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    session: Arc<HttpSession>,
}

impl Source for Stream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Poll::Ready(Some(line)) = self.session.waiting.lock().poll_recv(cx) {
            return Poll::Ready(Some(event(&line)));
        }
        self.over.as_mut().poll(cx).map(|()| None)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.session.streams.send_modify(|streams| *streams -= 1);
        self.app.streams.end(&self.session.id);
    }
}

/// The session that a message is for.
pub(super) fn session(
    app: &App,
    head: &request::Parts,
    caller: &Caller,
) -> Option<Arc<HttpSession>> {
    let query = head.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))?;
    app.streams.find(id, caller)
}

/// Takes a message. What is to be said comes on the stream.
pub(super) async fn take(
    app: &Arc<App>,
    session: &Arc<HttpSession>,
    caller: Caller,
    body: &[u8],
) -> Response<Body> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let answer = match Message::parse(text) {
        Err(malformed) => return refuse_message(&malformed),
        Ok(Message::Response { id, outcome }) => {
            session.state.questions.answered(id, outcome);
            None
        }
        Ok(Message::Notification { method, params }) => {
            if let Some(id) = cancelled_id(&method, params) {
                session.cancel(&id);
            }
            None
        }
        Ok(Message::Request { id, method, params }) => {
            match (Incoming { id, method: &method, params, headers: None }).prepare() {
                Ok(prepared) => {
                    start(app, session, caller, prepared);
                    None
                }
                Err(answer) => Some(answer),
            }
        }
    };
    if let Some(answer) = answer {
        // A client that left needs no answer.
        drop(session.out.send(answer.to_line()).await);
    }
    reply::accepted()
}

fn start(app: &Arc<App>, session: &Arc<HttpSession>, caller: Caller, prepared: Prepared) {
    let out = session.out.clone();
    let work = work::legacy(Arc::clone(app), session, caller, prepared, Some(out.clone()));
    let cut = app.cut.clone();
    app.tasks.spawn(async move {
        if let Some(Some(answer)) = cut.run_until_cancelled(work).await {
            // A client that left needs no answer.
            drop(out.send(answer.to_line()).await);
        }
    });
}
