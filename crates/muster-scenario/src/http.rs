//! A minimal HTTP client: each request has a connection of its own.
//!
//! A connection lives as long as its response, so one failure cannot affect later requests.

pub(crate) mod events;

use muster_core::backend::boxed;
use std::{
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::{net::TcpStream, task::JoinSet, time::timeout};

/// A loopback connection takes no longer, unless the server does not accept.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no response.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("cannot connect to localhost:{port}: {source}")]
    Connect { port: u16, source: std::io::Error },
    #[error("the connection broke: {0}")]
    Connection(#[from] hyper::Error),
    #[error("the request cannot be written: {0}")]
    Request(#[from] http::Error),
}

/// A response whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
    /// Drives the connection; dropped with the response.
    _connection: JoinSet<()>,
}

/// Sends a request to a port on localhost.
pub(crate) async fn send(
    port: u16,
    request: http::request::Builder,
    body: String,
) -> Result<Response, HttpError> {
    let stream = connect(port).await.map_err(|source| HttpError::Connect { port, source })?;
    let request: Request<Full<Bytes>> = request
        .header(header::HOST, format!("localhost:{port}"))
        .body(Full::new(Bytes::from(body)))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(boxed(async move {
        // Errors surface where the response is read.
        let _ended = connection.await;
    }));
    let response = sender.send_request(request).await?;
    let (parts, body) = response.into_parts();
    Ok(Response { status: parts.status, headers: parts.headers, body, _connection: driver })
}

/// Connects to `localhost` over IPv4 or IPv6, whichever listens.
pub(crate) async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let mut failure = None;
    for address in [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    ] {
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(err)) => failure = failure.or(Some(err)),
            Err(_) => failure = failure.or(Some(std::io::ErrorKind::TimedOut.into())),
        }
    }
    Err(failure.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into()))
}

impl Response {
    /// The value of a header, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Whether the body is a stream of events.
    pub(crate) fn is_event_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body.
    pub(crate) async fn text(self) -> Result<String, HttpError> {
        let Self { body, _connection, .. } = self;
        let bytes = body.collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
