//! The HTTP+SSE transport: a long-lived event stream, and an endpoint for messages.

use std::{io, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::mpsc, time::sleep};

use muster_core::backend::boxed;

use super::{
    Body, FLUSH_DELAY, RemoteState, STREAM_CAPACITY, SessionStream, Socket, aborted, empty, event,
    new_session, read_body, reset_on_close, response,
};
use crate::{
    mock::{engine::PlannedReply, fault::FaultKind, stdio::GARBAGE},
    wire,
};

pub(super) async fn respond(
    state: Arc<RemoteState>,
    request: Request<Incoming>,
    socket: Socket,
) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, "/sse") => open(&state, socket).await,
        (&Method::POST, "/message") => {
            let session = session_of(request.uri().query().unwrap_or_default());
            let stream = session.and_then(|session| state.sessions.borrow().get(&session).cloned());
            let Some(stream) = stream else { return empty(StatusCode::NOT_FOUND) };
            let text = read_body(request).await?;
            post(&state, &text, stream)
        }
        (_, "/sse" | "/message") => empty(StatusCode::METHOD_NOT_ALLOWED),
        _ => empty(StatusCode::NOT_FOUND),
    }
}

async fn open(state: &Arc<RemoteState>, socket: Socket) -> io::Result<Response<Body>> {
    let (sender, chunks) = mpsc::channel(STREAM_CAPACITY);
    let session = new_session();
    let address = format!("/message?sessionId={session}");
    sender.send(Ok(event("endpoint", &address))).await.map_err(io::Error::other)?;
    state.notify_tool_changes(sender.clone());
    state.open(session, SessionStream { sender: Some(sender), socket: Arc::downgrade(&socket) });
    response(StatusCode::OK, "text/event-stream", Body::Stream(chunks))
}

fn session_of(query: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == "sessionId").map(|(_, value)| value.to_owned())
}

/// Accepts a message; its response is sent on the stream.
fn post(state: &RemoteState, text: &str, stream: SessionStream) -> io::Result<Response<Body>> {
    let Some(message) = wire::parse(text) else { return empty(StatusCode::BAD_REQUEST) };
    if let Some((id, plan)) = state.mock.handle(message) {
        if let Some(FaultKind::Status(status)) = plan.fault {
            let failed = StatusCode::INTERNAL_SERVER_ERROR;
            return empty(StatusCode::from_u16(status).unwrap_or(failed));
        }
        state.tasks.spawn(boxed(send(id, plan, stream)));
    }
    empty(StatusCode::ACCEPTED)
}

async fn send(id: Value, plan: PlannedReply, stream: SessionStream) {
    let SessionStream { sender: Some(sender), socket } = stream else { return };
    sleep(plan.delay).await;
    let answer = event("message", &wire::answer(&id, &plan.outcome));
    let chunks: Vec<io::Result<Bytes>> = match plan.fault {
        None | Some(FaultKind::Delay(_)) => vec![Ok(answer)],
        Some(FaultKind::Garbage) => vec![Ok(event("message", GARBAGE))],
        Some(FaultKind::Hang | FaultKind::Status(_)) => Vec::new(),
        Some(FaultKind::Half) => vec![Ok(answer.slice(..answer.len() / 2)), Err(aborted())],
        Some(FaultKind::Reset) => {
            if let Some(socket) = socket.upgrade() {
                reset_on_close(&socket);
            }
            vec![Err(aborted())]
        }
    };
    for chunk in chunks {
        if chunk.is_err() {
            sleep(FLUSH_DELAY).await;
        }
        if sender.send(chunk).await.is_err() {
            return;
        }
    }
}
