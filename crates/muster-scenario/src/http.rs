//! One HTTP request at a time, each on a connection of its own, and events as they stream in.
//!
//! A connection lasts as long as its response, so nothing that went wrong once can spoil what comes
//! after it.

pub(crate) mod events;

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

/// A connection on this machine takes no longer, unless nobody accepts.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no response.
#[derive(Debug, Error)]
pub(crate) enum Broken {
    #[error("cannot connect to localhost:{port}: {source}")]
    Unreachable { port: u16, source: std::io::Error },
    #[error("the connection broke: {0}")]
    Cut(#[from] hyper::Error),
    #[error("the request cannot be written: {0}")]
    Unwritten(#[from] http::Error),
}

/// A response whose body is still to be read.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Incoming,
    /// Drives the connection, and ends with the response.
    _connection: JoinSet<()>,
}

/// Sends a request to a port of this machine.
pub(crate) async fn send(
    port: u16,
    request: http::request::Builder,
    body: String,
) -> Result<Response, Broken> {
    let stream = connect(port).await.map_err(|source| Broken::Unreachable { port, source })?;
    let request: Request<Full<Bytes>> = request
        .header(header::HOST, format!("localhost:{port}"))
        .body(Full::new(Bytes::from(body)))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        // What goes wrong here shows where the response is read.
        let _ended = connection.await;
    });
    let response = sender.send_request(request).await?;
    let (parts, body) = response.into_parts();
    Ok(Response { status: parts.status, headers: parts.headers, body, _connection: driver })
}

/// Connects as `localhost` is meant: whichever of the two families listens.
pub(crate) async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let mut failure = None;
    for address in [
        SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
    ] {
        match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
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
    pub(crate) fn streams(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// The whole body.
    pub(crate) async fn text(self) -> Result<String, Broken> {
        let Self { body, _connection, .. } = self;
        let bytes = body.collect().await?.to_bytes();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
