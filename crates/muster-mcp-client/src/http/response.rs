//! HTTP responses: their media type, their body, and the meaning of a failure status.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use muster_mcp::wire::{Message, RpcError};
use serde_json::value::RawValue;

use super::{
    connection::Exchange,
    pool::{Pool, challenge},
};
use crate::{
    error::{MAX_IN_MEMORY, TransportError, too_large},
    message::request_number,
    spool::{Payload, SPOOL_THRESHOLD, Spool, SpoolFile},
};

/// The media type of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MediaType {
    /// `application/json`: one message.
    Json,
    /// `text/event-stream`: events.
    EventStream,
    /// Any other.
    Other(String),
}

impl MediaType {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let essence = value.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        match essence {
            _ if essence.eq_ignore_ascii_case("application/json") => Self::Json,
            _ if essence.eq_ignore_ascii_case("text/event-stream") => Self::EventStream,
            _ => Self::Other(essence.to_owned()),
        }
    }
}

/// Reads a whole body. A long one is spooled if there is a spool.
pub(super) async fn read_payload(
    body: &mut Incoming,
    spool: Option<&Arc<Spool>>,
) -> Result<Payload, TransportError> {
    let mut memory = BytesMut::new();
    let mut file: Option<SpoolFile> = None;
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|err| TransportError::Lost(format!("the answer broke off: {err}")))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if memory.is_empty() && file.is_none() && body.is_end_stream() {
            return Ok(Payload::Memory(chunk));
        }
        if file.is_none()
            && memory.len() + chunk.len() > SPOOL_THRESHOLD
            && let Some(mut created) = spool.and_then(Spool::create)
        {
            append(&mut created, &std::mem::take(&mut memory))?;
            file = Some(created);
        }
        match &mut file {
            Some(file) => append(file, &chunk)?,
            None if memory.len() + chunk.len() > MAX_IN_MEMORY => {
                return Err(TransportError::Invalid(too_large(MAX_IN_MEMORY as u64)));
            }
            None => memory.extend_from_slice(&chunk),
        }
    }
    Ok(file.map_or_else(|| Payload::Memory(memory.freeze()), Payload::Spooled))
}

fn append(file: &mut SpoolFile, bytes: &[u8]) -> Result<(), TransportError> {
    file.write(bytes).map_err(|error| TransportError::Invalid(error.to_string()))
}

/// The id that the response to a request must repeat.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestId<'a> {
    /// One of our own, which some servers return as a string.
    Number(u64),
    /// A client's, as written.
    Raw(&'a RawValue),
}

impl RequestId<'_> {
    pub(crate) fn matches(self, id: &RawValue) -> bool {
        match self {
            Self::Number(number) => request_number(id) == Some(number),
            Self::Raw(raw) => raw.get() == id.get(),
        }
    }
}

/// The meaning of a response with a failure status.
#[derive(Debug)]
pub(crate) enum Rejection {
    /// The body is the JSON-RPC response to the request, almost always an error.
    Response { status: u16, body: Bytes },
    /// The request failed.
    Error(TransportError),
}

/// Reads a response with a failure status and releases its connection. `id` is that of the request,
/// `in_session` whether it named a session.
pub(crate) async fn rejection(
    pool: &Pool,
    exchange: Exchange,
    id: Option<RequestId<'_>>,
    in_session: bool,
) -> Rejection {
    let status = exchange.head().status();
    if status == StatusCode::UNAUTHORIZED {
        let challenge = challenge(exchange.head().headers());
        return Rejection::Error(TransportError::Unauthorized { challenge });
    }
    if status.is_redirection() {
        let status = status.as_u16();
        let text = format!("it redirects (status {status}), which is not followed");
        return Rejection::Error(TransportError::Invalid(text));
    }
    let body = exchange.read_in_memory(pool).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let (is_own, error) = match Message::parse_lenient(&text) {
        Some(Message::Response { id: own, outcome }) => {
            (id.is_some_and(|id| id.matches(own)), outcome.err().map(RpcError::parse))
        }
        Some(_) | None => (false, None),
    };
    let is_gone = match status {
        StatusCode::NOT_FOUND => in_session,
        // Not what the protocol prescribes, but what many servers do.
        StatusCode::BAD_REQUEST => in_session && !is_own,
        _ => false,
    };
    let status = status.as_u16();
    match error {
        _ if is_gone => Rejection::Error(TransportError::SessionGone { status }),
        _ if is_own => Rejection::Response { status, body: body.clone() },
        Some(error) => Rejection::Error(TransportError::Refused { status: Some(status), error }),
        None => Rejection::Error(TransportError::Status { status }),
    }
}
