//! One request over one connection of its own.

use std::{
    error::Error as _,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    client::conn::http1,
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;

use super::{Answer, DialError, Dialer, Outgoing, Target, target::Host};

/// How long one number may take to answer before the next is tried.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

const AGENT: &str = concat!("muster/", env!("CARGO_PKG_VERSION"));

impl Dialer {
    pub(super) async fn exchange(
        &self,
        target: &Target,
        addresses: &[IpAddr],
        outgoing: &Outgoing,
    ) -> Result<Answer, DialError> {
        let stream = connect(target, addresses).await?;
        if !target.secure {
            return over(TokioIo::new(stream), target, outgoing).await;
        }
        let untrusted = |reason: String| DialError::Untrusted { host: host(target), reason };
        let config = self.trust.config().map_err(untrusted)?;
        let name = match &target.host {
            Host::Name(name) => {
                ServerName::try_from(name.clone()).map_err(|err| untrusted(err.to_string()))?
            }
            Host::Number(number) => ServerName::IpAddress((*number).into()),
        };
        let connecting = TlsConnector::from(Arc::clone(&config)).connect(name, stream);
        let stream = connecting.await.map_err(|err| no_trust(target, &err))?;
        over(TokioIo::new(stream), target, outgoing).await
    }
}

/// Connects to the numbers that were judged, in their order, until one answers.
async fn connect(target: &Target, addresses: &[IpAddr]) -> Result<TcpStream, DialError> {
    let mut reason = "the name has no address".to_owned();
    for address in addresses {
        let address = SocketAddr::new(*address, target.port);
        match timeout(CONNECT_LIMIT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(err)) if err.kind() == io::ErrorKind::ConnectionRefused => {
                "connection refused".clone_into(&mut reason);
            }
            Ok(Err(err)) => reason = err.to_string(),
            Err(_) => "connection timed out".clone_into(&mut reason),
        }
    }
    Err(DialError::Unreachable { host: host(target), reason })
}

async fn over(
    io: impl Read + Write + Send + Unpin + 'static,
    target: &Target,
    outgoing: &Outgoing,
) -> Result<Answer, DialError> {
    let broken =
        |err: &hyper::Error| DialError::Broken { host: host(target), reason: innermost(err) };
    let (mut sender, connection) = http1::handshake(io).await.map_err(|err| broken(&err))?;
    let request = request(target, outgoing);
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|err| broken(&err))?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, outgoing.max_body).collect().await.map_err(|err| {
            if err.is::<LengthLimitError>() {
                DialError::TooLarge { host: host(target), limit: outgoing.max_body }
            } else {
                DialError::Broken { host: host(target), reason: "it broke off".to_owned() }
            }
        })?;
        let (body, url) = (body.to_bytes(), target.as_str().to_owned());
        Ok(Answer { status: head.status, headers: head.headers, body, url })
    };
    let mut exchange = std::pin::pin!(exchange);
    // The connection is driven here and not in a task of its own: who drops the request, drops it too.
    tokio::select! {
        answer = exchange.as_mut() => answer,
        _ = connection => exchange.await,
    }
}

fn request(target: &Target, outgoing: &Outgoing) -> Request<Full<bytes::Bytes>> {
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = target.path.clone();
    let headers = request.headers_mut();
    *headers = outgoing.headers.clone();
    headers.insert(header::HOST, target.authority.clone());
    headers.insert(header::USER_AGENT, HeaderValue::from_static(AGENT));
    request
}

fn no_trust(target: &Target, err: &io::Error) -> DialError {
    let reason = match err.get_ref() {
        Some(source) => source.source().map_or_else(|| source.to_string(), ToString::to_string),
        None => err.to_string(),
    };
    DialError::Untrusted { host: host(target), reason }
}

fn innermost(err: &hyper::Error) -> String {
    err.source().map_or_else(|| err.to_string(), ToString::to_string)
}

fn host(target: &Target) -> String {
    target.host().to_owned()
}
