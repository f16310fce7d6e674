//! Servers behind a proxy that authenticates machines by certificate.

use std::{fs, path::Path, sync::Arc};

use muster_core::connect::{
    ConnectError, ConnectionEvent, ConnectionObserver, Connector as _, Endpoint, MachineIdentity,
};
use muster_mcp_client::McpConnector;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

use super::{
    harness::{connector, request},
    http_server::{HttpServer, legacy},
};

#[derive(Debug)]
struct NoEvents;

impl ConnectionObserver for NoEvents {
    fn on_event(&self, _: ConnectionEvent) {}
}

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let own = params.self_signed(&key).unwrap();
        let (pem, der) = (own.pem(), own.der().clone());
        Self { issuer: Issuer::new(params, key), pem, der }
    }

    fn sign(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes the identity of a machine, as an agent of the proxy does.
    fn write(&self, folder: &Path, trusted: &Self) {
        let (certificate, key) = self.sign("machine");
        fs::write(folder.join("tlscert"), certificate.pem()).unwrap();
        fs::write(folder.join("key"), key.serialize_pem()).unwrap();
        fs::write(folder.join("teleport-application-ca.pem"), &trusted.pem).unwrap();
    }
}

/// The proxy before a server: its address.
async fn proxy(tasks: &TaskTracker, authority: &Authority, server: &str) -> String {
    let provider = Arc::new(ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(authority.der.clone()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let (certificate, key) = authority.sign("localhost");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("https://localhost:{}/mcp", listener.local_addr().unwrap().port());
    let server = server.trim_start_matches("http://").split('/').next().unwrap().to_owned();
    let each = tasks.clone();
    tasks.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, server) = (acceptor.clone(), server.clone());
            each.spawn(async move {
                let Ok(mut inside) = acceptor.accept(stream).await else { return };
                let mut server = TcpStream::connect(server).await.unwrap();
                drop(copy_bidirectional(&mut inside, &mut server).await);
            });
        }
    });
    address
}

async fn connect(connector: &McpConnector, url: &str, folder: &Path) -> Result<(), ConnectError> {
    let endpoint = Endpoint::Mtls {
        url: url.to_owned(),
        headers: Vec::new(),
        identity: MachineIdentity::Directory(folder.to_str().unwrap().to_owned()),
        app: "mcp-app".to_owned(),
    };
    let connected = connector.connect(request(&endpoint, None, Arc::new(NoEvents))).await?;
    connected.list().await.map(drop)
}

#[tokio::test]
async fn a_client_certificate_is_presented() {
    let tasks = TaskTracker::new();
    let web = HttpServer::start(|request| legacy(request, |_| None)).await;
    let (own, other) = (Authority::new(), Authority::new());
    let url = proxy(&tasks, &own, &web.url).await;
    let folder = tempfile::tempdir().unwrap();
    let connector = connector();
    own.write(folder.path(), &own);
    connect(&connector, &url, folder.path()).await.unwrap();
    // The request names the application for the proxy.
    assert!(web.requests().iter().all(|request| request.header("host") == Some("mcp-app")));
    // Another machine is not let in, and another proxy is not believed.
    other.write(folder.path(), &own);
    assert!(connect(&connector, &url, folder.path()).await.is_err());
    own.write(folder.path(), &other);
    let error = connect(&connector, &url, folder.path()).await.unwrap_err().to_string();
    assert!(error.contains("no TLS with localhost"), "{error}");
    // The next connection uses the replaced files.
    own.write(folder.path(), &own);
    connect(&connector, &url, folder.path()).await.unwrap();
}
