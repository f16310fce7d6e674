//! Servers behind a proxy that knows machines by their certificates, as Teleport does.
//!
//! The certificates are short-lived and written anew by an agent beside the gateway, so they are looked at
//! for every new connection. Their own authority is the only one that is trusted there.

use std::{
    fs,
    path::{Component, Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use http::HeaderValue;
use muster_core::connect::MachineIdentity;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

use super::{address::Address, dial, failure::Failure};
use crate::lock::Lock;

const CERTIFICATE: &str = "tlscert";
const KEY: &str = "key";
const AUTHORITY: &str = "teleport-application-ca.pem";
/// As long as the name of a host may be.
const LONGEST_APP: usize = 253;

/// When each of the files was last written.
type Written = [Option<SystemTime>; 3];

/// The certificates of this machine.
#[derive(Debug)]
pub(super) struct Identity {
    folder: PathBuf,
    held: Lock<Option<(Written, Arc<ClientConfig>)>>,
}

impl Identity {
    /// Finds them, and sees whether they can be used.
    pub(super) fn read(place: &MachineIdentity) -> Result<Self, Failure> {
        let folder = match place {
            MachineIdentity::Directory(folder) => PathBuf::from(folder),
            MachineIdentity::Secret(_) => {
                let text = "Kubernetes client not available for secret-based identity";
                return Err(Failure::Broken(text.to_owned()));
            }
        };
        let climbs = folder.components().any(|part| part == Component::ParentDir);
        if !folder.is_absolute() || climbs {
            return Err(Failure::Broken(
                "`auth.teleport.identityDir` must be an absolute path without `..`".to_owned(),
            ));
        }
        let identity = Self { folder, held: Lock::default() };
        identity.config()?;
        Ok(identity)
    }

    /// How TLS is spoken with them. While they are being replaced, those before are used.
    pub(super) fn config(&self) -> Result<Arc<ClientConfig>, Failure> {
        let written = [CERTIFICATE, KEY, AUTHORITY].map(|name| {
            fs::metadata(self.folder.join(name)).and_then(|metadata| metadata.modified()).ok()
        });
        let held = self.held.lock().clone();
        match held {
            Some((when, config)) if when == written => Ok(config),
            held => match (make(&self.folder), held) {
                (Ok(config), _) => {
                    *self.held.lock() = Some((written, Arc::clone(&config)));
                    Ok(config)
                }
                (Err(failure), Some((_, config))) => {
                    tracing::warn!("the certificates before are used: {failure}");
                    Ok(config)
                }
                (Err(failure), None) => Err(failure),
            },
        }
    }
}

fn make(folder: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let bad = |name: &str, reason: String| {
        // The text never repeats what is in the file.
        Failure::Broken(format!("teleport identity: {}: {reason}", folder.join(name).display()))
    };
    let read = |name: &str| fs::read(folder.join(name)).map_err(|err| bad(name, err.to_string()));
    let certificates = |name: &str| -> Result<Vec<CertificateDer<'static>>, Failure> {
        let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(name)?).collect();
        match found {
            Ok(found) if !found.is_empty() => Ok(found),
            Ok(_) | Err(_) => Err(bad(name, "it holds no certificate in PEM form".to_owned())),
        }
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(AUTHORITY)? {
        roots.add(authority).map_err(|err| bad(AUTHORITY, err.to_string()))?;
    }
    let key = PrivateKeyDer::from_pem_slice(&read(KEY)?)
        .map_err(|_| bad(KEY, "it holds no private key in PEM form".to_owned()))?;
    let config = dial::tls()
        .map_err(Failure::Insecure)?
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(CERTIFICATE)?, key)
        .map_err(|err| bad(CERTIFICATE, err.to_string()))?;
    Ok(dial::over_http1(config))
}

/// The address of a server that the proxy knows as `app`.
pub(super) fn address(address: Address, app: &str) -> Result<Address, Failure> {
    if !address.secure {
        let text = "a server behind Teleport must have an address that begins with `https://`";
        return Err(Failure::Broken(text.to_owned()));
    }
    if app.is_empty() {
        return Ok(address);
    }
    let letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    match HeaderValue::from_str(app) {
        Ok(authority) if app.len() <= LONGEST_APP && app.chars().all(letter) => {
            Ok(Address { authority, ..address })
        }
        Ok(_) | Err(_) => Err(Failure::Broken(format!(
            "`auth.teleport.appName` must have letters, digits, `.`, `_` and `-`, at most {LONGEST_APP}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use muster_core::connect::MachineIdentity;

    use super::{Address, Identity, address};

    #[test]
    fn identities_that_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().to_str().unwrap().to_owned();
        for (place, expected) in [
            (MachineIdentity::Directory("relative/dir".to_owned()), "absolute path"),
            (MachineIdentity::Directory("/var/../etc".to_owned()), "absolute path"),
            (MachineIdentity::Directory(empty), "teleport-application-ca.pem"),
            (MachineIdentity::Secret("s".to_owned()), "Kubernetes client not available"),
        ] {
            let failure = Identity::read(&place).unwrap_err().to_string();
            assert!(failure.contains(expected), "{place:?}: {failure}");
        }
    }

    #[test]
    fn names_of_applications() {
        let at = |url: &str, app: &str| match address(Address::parse(url).unwrap(), app) {
            Ok(at) => format!("{} {}", at.host, at.authority.to_str().unwrap()),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(at("https://proxy.example/mcp", ""), "proxy.example proxy.example");
        assert_eq!(at("https://proxy.example/mcp", "mcp_k8s-1.a"), "proxy.example mcp_k8s-1.a");
        assert!(at("http://proxy.example/mcp", "a").contains("https://"));
        for app in ["a b", "a/b", "ä", &"a".repeat(254)] {
            assert!(at("https://proxy.example/mcp", app).contains("appName"), "{app}");
        }
    }
}
