//! The older transport: a stream that stays open, and an address where messages are left for it.

use std::{io, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{sync::mpsc, time::sleep};

use super::{
    Body, LEAVING, Shared, Socket, Stream, WAITING, cut, empty, event, new_session, reset_at_end,
    response, text_of,
};
use crate::{
    mock::{engine::Plan, fault::FaultKind, stdio::GARBAGE},
    wire,
};

pub(super) async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    socket: Socket,
) -> io::Result<Response<Body>> {
    let path = request.uri().path().to_owned();
    match (request.method(), path.as_str()) {
        (&Method::GET, "/sse") => open(&shared, socket).await,
        (&Method::POST, "/message") => {
            let session = session_of(request.uri().query().unwrap_or_default());
            let stream =
                session.and_then(|session| shared.sessions.borrow().get(&session).cloned());
            let Some(stream) = stream else { return empty(StatusCode::NOT_FOUND) };
            let text = text_of(request).await?;
            post(&shared, &text, stream)
        }
        (_, "/sse" | "/message") => empty(StatusCode::METHOD_NOT_ALLOWED),
        _ => empty(StatusCode::NOT_FOUND),
    }
}

async fn open(shared: &Arc<Shared>, socket: Socket) -> io::Result<Response<Body>> {
    let (sender, chunks) = mpsc::channel(WAITING);
    let session = new_session();
    let address = format!("/message?sessionId={session}");
    sender.send(Ok(event("endpoint", &address))).await.map_err(io::Error::other)?;
    shared.announce(sender.clone());
    shared.open(session, Stream { sender: Some(sender), socket: Arc::downgrade(&socket) });
    response(StatusCode::OK, "text/event-stream", Body::Stream(chunks))
}

fn session_of(query: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == "sessionId").map(|(_, value)| value.to_owned())
}

/// Takes a message; its answer comes on the stream.
fn post(shared: &Shared, text: &str, stream: Stream) -> io::Result<Response<Body>> {
    let Some(message) = wire::parse(text) else { return empty(StatusCode::BAD_REQUEST) };
    if let Some((id, plan)) = shared.mock.handle(message) {
        if let Some(FaultKind::Status(status)) = plan.fault {
            let failed = StatusCode::INTERNAL_SERVER_ERROR;
            return empty(StatusCode::from_u16(status).unwrap_or(failed));
        }
        shared.tasks.spawn(send(id, plan, stream));
    }
    empty(StatusCode::ACCEPTED)
}

async fn send(id: Value, plan: Plan, stream: Stream) {
    let Stream { sender: Some(sender), socket } = stream else { return };
    sleep(plan.delay).await;
    let answer = event("message", &wire::answer(&id, &plan.outcome));
    let chunks: Vec<io::Result<Bytes>> = match plan.fault {
        None | Some(FaultKind::Delay(_)) => vec![Ok(answer)],
        Some(FaultKind::Garbage) => vec![Ok(event("message", GARBAGE))],
        Some(FaultKind::Hang | FaultKind::Status(_)) => Vec::new(),
        Some(FaultKind::Half) => vec![Ok(answer.slice(..answer.len() / 2)), Err(cut())],
        Some(FaultKind::Reset) => {
            if let Some(socket) = socket.upgrade() {
                reset_at_end(&socket);
            }
            vec![Err(cut())]
        }
    };
    for chunk in chunks {
        if chunk.is_err() {
            sleep(LEAVING).await;
        }
        if sender.send(chunk).await.is_err() {
            return;
        }
    }
}
