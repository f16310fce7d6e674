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

/// Where pods find their service account.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// What the environment says about a cluster.
#[derive(Debug, Clone, Default)]
pub struct ClusterEnvironment {
    /// `KUBECONFIG`: a file, or several with `:` between, of which the first that exists counts.
    pub kubeconfig: Option<String>,
    /// `KUBERNETES_SERVICE_HOST`, which pods have.
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
    Nothing,
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

/// How requests are authenticated, besides a client certificate.
#[derive(Debug)]
pub(crate) enum Credentials {
    None,
    Token(Secret),
    /// Short-lived tokens, which the kubelet replaces in their file.
    File(PathBuf),
}

impl Credentials {
    /// The token for the next request.
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
    /// The access that the environment describes: `KUBECONFIG`, else the pod's service account, else
    /// `~/.kube/config`.
    pub fn find(environment: &ClusterEnvironment) -> Result<Self, AccessError> {
        let named = environment.kubeconfig.as_deref().filter(|named| !named.is_empty());
        if let Some(named) = named {
            let mut paths = named.split(':').filter(|path| !path.is_empty()).map(PathBuf::from);
            let first = paths.clone().next().ok_or(AccessError::Nothing)?;
            return Self::by_kubeconfig(&paths.find(|path| path.exists()).unwrap_or(first));
        }
        if let Some(host) = &environment.service_host {
            let port = environment.service_port.as_deref().unwrap_or("443");
            return Self::in_cluster(host, port, Path::new(SERVICE_ACCOUNT));
        }
        let home = environment.home.as_ref().map(|home| home.join(".kube/config"));
        match home.filter(|path| path.exists()) {
            Some(path) => Self::by_kubeconfig(&path),
            None => Err(AccessError::Nothing),
        }
    }

    /// The access of a pod.
    fn in_cluster(host: &str, port: &str, account: &Path) -> Result<Self, AccessError> {
        let server = match host.contains(':') {
            true => format!("https://[{host}]:{port}"),
            false => format!("https://{host}:{port}"),
        };
        let authority = read(&account.join("ca.crt"))?;
        let token = account.join("token");
        // Reported now rather than with the first request.
        read(&token)?;
        let tls = Arc::new(PrivateTls::new(&authority, None)?);
        Self::new(&server, tls, Credentials::File(token))
    }

    /// The access that a kubeconfig describes.
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
        let credentials = match (found.token, found.token_file) {
            (Some(token), _) => Credentials::Token(token),
            (None, Some(file)) => Credentials::File(folder.join(file)),
            (None, None) => Credentials::None,
        };
        Self::new(&found.server, tls, credentials)
    }

    fn new(
        server: &str,
        tls: Arc<dyn TlsSource>,
        credentials: Credentials,
    ) -> Result<Self, AccessError> {
        // The operator names the API server, which is in a private network as a rule.
        let server = AddressPolicy::Unrestricted.parse(server.trim_end_matches('/'))?;
        Ok(Self { server, http: HttpClient::over(Dialer::new(tls)), credentials })
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, AccessError> {
    fs::read(path).map_err(|source| AccessError::File { path: path.to_owned(), source })
}
