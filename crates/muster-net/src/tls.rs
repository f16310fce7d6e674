//! TLS client configurations.

use std::sync::Arc;

use rustls::{
    ClientConfig, ConfigBuilder, WantsVerifier,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use thiserror::Error;

/// Why TLS cannot be set up, such as an unreadable certificate file.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TlsError(pub(crate) String);

/// How TLS is spoken on a connection: which certificates are trusted, and which is presented.
#[derive(Debug, Clone)]
pub struct TlsConfig(pub(crate) Arc<ClientConfig>);

impl TlsConfig {
    /// Completes a configuration for HTTP/1, the only protocol the workspace speaks to upstreams.
    pub(crate) fn http1(mut config: ClientConfig) -> Self {
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self(Arc::new(config))
    }
}

/// Supplies the TLS configuration for each new connection, so that certificates can be rotated.
pub trait TlsSource: Send + Sync {
    /// The configuration for the next connection.
    fn tls_config(&self) -> Result<TlsConfig, TlsError>;
}

muster_core::opaque_debug!(TlsSource);

/// Starts a configuration with the workspace's cryptography and protocol versions.
pub(crate) fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TlsError> {
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|err| TlsError(format!("TLS cannot be set up: {err}")))
}

/// The certificates in a PEM text; `None` if there is none, or one cannot be read.
pub(crate) fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    found.ok().filter(|found| !found.is_empty())
}
