//! The event stream of one watch, parsed line by line.

use std::time::Duration;

use http::StatusCode;
use muster_net::HttpStream;
use serde_json::Value as Json;
use tokio::time::timeout;

use crate::api::{ApiError, refusal};

/// The timeout in seconds after which the API server ends a watch, so that connections are rebalanced between its
/// replicas.
pub(crate) const WATCH_SECONDS: u64 = 290;
/// How long a watch may be silent. After that it is broken: the API server would have ended it.
const SILENCE: Duration = Duration::from_secs(WATCH_SECONDS + 30);
/// The maximum size of an event.
const MAX_EVENT: usize = 8 * 1024 * 1024;

/// The type of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WatchEventKind {
    /// The object was added or changed.
    Put,
    /// The object was deleted.
    Deleted,
    /// Nothing happened: the object only has a version to resume from.
    Bookmark,
}

/// An open watch.
#[derive(Debug)]
pub(crate) struct WatchStream {
    stream: HttpStream,
    buffer: Vec<u8>,
}

impl WatchStream {
    pub(crate) const fn new(stream: HttpStream) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Returns the next event and its object; `None` at the end of the watch.
    pub(crate) async fn next(&mut self) -> Result<Option<(WatchEventKind, Json)>, ApiError> {
        loop {
            while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                if !line.trim_ascii().is_empty() {
                    return event(&line).map(Some);
                }
            }
            if self.buffer.len() > MAX_EVENT {
                return Err(ApiError::Refused(format!("an event has more than {MAX_EVENT} bytes")));
            }
            let part = timeout(SILENCE, self.stream.next()).await;
            let silent = |_| ApiError::Unavailable("the watch is silent".to_owned());
            match part.map_err(silent)?? {
                Some(part) => self.buffer.extend_from_slice(&part),
                None => return Ok(None),
            }
        }
    }
}

fn event(line: &[u8]) -> Result<(WatchEventKind, Json), ApiError> {
    let mut event: Json = serde_json::from_slice(line).map_err(|error| {
        ApiError::Unavailable(format!("a watch event is not valid JSON: {error}"))
    })?;
    let object = event.get_mut("object").map(Json::take).unwrap_or_default();
    let happened = match event.get("type").and_then(Json::as_str).unwrap_or_default() {
        "ERROR" => {
            let code = object.get("code").and_then(Json::as_u64).unwrap_or_default();
            let status = u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok());
            let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            return Err(refusal(status, object.to_string().as_bytes()));
        }
        "BOOKMARK" => WatchEventKind::Bookmark,
        "DELETED" => WatchEventKind::Deleted,
        _ => WatchEventKind::Put,
    };
    Ok((happened, object))
}
