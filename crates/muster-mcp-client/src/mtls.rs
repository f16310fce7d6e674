//! Upstreams behind a proxy that authenticates machines by certificate, such as Teleport.

use std::{
    path::{Component, PathBuf},
    sync::Arc,
};

use http::HeaderValue;
use muster_core::connect::MachineIdentity;
use muster_net::{MtlsIdentity, PrivateTls, TlsSource, Url};

use crate::error::TransportError;

/// The maximum length of a host name.
const MAX_APP_NAME: usize = 253;

/// Loads the client certificate of this machine.
pub(crate) fn load_identity(
    source: &MachineIdentity,
) -> Result<Arc<dyn TlsSource>, TransportError> {
    let unusable = |error| TransportError::Invalid(format!("teleport identity: {error}"));
    let folder = match source {
        MachineIdentity::Directory(folder) => PathBuf::from(folder),
        MachineIdentity::Pem { certificate, key, authority } => {
            let [certificate, key, authority] =
                [certificate, key, authority].map(|secret| secret.reveal().as_bytes());
            let identity = PrivateTls::new(authority, Some((certificate, key)));
            return Ok(Arc::new(identity.map_err(unusable)?));
        }
        // A connector with access to a cluster has already replaced it by its value.
        MachineIdentity::Secret { .. } => {
            let text = "Kubernetes client not available for secret-based identity";
            return Err(TransportError::Invalid(text.to_owned()));
        }
    };
    let has_parent = folder.components().any(|part| part == Component::ParentDir);
    if !folder.is_absolute() || has_parent {
        return Err(TransportError::Invalid(
            "`auth.teleport.identityDir` must be an absolute path without `..`".to_owned(),
        ));
    }
    let files = [MachineIdentity::CERTIFICATE, MachineIdentity::KEY, MachineIdentity::AUTHORITY];
    let [certificate, key, authority] = files.map(|name| folder.join(name));
    let identity = MtlsIdentity::load(certificate, key, authority);
    Ok(Arc::new(identity.map_err(unusable)?))
}

/// The `Host` header by which the proxy finds the application `app`; `None` for the URL's own.
pub(crate) fn proxy_host(url: &Url, app: &str) -> Result<Option<HeaderValue>, TransportError> {
    if !url.is_secure() {
        let text = "a server behind Teleport must have an address that begins with `https://`";
        return Err(TransportError::Invalid(text.to_owned()));
    }
    if app.is_empty() {
        return Ok(None);
    }
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    match HeaderValue::from_str(app) {
        Ok(host) if app.len() <= MAX_APP_NAME && app.chars().all(is_allowed) => Ok(Some(host)),
        Ok(_) | Err(_) => Err(TransportError::Invalid(format!(
            "`auth.teleport.appName` must have letters, digits, `.`, `_` and `-`, at most {MAX_APP_NAME}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use muster_core::{connect::MachineIdentity, secret::Secret};
    use muster_net::Url;

    use super::{load_identity, proxy_host};

    #[test]
    fn unusable_identities_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().to_str().unwrap().to_owned();
        for (source, expected) in [
            (MachineIdentity::Directory("relative/dir".to_owned()), "absolute path"),
            (MachineIdentity::Directory("/var/../etc".to_owned()), "absolute path"),
            (MachineIdentity::Directory(empty), "teleport-application-ca.pem"),
            (
                MachineIdentity::Secret { namespace: String::new(), name: "s".to_owned() },
                "Kubernetes client not available",
            ),
            (
                MachineIdentity::Pem {
                    certificate: Secret::new("s3cret".to_owned()),
                    key: Secret::new("s3cret".to_owned()),
                    authority: Secret::new("s3cret".to_owned()),
                },
                "teleport identity: the certificate authority",
            ),
        ] {
            let error = load_identity(&source).unwrap_err().to_string();
            assert!(error.contains(expected), "{source:?}: {error}");
            assert!(!format!("{source:?} {error}").contains("s3cret"));
        }
    }

    #[test]
    fn application_names_are_checked() {
        let host = |url: &str, app: &str| match proxy_host(&Url::parse(url).unwrap(), app) {
            Ok(host) => format!("{host:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(host("https://proxy.example/mcp", ""), "None");
        assert_eq!(host("https://proxy.example/mcp", "mcp_k8s-1.a"), "Some(\"mcp_k8s-1.a\")");
        assert!(host("http://proxy.example/mcp", "a").contains("https://"));
        for app in ["a b", "a/b", "ä", &"a".repeat(254)] {
            assert!(host("https://proxy.example/mcp", app).contains("appName"), "{app}");
        }
    }
}
