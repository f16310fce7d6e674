//! New connections over TCP, with TLS where the address wants it.

use std::{
    io,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    client::conn::http1::{self, SendRequest},
    rt::{Read, Write},
};
use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::{
    ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsConnector;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::{address::Address, failure::Failure, mutual::Identity};

/// How long a new connection may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// A peer that is silently gone is noticed after a minute, however long a call may take.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_PROBES: u32 = 3;
const UNACKNOWLEDGED: u32 = 60_000;

/// A connection that can carry one request at a time.
pub(super) type Sender = SendRequest<Full<Bytes>>;

/// Makes connections.
#[derive(Debug)]
pub(super) struct Dialer {
    trust: Trust,
    tasks: TaskTracker,
}

/// How others are known by their certificates.
#[derive(Debug)]
enum Trust {
    /// As the system knows them, and by these.
    System {
        extra: Vec<CertificateDer<'static>>,
        /// Made with the first address that wants it: the certificates take time and memory.
        config: OnceLock<Result<Arc<ClientConfig>, String>>,
    },
    /// As a proxy that knows this machine, too.
    Machine(Identity),
}

impl Dialer {
    pub(super) const fn new(tasks: TaskTracker) -> Self {
        Self { trust: Trust::System { extra: Vec::new(), config: OnceLock::new() }, tasks }
    }

    /// Trusts the certificates of a PEM file beside the system's.
    pub(super) fn trusting(tasks: TaskTracker, pem: &[u8]) -> Result<Self, String> {
        let extra: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
        let extra = extra.map_err(|err| err.to_string())?;
        if extra.is_empty() {
            return Err("there is no certificate in PEM form".to_owned());
        }
        Ok(Self { trust: Trust::System { extra, config: OnceLock::new() }, tasks })
    }

    /// Shows the certificates of this machine.
    pub(super) fn as_machine(&self, identity: Identity) -> Self {
        Self { trust: Trust::Machine(identity), tasks: self.tasks.clone() }
    }

    fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        match &self.trust {
            Trust::System { extra, config } => {
                let made = config.get_or_init(|| system_trust(extra)).clone();
                made.map_err(Failure::Insecure)
            }
            Trust::Machine(identity) => identity.config(),
        }
    }

    /// Connects.
    pub(super) async fn dial(&self, address: &Address) -> Result<Sender, Failure> {
        let connecting = Box::pin(self.connect(address));
        timeout(CONNECT_LIMIT, connecting).await.unwrap_or_else(|_| {
            Err(Failure::Lost(format!("connection to {} timed out", place(address))))
        })
    }

    async fn connect(&self, address: &Address) -> Result<Sender, Failure> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.map_err(|err| unreachable(address, &err))?;
        if let Err(err) = settle(&stream) {
            debug!("no keep-alive for {}: {err}", place(address));
        }
        if !address.secure {
            return self.shake_hands(TokioIo::new(stream), address).await;
        }
        let config = self.config()?;
        let name = ServerName::try_from(address.host.clone());
        let name =
            name.map_err(|_| Failure::Broken(format!("`{}` is no host name", address.host)))?;
        let stream = TlsConnector::from(config).connect(name, stream).await;
        let stream = stream.map_err(|err| no_trust(address, &err))?;
        self.shake_hands(TokioIo::new(stream), address).await
    }

    async fn shake_hands(
        &self,
        io: impl Read + Write + Send + Unpin + 'static,
        address: &Address,
    ) -> Result<Sender, Failure> {
        let (sender, connection) = http1::handshake(io).await.map_err(|err| {
            Failure::Lost(format!("connection to {} failed: {err}", place(address)))
        })?;
        self.tasks.spawn(async move {
            if let Err(err) = connection.await {
                debug!("a connection ended: {err}");
            }
        });
        Ok(sender)
    }
}

fn settle(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_PROBES)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED)?;
    Ok(())
}

/// What the system trusts, and what is trusted beside it.
fn system_trust(extra: &[CertificateDer<'static>]) -> Result<Arc<ClientConfig>, String> {
    let found = rustls_native_certs::load_native_certs();
    for err in &found.errors {
        warn!("a certificate of the system cannot be read: {err}");
    }
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    roots.add_parsable_certificates(extra.iter().cloned());
    Ok(over_http1(tls()?.with_root_certificates(roots).with_no_client_auth()))
}

/// TLS of which only the ciphers and versions are settled.
pub(super) fn tls() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|err| format!("TLS cannot be set up: {err}"))
}

pub(super) fn over_http1(mut config: ClientConfig) -> Arc<ClientConfig> {
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

fn place(address: &Address) -> String {
    format!("{}:{}", address.host, address.port)
}

fn unreachable(address: &Address, err: &io::Error) -> Failure {
    let what = match err.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => err.to_string(),
    };
    Failure::Lost(format!("{} cannot be reached: {what}", place(address)))
}

/// A certificate that is not trusted will not be trusted later; a connection that broke may hold.
fn no_trust(address: &Address, err: &io::Error) -> Failure {
    let tls = err.get_ref().is_some_and(|source| source.is::<rustls::Error>());
    let text = match err.get_ref() {
        Some(source) => source.source().map_or_else(|| source.to_string(), ToString::to_string),
        None => err.to_string(),
    };
    let text = format!("no TLS with {}: {text}", place(address));
    if tls { Failure::Insecure(text) } else { Failure::Lost(text) }
}
