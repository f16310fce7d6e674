//! The certificate authorities that servers are verified against.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use thiserror::Error;
use tracing::warn;

use crate::{
    tls::{self, TlsConfig, TlsError, TlsSource},
    verifier::PinnedOrWebPki,
};

/// A PEM file without a usable certificate.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("no certificate can be read: {0}")]
pub struct BadCertificate(String);

/// The system's certificate authorities and those that the configuration adds.
#[derive(Default, Clone)]
pub struct TrustStore {
    extra: Vec<CertificateDer<'static>>,
    /// Built for the first TLS connection: loading the system's certificates takes time and memory.
    config: OnceLock<Result<TlsConfig, TlsError>>,
}

impl fmt::Debug for TrustStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrustStore").field("extra", &self.extra.len()).finish_non_exhaustive()
    }
}

impl TrustStore {
    /// The system's certificate authorities.
    pub fn system() -> Self {
        Self::default()
    }

    /// Adds the certificates of a PEM file.
    #[must_use = "this returns the extended trust store"]
    pub fn with_pem(mut self, pem: &[u8]) -> Result<Self, BadCertificate> {
        let before = self.extra.len();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            self.extra.push(certificate.map_err(|err| BadCertificate(err.to_string()))?);
        }
        if self.extra.len() == before {
            return Err(BadCertificate("there is none in PEM form".to_owned()));
        }
        self.config = OnceLock::new();
        Ok(self)
    }

    /// All trusted certificates in PEM form, or `None` if the configuration adds none to the system's. For libraries
    /// that bring their own TLS.
    pub fn to_pem(&self) -> Option<Vec<u8>> {
        if self.extra.is_empty() {
            return None;
        }
        let system = rustls_native_certs::load_native_certs().certs;
        let encoded = system.iter().chain(&self.extra).map(|certificate| {
            let body = STANDARD.encode(certificate);
            format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
        });
        Some(encoded.collect::<String>().into_bytes())
    }

    fn build(&self) -> Result<TlsConfig, TlsError> {
        let system = rustls_native_certs::load_native_certs();
        for err in &system.errors {
            warn!("cannot read a certificate of the system: {err}");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(system.certs);
        roots.add_parsable_certificates(self.extra.iter().cloned());
        let builder = tls::builder()?;
        // Without additions, the default verifier also works with an empty store: each handshake fails then.
        let config = if self.extra.is_empty() {
            builder.with_root_certificates(roots)
        } else {
            let verifier = PinnedOrWebPki::new(roots, self.extra.clone())?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        };
        Ok(TlsConfig::http1(config.with_no_client_auth()))
    }
}

impl TlsSource for TrustStore {
    fn tls_config(&self) -> Result<TlsConfig, TlsError> {
        self.config.get_or_init(|| self.build()).clone()
    }
}
