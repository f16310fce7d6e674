//! A response that is read while it arrives.

use std::{fmt, pin::Pin};

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::Incoming,
    client::conn::http1::{self, Connection},
};
use hyper_util::rt::TokioIo;

use crate::{HttpError, NetStream, Url, http_client::broken};

/// A connection, polled with the body of its response instead of in a separate task.
type Driven = Pin<Box<Connection<TokioIo<NetStream>, Full<Bytes>>>>;

/// A response whose body is still arriving. Dropping it closes the connection.
pub struct HttpStream {
    status: StatusCode,
    url: Url,
    body: Incoming,
    /// `None` once it has ended.
    connection: Option<Driven>,
}

impl fmt::Debug for HttpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpStream").field("status", &self.status).finish_non_exhaustive()
    }
}

impl HttpStream {
    /// Sends a request over a new connection, and waits for the head of the response.
    pub(crate) async fn open(
        stream: NetStream,
        url: &Url,
        request: Request<Full<Bytes>>,
    ) -> Result<Self, HttpError> {
        let broken = |err: hyper::Error| broken(url, &err);
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        let mut connection = Box::pin(connection);
        let mut sending = std::pin::pin!(sender.send_request(request));
        let (response, connection) = tokio::select! {
            response = sending.as_mut() => (response, Some(connection)),
            _ = connection.as_mut() => (sending.await, None),
        };
        let (head, body) = response.map_err(broken)?.into_parts();
        Ok(Self { status: head.status, url: url.clone(), body, connection })
    }

    /// The status.
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// The next part of the body; `None` at its end. Cancel-safe.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = match &mut self.connection {
                None => self.body.frame().await,
                Some(connection) => {
                    let frame = self.body.frame();
                    tokio::select! {
                        biased;
                        frame = frame => frame,
                        _ = connection.as_mut() => {
                            self.connection = None;
                            continue;
                        }
                    }
                }
            };
            match frame {
                None => return Ok(None),
                Some(Err(err)) => return Err(broken(&self.url, &err)),
                // Trailers are not needed here.
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}
