//! HTTP+SSE, the transport of 2024-11-05: an event stream to the client, and an endpoint to post to.
//!
//! The stream is the session: all messages are sent on it, including responses, and when it closes, pending requests
//! are cancelled.

use std::{
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header, request};
use muster_core::{backend::boxed, call::Caller, credentials::Peer};

use super::{
    App,
    body::{Body, EventSource, EventStream, event},
    caller_limits::{CallPlace, CallerKey, TooMany},
    connections::StandingStream,
    responses,
    route::{cancelled_id, malformed_message},
    serving,
    sessions::HttpSession,
};
use crate::{
    client_channel::Outbox,
    incoming::{IncomingRequest, ValidRequest},
    reply_to::ReplyTo,
    server::RpcResponse,
    wire::{Message, RpcError, code},
};

/// The path that messages are posted to.
pub(super) const MESSAGE_PATH: &str = "/message";

/// The interval of keep-alive comments.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

/// Opens a session.
pub(super) fn open(
    app: &Arc<App>,
    headers: &HeaderMap,
    caller: &Caller,
    peer: &Peer,
) -> Response<Body> {
    let Some(session) = app.sse_sessions.create(caller, peer.ip()) else {
        return responses::refuse(StatusCode::INTERNAL_SERVER_ERROR, "no randomness for a session");
    };
    // The host has been checked; behind a proxy it is the proxy's.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_https = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let scheme = if is_https { "https" } else { "http" };
    let endpoint = format!("{scheme}://{host}{MESSAGE_PATH}?sessionId={}", session.id);
    let first = Bytes::from(format!("event: endpoint\ndata: {endpoint}\n\n"));
    session.streams.send_modify(|streams| *streams += 1);
    let stream = SseStream {
        app: Arc::clone(app),
        first: Some(first),
        ended: Box::pin(ended(Arc::clone(app), Arc::clone(&session))),
        session,
    };
    responses::events(EventStream::new(Box::new(stream), KEEP_ALIVE))
}

/// Waits until the session ends, or at shutdown until no request is pending.
async fn ended(app: Arc<App>, session: Arc<HttpSession>) {
    let drained = async {
        app.draining.cancelled().await;
        session.until_idle().await;
    };
    tokio::select! {
        () = session.ended.cancelled() => (),
        () = drained => (),
    }
}

/// The stream to one client.
struct SseStream {
    app: Arc<App>,
    first: Option<Bytes>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    session: Arc<HttpSession>,
}

impl EventSource for SseStream {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Some(first));
        }
        if let Poll::Ready(Some(line)) = self.session.waiting.lock().poll_recv(cx) {
            return Poll::Ready(Some(event(&line)));
        }
        self.ended.as_mut().poll(cx).map(|()| None)
    }

    fn standing(&self) -> Option<StandingStream> {
        Some(StandingStream::Session(Arc::clone(&self.session)))
    }
}

impl Drop for SseStream {
    fn drop(&mut self) {
        self.session.streams.send_modify(|streams| *streams -= 1);
        self.app.sse_sessions.end(&self.session.id);
    }
}

/// The session of a posted message.
pub(super) fn session(
    app: &App,
    head: &request::Parts,
    caller: &Caller,
) -> Option<Arc<HttpSession>> {
    let query = head.uri.query().unwrap_or_default();
    let id = query.split('&').find_map(|pair| pair.strip_prefix("sessionId="))?;
    app.sse_sessions.find(id, caller)
}

/// Handles a posted message. Responses are sent on the stream.
pub(super) async fn handle(
    app: &Arc<App>,
    session: &Arc<HttpSession>,
    caller: Caller,
    address: IpAddr,
    body: &[u8],
) -> Response<Body> {
    let text = std::str::from_utf8(body).unwrap_or_default();
    let response = match Message::parse(text) {
        Err(malformed) => return malformed_message(&malformed),
        Ok(Message::Response { id, outcome }) => {
            session.state.input_requests.complete(id, outcome);
            None
        }
        Ok(Message::Notification { method, params }) => {
            if let Some(id) = cancelled_id(&method, params) {
                session.cancel(&id);
            }
            None
        }
        Ok(Message::Request { id, method, params }) => {
            match (IncomingRequest { id, method: &method, params, headers: None }).validate() {
                Ok(request) => {
                    let key = || CallerKey::of(&caller, address);
                    let is_call = request.request.tool_call().is_some();
                    match begin_call(app, is_call.then_some(key)).await {
                        Ok(call) => {
                            start(app, session, (caller, call), request);
                            None
                        }
                        Err(too_many) => {
                            let error = RpcError::new(code::INTERNAL_ERROR, too_many.to_string());
                            Some(RpcResponse::error(request.era, Some(&request.id), error))
                        }
                    }
                }
                Err(response) => Some(response),
            }
        }
    };
    if let Some(response) = response {
        // The client may be gone.
        drop(session.out.send(response.to_line()).await);
    }
    responses::accepted()
}

/// Counts a call, here and at all replicas together.
async fn begin_call(
    app: &App,
    key: Option<impl Fn() -> CallerKey>,
) -> Result<Option<CallPlace>, TooMany> {
    let Some(key) = key else { return Ok(None) };
    let place = app.call_limits.begin(&key)?;
    if let Some(shared) = &app.shared_limits {
        shared.begin(&key()).await?;
    }
    Ok(place)
}

fn start(
    app: &Arc<App>,
    session: &Arc<HttpSession>,
    (caller, call): (Caller, Option<CallPlace>),
    mut request: ValidRequest,
) {
    let out = session.out.clone();
    let channel = request.channel(Some(&session.state), Outbox::Shared(out.clone()));
    let counter = call.as_ref().map(|place| place.counter(app.shared_limits.as_ref()));
    let channel = Arc::new(channel.counting(counter));
    let reply_to = ReplyTo::of(&request);
    let serving = serving::serve_in_session(Arc::clone(app), session, caller, channel, request);
    let cut = app.cut.clone();
    app.tasks.spawn(boxed(async move {
        let response = match cut.run_until_cancelled(serving).await {
            Some(response) => response,
            None => Some(reply_to.cut_off()),
        };
        if let Some(response) = response {
            // The client may be gone.
            drop(out.send(response.to_line()).await);
        }
        drop(call);
    }));
}
