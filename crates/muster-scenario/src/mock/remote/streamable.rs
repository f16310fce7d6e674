//! The streamable HTTP transport: one endpoint, a response per request, an optional stream.

use std::{
    future::pending,
    io,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::sleep};

use super::{
    Body, RemoteState, STREAM_CAPACITY, SessionStream, Socket, aborted, empty, new_session,
    read_body, reset_on_close, response,
};
use crate::{
    mock::{engine::PlannedReply, fault::FaultKind, stdio::GARBAGE},
    oauth::{jwt, resource_guard::bearer},
    wire::{self, Message},
};

const SESSION: &str = "mcp-session-id";

pub(super) async fn respond(
    state: Arc<RemoteState>,
    request: Request<Incoming>,
    socket: Socket,
) -> io::Result<Response<Body>> {
    if request.uri().path() != "/mcp" {
        return empty(StatusCode::NOT_FOUND);
    }
    let session = request.headers().get(SESSION).and_then(|value| value.to_str().ok());
    let session = session.map(str::to_owned);
    // The session is unknown, or from before a restart.
    if session.as_ref().is_some_and(|session| !state.has_session(session)) {
        return empty(StatusCode::NOT_FOUND);
    }
    match *request.method() {
        Method::POST => {
            let token = request.headers().get(header::AUTHORIZATION);
            let token = token.and_then(|value| value.to_str().ok()).and_then(bearer);
            let token = token.map(str::to_owned);
            let text = read_body(request).await?;
            post(&state, &text, token.as_deref(), session, &socket).await
        }
        Method::GET => {
            let (sender, chunks) = mpsc::channel(STREAM_CAPACITY);
            state.notify_tool_changes(sender);
            response(StatusCode::OK, "text/event-stream", Body::Stream(chunks))
        }
        Method::DELETE => {
            if let Some(session) = session {
                state.sessions.send_modify(|sessions| drop(sessions.remove(&session)));
            }
            empty(StatusCode::OK)
        }
        _ => empty(StatusCode::METHOD_NOT_ALLOWED),
    }
}

async fn post(
    state: &RemoteState,
    text: &str,
    token: Option<&str>,
    session: Option<String>,
    socket: &Socket,
) -> io::Result<Response<Body>> {
    let Some(message) = wire::parse(text) else { return empty(StatusCode::BAD_REQUEST) };
    let echoes = state.mock.echoes_token(&message);
    let begins = matches!(&message, Message::Request { method, .. } if method == "initialize");
    let Some((id, mut plan)) = state.mock.handle(message) else {
        return empty(StatusCode::ACCEPTED);
    };
    if echoes {
        plan.outcome = plan.outcome.map(|result| with_token(&result, token.unwrap_or_default()));
    }
    let mut answer = send(&id, plan, socket).await?;
    if begins && session.is_none() {
        let session = new_session();
        if let Ok(value) = session.parse() {
            answer.headers_mut().insert(SESSION, value);
        }
        state.open(session, SessionStream { sender: None, socket: Weak::new() });
    }
    Ok(answer)
}

/// A result beside the token that it was requested with.
fn with_token(result: &Value, token: &str) -> Value {
    let text = result.pointer("/content/0/text").and_then(Value::as_str).unwrap_or_default();
    let response: Value = serde_json::from_str(text).unwrap_or_else(|_| text.into());
    let claims = jwt::claims(token);
    let echo = json!({"response": response, "received_token": token, "claims": claims});
    json!({"content": [{"type": "text", "text": echo.to_string()}]})
}

async fn send(id: &Value, plan: PlannedReply, socket: &Socket) -> io::Result<Response<Body>> {
    const JSON: &str = "application/json";
    sleep(plan.delay).await;
    let answer = wire::answer(id, &plan.outcome);
    match plan.fault {
        None | Some(FaultKind::Delay(_)) => response(StatusCode::OK, JSON, answer.into()),
        Some(FaultKind::Garbage) => response(StatusCode::OK, JSON, GARBAGE.to_owned().into()),
        Some(FaultKind::Hang) => pending().await,
        Some(FaultKind::Status(status)) => {
            empty(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
        }
        Some(FaultKind::Half) => {
            let length = answer.len();
            let half = Bytes::from(answer).slice(..length / 2);
            let mut truncated = response(StatusCode::OK, JSON, Body::truncated(half))?;
            truncated.headers_mut().insert(header::CONTENT_LENGTH, length.into());
            Ok(truncated)
        }
        Some(FaultKind::Reset) => {
            reset_on_close(socket);
            Err(aborted())
        }
    }
}
