//! Answers over HTTP, read as far as they are not events.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::timeout;

use super::{
    dial::Sender,
    disk::{Disk, Full, HELD, Spill},
    failure::{Failure, LARGEST, too_large},
    inbox::Inbox,
    message::Message,
    pool::{Pool, challenge},
};

/// The largest answer taken.
const LIMIT: usize = LARGEST;
/// How long the end of a stream is waited for once its answer is there.
const END_LIMIT: Duration = Duration::from_secs(2);

/// What kind of answer it is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One document.
    Json,
    /// A stream of events.
    Events,
    /// Something else.
    Other(String),
}

impl Kind {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        match kind {
            "application/json" => Self::Json,
            _ if kind.eq_ignore_ascii_case("application/json") => Self::Json,
            _ if kind.eq_ignore_ascii_case("text/event-stream") => Self::Events,
            _ => Self::Other(kind.to_owned()),
        }
    }
}

/// Reads a whole answer.
pub(super) async fn whole(body: &mut Incoming) -> Result<Bytes, Failure> {
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|err| broke_off(&err))?;
        let Ok(chunk) = frame.into_data() else { continue };
        if all.is_empty() && body.is_end_stream() {
            return Ok(chunk);
        }
        if all.len() + chunk.len() > LIMIT {
            return Err(Failure::Broken(too_large(LIMIT as u64)));
        }
        all.extend_from_slice(&chunk);
    }
    Ok(all.freeze())
}

/// A whole answer, wherever it is.
#[derive(Debug)]
pub(super) enum Document {
    /// In memory.
    Short(Bytes),
    /// On disk.
    Long(Spill),
}

impl Document {
    /// Reads a whole answer; a long one goes to disk.
    pub(super) async fn read(body: &mut Incoming, disk: &Arc<Disk>) -> Result<Self, Failure> {
        let mut all = BytesMut::new();
        let mut long: Option<Spill> = None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|err| broke_off(&err))?;
            let Ok(chunk) = frame.into_data() else { continue };
            if all.is_empty() && long.is_none() && body.is_end_stream() {
                return Ok(Self::Short(chunk));
            }
            if long.is_none() && all.len() + chunk.len() > HELD {
                long = disk.begin();
                if let Some(spill) = &mut long {
                    spill.write(&std::mem::take(&mut all)).map_err(|Full| no_room(disk))?;
                }
            }
            match &mut long {
                Some(spill) => spill.write(&chunk).map_err(|Full| no_room(disk))?,
                None if all.len() + chunk.len() > LIMIT => {
                    return Err(Failure::Broken(too_large(LIMIT as u64)));
                }
                None => all.extend_from_slice(&chunk),
            }
        }
        Ok(long.map_or_else(|| Self::Short(all.freeze()), Self::Long))
    }
}

fn broke_off(err: &hyper::Error) -> Failure {
    Failure::Lost(format!("the answer broke off: {err}"))
}

fn no_room(disk: &Disk) -> Failure {
    Failure::Broken(too_large(disk.most()))
}

/// Keeps a connection whose answer has been read. The end of a stream may come a moment later.
pub(super) async fn retire<P>(inbox: &Inbox, pool: &Arc<P>, mut body: Incoming, sender: Sender)
where
    P: AsRef<Pool> + Send + Sync + 'static,
{
    let ended = poll_fn(|cx| match Pin::new(&mut body).poll_frame(cx) {
        Poll::Ready(None) => Poll::Ready(true),
        Poll::Ready(Some(_)) | Poll::Pending => Poll::Ready(false),
    });
    if ended.await {
        return (**pool).as_ref().give_back(sender);
    }
    let pool = Arc::clone(pool);
    inbox.tasks.spawn(async move {
        let end = async { while let Some(Ok(_)) = body.frame().await {} };
        if timeout(END_LIMIT, end).await.is_ok() {
            (*pool).as_ref().give_back(sender);
        }
    });
}

/// What an answer without success says. `id` is that of the request, `in_session` whether it was part
/// of one. The connection is kept.
pub(super) async fn refusal(
    pool: &Pool,
    (response, sender): (Response<Incoming>, Sender),
    id: Option<u64>,
    in_session: bool,
) -> Failure {
    let status = response.status();
    if status == StatusCode::UNAUTHORIZED {
        return Failure::Unauthorized { challenge: challenge(response.headers()) };
    }
    if status.is_redirection() {
        let status = status.as_u16();
        return Failure::Broken(format!("it redirects (status {status}), which is not followed"));
    }
    let body = match whole(&mut response.into_body()).await {
        Ok(body) => {
            pool.give_back(sender);
            body
        }
        Err(_) => Bytes::new(),
    };
    let text = String::from_utf8_lossy(&body);
    let (found, error) = match Message::parse(&text) {
        Some(Message::Answer { id, answer: Err(error) }) => (id, Some(error)),
        Some(_) | None => (None, None),
    };
    let own = id.is_some() && found == id;
    let gone = match status {
        StatusCode::NOT_FOUND => in_session,
        // Not what the protocol says, but what many servers do.
        StatusCode::BAD_REQUEST => in_session && !own,
        _ => false,
    };
    let status = status.as_u16();
    match error {
        _ if gone => Failure::SessionGone { status },
        Some(error) => Failure::Refused { status: Some(status), error },
        None => Failure::Status { status },
    }
}
