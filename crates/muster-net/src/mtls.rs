//! Mutual TLS: a client certificate from files that are rotated while the process runs.

use std::{
    fs,
    path::{Path, PathBuf},
    time::SystemTime,
};

use muster_core::lock::Lock;
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use crate::tls::{self, TlsConfig, TlsError, TlsSource};

/// When each of the three files was last modified.
type Modified = [Option<SystemTime>; 3];

/// A client certificate, its key, and the only authority that the server is verified against.
///
/// The files are short-lived and rewritten by another process, so each new connection checks whether they
/// have changed. While they are being replaced and cannot be read, the previous certificate stays in use.
#[derive(Debug)]
pub struct MtlsIdentity {
    certificate: PathBuf,
    key: PathBuf,
    authority: PathBuf,
    loaded: Lock<Option<(Modified, TlsConfig)>>,
}

impl MtlsIdentity {
    /// Loads the PEM files. Errors name the file, never its contents.
    pub fn load(certificate: PathBuf, key: PathBuf, authority: PathBuf) -> Result<Self, TlsError> {
        let identity = Self { certificate, key, authority, loaded: Lock::default() };
        identity.tls_config()?;
        Ok(identity)
    }

    fn build(&self) -> Result<TlsConfig, TlsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(&self.authority)? {
            roots.add(authority).map_err(|err| bad_file(&self.authority, &err.to_string()))?;
        }
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?)
            .map_err(|_| bad_file(&self.key, "it holds no private key in PEM form"))?;
        let config = tls::builder()?
            .with_root_certificates(roots)
            .with_client_auth_cert(certificates(&self.certificate)?, key)
            .map_err(|err| bad_file(&self.certificate, &err.to_string()))?;
        Ok(TlsConfig::http1(config))
    }
}

impl TlsSource for MtlsIdentity {
    fn tls_config(&self) -> Result<TlsConfig, TlsError> {
        let modified = [&self.certificate, &self.key, &self.authority]
            .map(|path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok());
        let mut loaded = self.loaded.lock();
        match &*loaded {
            Some((when, config)) if *when == modified => Ok(config.clone()),
            previous => match (self.build(), previous) {
                (Ok(config), _) => {
                    *loaded = Some((modified, config.clone()));
                    Ok(config)
                }
                (Err(err), Some((_, config))) => {
                    tracing::warn!("the previous client certificate stays in use: {err}");
                    Ok(config.clone())
                }
                (Err(err), None) => Err(err),
            },
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|err| bad_file(path, &err.to_string()))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let missing = || bad_file(path, "it holds no certificate in PEM form");
    tls::certificates(&read(path)?).ok_or_else(missing)
}

fn bad_file(path: &Path, reason: &str) -> TlsError {
    TlsError(format!("{}: {reason}", path.display()))
}
