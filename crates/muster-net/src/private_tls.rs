//! TLS with a server whose certificate authority is configured for it, and for nothing else.

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::tls::{self, TlsConfig, TlsError, TlsSource};

/// The authority that one server is verified against, and the client certificate that is presented to it.
#[derive(Debug, Clone)]
pub struct PrivateTls(TlsConfig);

impl PrivateTls {
    /// Reads the authority, and a client certificate with its key. All are in PEM form; errors never contain them.
    pub fn new(authority: &[u8], client: Option<(&[u8], &[u8])>) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority, "the certificate authority")? {
            roots.add(certificate).map_err(|err| {
                TlsError(format!("the certificate authority cannot be used: {err}"))
            })?;
        }
        let builder = tls::builder()?.with_root_certificates(roots);
        let config = match client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
                    TlsError("the client key holds no private key in PEM form".to_owned())
                })?;
                let chain = certificates(certificate, "the client certificate")?;
                builder.with_client_auth_cert(chain, key).map_err(|err| {
                    TlsError(format!("the client certificate cannot be used: {err}"))
                })?
            }
        };
        Ok(Self(TlsConfig::http1(config)))
    }
}

impl TlsSource for PrivateTls {
    fn tls_config(&self) -> Result<TlsConfig, TlsError> {
        Ok(self.0.clone())
    }
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let missing = || TlsError(format!("{what} holds no certificate in PEM form"));
    tls::certificates(pem).ok_or_else(missing)
}
