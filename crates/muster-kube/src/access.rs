//! How the API server is reached: from inside the cluster, or by a kubeconfig.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use muster_core::secret::Secret;
use muster_net::{
    AddressPolicy, Dialer, HttpClient, PrivateTls, TlsError, TlsSource, TrustStore, Url, UrlError,
};
use thiserror::Error;

use crate::kubeconfig;

/// The folder of a pod's service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The environment variables and the home directory that select a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterEnvironment {
    /// `KUBECONFIG`: one file, or several separated by `:`, of which the first that exists is used.
    pub kubeconfig: Option<String>,
    /// `KUBERNETES_SERVICE_HOST`, which is set in pods.
    pub service_host: Option<String>,
    /// `KUBERNETES_SERVICE_PORT`.
    pub service_port: Option<String>,
    /// The home directory.
    pub home: Option<PathBuf>,
}

/// Why the API server cannot be reached. The texts never hold tokens or keys.
#[derive(Debug, Error)]
pub enum AccessError {
    /// There is neither a service account nor a kubeconfig.
    #[error("no Kubernetes cluster is configured: there is no service account and no kubeconfig")]
    NotConfigured,
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The kubeconfig cannot be used.
    #[error("{}: {reason}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A token would be sent without encryption.
    #[error("{0} has no TLS, so a token must not be sent to it: use https")]
    Unencrypted(String),
    /// The address of the API server is not a URL.
    #[error("the address of the API server: {0}")]
    Url(#[from] UrlError),
    /// A certificate or a key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// An API server, and how the gateway authenticates to it.
#[derive(Debug)]
pub struct ClusterAccess {
    pub(crate) server: Url,
    pub(crate) http: HttpClient,
    pub(crate) credentials: Credentials,
}

/// The token that authenticates requests, in addition to a client certificate.
#[derive(Debug)]
pub(crate) enum Credentials {
    None,
    Token(Secret),
    /// A short-lived token, read for each request: the kubelet replaces the file.
    File(PathBuf),
}

impl Credentials {
    /// Returns the token for the next request.
    pub(crate) fn token(&self) -> io::Result<Option<Secret>> {
        match self {
            Self::None => Ok(None),
            Self::Token(token) => Ok(Some(token.clone())),
            Self::File(path) => {
                let text = fs::read_to_string(path)?;
                Ok(Some(Secret::new(text.trim().to_owned())))
            }
        }
    }
}

impl ClusterAccess {
    /// Finds the access that the environment describes: `KUBECONFIG`, otherwise the pod's service account, otherwise
    /// `~/.kube/config`.
    pub fn find(environment: &ClusterEnvironment) -> Result<Self, AccessError> {
        let named = environment.kubeconfig.as_deref().filter(|named| !named.is_empty());
        if let Some(named) = named {
            let mut paths = named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
            let first = paths.clone().next().ok_or(AccessError::NotConfigured)?;
            return Self::by_kubeconfig(&paths.find(|path| path.exists()).unwrap_or(first));
        }
        if let Some(host) = &environment.service_host {
            let port = environment.service_port.as_deref().unwrap_or("443");
            return Self::in_cluster(host, port, Path::new(SERVICE_ACCOUNT));
        }
        let home = environment.home.as_ref().map(|home| home.join(".kube/config"));
        match home.filter(|path| path.exists()) {
            Some(path) => Self::by_kubeconfig(&path),
            None => Err(AccessError::NotConfigured),
        }
    }

    /// The access of a pod, by its service account.
    fn in_cluster(host: &str, port: &str, account: &Path) -> Result<Self, AccessError> {
        let server = match host.contains(':') {
            true => format!("https://[{host}]:{port}"),
            false => format!("https://{host}:{port}"),
        };
        let authority = read(&account.join("ca.crt"))?;
        let token = account.join("token");
        // Report a missing token now, not with the first request.
        read(&token)?;
        let tls = Arc::new(PrivateTls::new(&authority, None)?);
        Self::new(&server, tls, Credentials::File(token))
    }

    /// Loads the access that a kubeconfig describes.
    pub fn by_kubeconfig(path: &Path) -> Result<Self, AccessError> {
        let text = String::from_utf8_lossy(&read(path)?).into_owned();
        let refused = |reason: String| AccessError::Kubeconfig { path: path.to_owned(), reason };
        let found = kubeconfig::parse(&text).map_err(refused)?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let authority = found.authority.as_ref().map(|data| data.load(folder)).transpose()?;
        let client = match (&found.certificate, &found.key) {
            (Some(certificate), Some(key)) => Some((certificate.load(folder)?, key.load(folder)?)),
            (None, None) => None,
            _ => {
                return Err(refused(
                    "a client certificate needs its key, and a key its certificate".to_owned(),
                ));
            }
        };
        let tls: Arc<dyn TlsSource> = match (authority, client) {
            (Some(authority), client) => {
                let client = client.as_ref().map(|(certificate, key)| (&**certificate, &**key));
                Arc::new(PrivateTls::new(&authority, client)?)
            }
            (None, None) => Arc::new(TrustStore::system()),
            (None, Some(_)) => {
                return Err(refused(
                    "a client certificate needs `certificate-authority`".to_owned(),
                ));
            }
        };
        // The file wins, as for kubectl: its token is newer.
        let credentials = match (found.token_file, found.token) {
            (Some(file), _) => Credentials::File(folder.join(file)),
            (None, Some(token)) => Credentials::Token(token),
            (None, None) => Credentials::None,
        };
        Self::new(&found.server, tls, credentials)
    }

    fn new(
        server: &str,
        tls: Arc<dyn TlsSource>,
        credentials: Credentials,
    ) -> Result<Self, AccessError> {
        // No restriction: the operator configures the API server, which is usually in a private network.
        let server = AddressPolicy::Unrestricted.parse(server.trim_end_matches('/'))?;
        let is_private = server.is_secure() || server.is_loopback();
        if !is_private && !matches!(credentials, Credentials::None) {
            return Err(AccessError::Unencrypted(server.as_str().to_owned()));
        }
        Ok(Self { server, http: HttpClient::over(Dialer::new(tls)), credentials })
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    fs::read(path).map_err(|source| AccessError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use serde_json::{Value as Json, json};
    use tempfile::TempDir;

    use super::{AccessError, ClusterAccess, ClusterEnvironment, Credentials};

    /// A folder with the files of a service account.
    fn account() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let authority = rcgen::generate_simple_self_signed(["kubernetes".to_owned()]).unwrap();
        fs::write(folder.path().join("ca.crt"), authority.cert.pem()).unwrap();
        fs::write(folder.path().join("token"), "first\n").unwrap();
        folder
    }

    fn token(access: &ClusterAccess) -> Option<String> {
        access.credentials.token().unwrap().map(|token| token.reveal().to_owned())
    }

    /// Writes a kubeconfig with this cluster and user.
    fn kubeconfig(path: &Path, server: &str, user: &Json) {
        let config = json!({
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
            "clusters": [{"name": "k", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": user}],
        });
        fs::write(path, config.to_string()).unwrap();
    }

    #[test]
    fn a_pod_reads_the_token_that_the_kubelet_replaces() {
        let account = account();
        let access = ClusterAccess::in_cluster("10.96.0.1", "443", account.path()).unwrap();
        assert_eq!(access.server.as_str(), "https://10.96.0.1:443");
        assert_eq!(token(&access).as_deref(), Some("first"));
        fs::write(account.path().join("token"), "second").unwrap();
        assert_eq!(token(&access).as_deref(), Some("second"));
        fs::remove_file(account.path().join("token")).unwrap();
        assert!(access.credentials.token().is_err());
        let missing = ClusterAccess::in_cluster("10.96.0.1", "443", account.path()).unwrap_err();
        assert!(missing.to_string().contains("token"), "{missing}");
    }

    #[test]
    fn an_ipv6_address_is_in_brackets() {
        let access = ClusterAccess::in_cluster("fd00::1", "6443", account().path()).unwrap();
        assert_eq!(access.server.as_str(), "https://[fd00::1]:6443");
    }

    #[test]
    fn a_named_kubeconfig_wins_over_the_pod_and_that_over_the_home() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path(".kube")).unwrap();
        kubeconfig(&path("named"), "https://named", &json!({}));
        kubeconfig(&path(".kube/config"), "https://home", &json!({}));
        let home = ClusterEnvironment {
            home: Some(folder.path().to_owned()),
            ..ClusterEnvironment::default()
        };
        let server = |environment: &ClusterEnvironment| {
            ClusterAccess::find(environment).map(|access| access.server.as_str().to_owned())
        };
        assert_eq!(server(&home).unwrap(), "https://home");
        let named = format!("{}:{}", path("missing").display(), path("named").display());
        let both = ClusterEnvironment {
            kubeconfig: Some(named),
            service_host: Some("10.96.0.1".to_owned()),
            ..home
        };
        assert_eq!(server(&both).unwrap(), "https://named");
        // Without a named kubeconfig the pod's account is used, even if there is a kubeconfig in the home directory.
        let pod = ClusterEnvironment { kubeconfig: Some(String::new()), ..both };
        let missing = server(&pod).unwrap_err();
        assert!(
            matches!(&missing, AccessError::File { path, .. } if path.starts_with(super::SERVICE_ACCOUNT)),
            "{missing}"
        );
        let nothing = server(&ClusterEnvironment::default()).unwrap_err();
        assert!(matches!(nothing, AccessError::NotConfigured), "{nothing}");
    }

    #[test]
    fn a_token_file_wins_over_a_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(folder.path().join("token"), "of-the-file\n").unwrap();
        kubeconfig(&path, "https://a", &json!({"token": "inline", "tokenFile": "token"}));
        let access = ClusterAccess::by_kubeconfig(&path).unwrap();
        assert_eq!(token(&access).as_deref(), Some("of-the-file"));
        kubeconfig(&path, "https://a", &json!({"token": "inline"}));
        assert_eq!(token(&ClusterAccess::by_kubeconfig(&path).unwrap()).as_deref(), Some("inline"));
    }

    #[test]
    fn a_token_is_not_sent_without_tls() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        let found = |server: &str, user: Json| {
            kubeconfig(&path, server, &user);
            ClusterAccess::by_kubeconfig(&path)
        };
        let with_token = || json!({"token": "t0ken"});
        let refused = found("http://10.0.0.1:8080", with_token()).unwrap_err();
        assert!(matches!(refused, AccessError::Unencrypted(_)), "{refused}");
        assert!(!refused.to_string().contains("t0ken"), "{refused}");
        for (server, user) in [
            ("http://127.0.0.1:8001", with_token()),
            ("http://localhost:8001", with_token()),
            ("http://10.0.0.1:8080", json!({})),
        ] {
            let access = found(server, user).unwrap();
            assert!(matches!(access.credentials, Credentials::None | Credentials::Token(_)));
        }
    }
}
