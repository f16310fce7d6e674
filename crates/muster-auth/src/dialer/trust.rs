//! Whose certificates are believed.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use thiserror::Error;
use tracing::warn;

/// A file of certificates that cannot be used.
#[derive(Debug, Error)]
#[error("no certificate can be read: {0}")]
pub struct BadCertificate(String);

/// What the system trusts, and what the configuration adds.
#[derive(Default, Clone)]
pub struct Trust {
    extra: Vec<CertificateDer<'static>>,
    /// Made with the first address that wants it: the system's certificates take time and memory.
    config: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trust").field("extra", &self.extra.len()).finish_non_exhaustive()
    }
}

impl Trust {
    /// What the system trusts.
    pub fn system() -> Self {
        Self::default()
    }

    /// Trusts the certificates of a PEM file as well.
    #[must_use = "this is the new trust"]
    pub fn and(mut self, pem: &[u8]) -> Result<Self, BadCertificate> {
        let mut any = false;
        for certificate in CertificateDer::pem_slice_iter(pem) {
            self.extra.push(certificate.map_err(|err| BadCertificate(err.to_string()))?);
            any = true;
        }
        if any { Ok(self) } else { Err(BadCertificate("there is none in PEM form".to_owned())) }
    }

    /// What the configuration adds to what the system trusts.
    pub(crate) fn extra(&self) -> &[CertificateDer<'static>] {
        &self.extra
    }

    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, String> {
        self.config.get_or_init(|| self.make()).clone()
    }

    fn make(&self) -> Result<Arc<ClientConfig>, String> {
        let found = rustls_native_certs::load_native_certs();
        for err in &found.errors {
            warn!("a certificate of the system cannot be read: {err}");
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(found.certs);
        roots.add_parsable_certificates(self.extra.iter().cloned());
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|err| err.to_string())?;
        let mut config = config.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}
