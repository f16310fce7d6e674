//! Opens connections: address checks, connect timeouts, keepalive, TLS handshakes.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use muster_core::connect::CertificateProblem;
use rustix::net::sockopt;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tracing::debug;

use crate::{
    AddressPolicy, NetStream, Resolve, SystemResolver, TlsConfig, TlsError, TlsSource, Url,
    UrlError,
};

/// How long one address may take to accept a connection before the next is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Keepalive settings by which a vanished peer is noticed within a minute.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED_MILLIS: u32 = 60_000;

/// Why no connection was opened. The texts name hosts, never whole URLs: those may hold secrets.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DialError {
    /// The address policy refuses the URL or an address that its host resolved to.
    #[error(transparent)]
    Refused(#[from] UrlError),
    /// The host cannot be resolved or does not accept connections.
    #[error("`{host}` cannot be reached: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
    },
    /// The TLS handshake failed.
    #[error("no TLS with `{host}`: {reason}")]
    Tls {
        /// The host.
        host: String,
        /// The reason.
        reason: String,
        /// Whether the connection merely broke during the handshake, so that a retry may succeed.
        interrupted: bool,
        /// What is wrong with the server's certificate, if that is the reason.
        certificate: Option<CertificateProblem>,
    },
    /// TLS cannot be set up on our side.
    #[error(transparent)]
    TlsConfig(#[from] TlsError),
}

/// Opens connections to checked addresses, with TLS where the URL asks for it.
#[derive(Clone)]
pub struct Dialer {
    tls: Arc<dyn TlsSource>,
    resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

impl Dialer {
    /// A dialer that verifies servers as `tls` says: a [`TrustStore`](crate::TrustStore) or an
    /// [`MtlsIdentity`](crate::MtlsIdentity).
    pub fn new(tls: Arc<dyn TlsSource>) -> Self {
        Self { tls, resolver: Arc::new(SystemResolver) }
    }

    /// Replaces the system's resolver.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolve>) -> Self {
        Self { resolver, ..self }
    }

    /// Connects to the host of a URL, if the policy allows it.
    pub async fn connect(&self, url: &Url, policy: AddressPolicy) -> Result<NetStream, DialError> {
        policy.check_url(url)?;
        let addresses = self.resolve(url, policy).await?;
        let stream = connect(url, &addresses).await?;
        if let Err(err) = set_options(&stream) {
            debug!("cannot set socket options for `{}`: {err}", url.host());
        }
        if !url.is_secure() {
            return Ok(NetStream::Plain(stream));
        }
        let name = match url.ip() {
            Some(ip) => ServerName::IpAddress(ip.into()),
            None => ServerName::try_from(url.host().to_owned()).map_err(|err| DialError::Tls {
                host: url.host().to_owned(),
                reason: err.to_string(),
                interrupted: false,
                certificate: None,
            })?,
        };
        let TlsConfig(config) = self.tls.tls_config()?;
        let handshake = TlsConnector::from(config).connect(name, stream).await;
        let stream = handshake.map_err(|err| handshake_error(url, &err))?;
        Ok(NetStream::Tls(Box::new(stream)))
    }

    /// Resolves the host once, and checks every address. A single forbidden address refuses the host, because a name
    /// server that returns one cannot be trusted with the others.
    async fn resolve(&self, url: &Url, policy: AddressPolicy) -> Result<Vec<IpAddr>, DialError> {
        if let Some(ip) = url.ip() {
            return Ok(vec![ip]);
        }
        let found = self.resolver.resolve(url.host()).await;
        let found = found.map_err(|err| unreachable(url, err.to_string()))?;
        for ip in &found {
            policy.check_ip(url, *ip)?;
        }
        Ok(found)
    }
}

/// Tries the addresses in order until one accepts.
async fn connect(url: &Url, addresses: &[IpAddr]) -> Result<TcpStream, DialError> {
    let mut reason = "the name has no address".to_owned();
    for address in addresses {
        let address = SocketAddr::new(*address, url.port());
        match timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(err)) if err.kind() == io::ErrorKind::ConnectionRefused => {
                "connection refused".clone_into(&mut reason);
            }
            Ok(Err(err)) if err.kind() != io::ErrorKind::TimedOut => reason = err.to_string(),
            Ok(Err(_)) | Err(_) => "connection timed out".clone_into(&mut reason),
        }
    }
    Err(unreachable(url, reason))
}

fn set_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED_MILLIS)?;
    Ok(())
}

fn unreachable(url: &Url, reason: String) -> DialError {
    DialError::Unreachable { host: url.host().to_owned(), reason }
}

fn handshake_error(url: &Url, err: &io::Error) -> DialError {
    let source = err.get_ref();
    let reason = source.map_or_else(
        || err.to_string(),
        |source| source.source().map_or_else(|| source.to_string(), ToString::to_string),
    );
    let tls_error = source.and_then(|source| source.downcast_ref::<rustls::Error>());
    let certificate = tls_error.and_then(certificate_problem);
    DialError::Tls {
        host: url.host().to_owned(),
        reason,
        interrupted: tls_error.is_none(),
        certificate,
    }
}

fn certificate_problem(error: &rustls::Error) -> Option<CertificateProblem> {
    use rustls::CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext,
    };
    let rustls::Error::InvalidCertificate(error) = error else { return None };
    Some(match error {
        Expired | ExpiredContext { .. } => CertificateProblem::Expired,
        NotValidForName | NotValidForNameContext { .. } => CertificateProblem::WrongName,
        _ => CertificateProblem::Untrusted,
    })
}
