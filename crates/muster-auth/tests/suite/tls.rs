//! A scripted server with TLS.

use std::sync::{Arc, Mutex};

use rcgen::{CertificateParams, Issuer, KeyPair};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

/// A server that responds to every path with one document, and records the requests.
#[derive(Debug)]
pub(crate) struct TlsServer {
    pub(crate) base: String,
    /// The certificate authority in PEM form.
    pub(crate) authority: String,
    pub(crate) document: Mutex<String>,
    pub(crate) requests: Mutex<Vec<String>>,
}

impl TlsServer {
    pub(crate) async fn start(tasks: &TaskTracker) -> Arc<Self> {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let pem = authority.self_signed(&key).unwrap().pem();
        let own = KeyPair::generate().unwrap();
        let named = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = named.signed_by(&own, &Issuer::new(authority, key)).unwrap();
        let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(own.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], secret)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let base = format!("https://localhost:{port}");
        let server = Arc::new(Self {
            base,
            authority: pem,
            document: Mutex::default(),
            requests: Mutex::default(),
        });
        let serving = Arc::clone(&server);
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // One connection at a time is enough here.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut bytes = vec![0; 64 * 1024];
                let mut read = 0;
                while !is_complete(&bytes[..read]) {
                    match stream.read(&mut bytes[read..]).await {
                        Ok(more @ 1..) => read += more,
                        _ => break,
                    }
                }
                let text = String::from_utf8_lossy(&bytes[..read]).into_owned();
                serving.requests.lock().unwrap().push(text);
                let body = serving.document.lock().unwrap().clone();
                let length = body.len();
                let response = format!(
                    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                drop(stream.write_all(response.as_bytes()).await);
                drop(stream.shutdown().await);
            }
        });
        server
    }
}

/// Whether a request is complete.
fn is_complete(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head
        .lines()
        .find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}
