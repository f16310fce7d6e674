//! Certificates: authorities, pinned self-signed ones, and client certificates.

use std::sync::Arc;

use muster_core::connect::CertificateProblem;
use muster_net::{AddressPolicy, DialError, Dialer, MtlsIdentity, TlsSource, TrustStore, Url};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd,
};
use rustls::{
    RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    server::WebPkiClientVerifier,
};
use tokio::{io::AsyncReadExt as _, net::TcpListener};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::TaskTracker;

/// A certificate for `localhost` that is its own authority, as `openssl req -x509` makes it.
fn self_signed(change: impl FnOnce(&mut CertificateParams)) -> (Certificate, KeyPair) {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap(), key)
}

/// Serves a certificate, to clients with a certificate of `clients` if given. Returns the port.
async fn serve(certificate: &Certificate, key: &KeyPair, clients: Option<&Certificate>) -> u16 {
    let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let provider = Arc::new(ring::default_provider());
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    TaskTracker::new().spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                drop(stream.read_u8().await);
            }
        }
    });
    port
}

async fn connect(tls: impl TlsSource + 'static, url: &str) -> Result<(), DialError> {
    let dialer = Dialer::new(Arc::new(tls));
    dialer.connect(&Url::parse(url).unwrap(), AddressPolicy::Unrestricted).await.map(drop)
}

fn trusting(certificate: &Certificate) -> TrustStore {
    TrustStore::system().with_pem(certificate.pem().as_bytes()).unwrap()
}

#[track_caller]
fn assert_tls_error(
    result: &Result<(), DialError>,
    expected: &str,
    problem: Option<CertificateProblem>,
) {
    match result {
        Err(DialError::Tls { reason, interrupted: false, certificate, .. }) => {
            assert!(reason.contains(expected), "{reason}");
            assert_eq!(*certificate, problem, "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_pinned_self_signed_ca_may_be_the_servers_certificate() {
    let (certificate, key) = self_signed(|_| ());
    let port = serve(&certificate, &key, None).await;
    let url = format!("https://localhost:{port}/");
    connect(trusting(&certificate), &url).await.unwrap();
    let refused = connect(TrustStore::system(), &url).await;
    assert_tls_error(&refused, "CaUsedAsEndEntity", Some(CertificateProblem::Untrusted));
    let (other, _) = self_signed(|_| ());
    assert_tls_error(
        &connect(trusting(&other), &url).await,
        "CaUsedAsEndEntity",
        Some(CertificateProblem::Untrusted),
    );
}

#[tokio::test]
async fn a_pinned_certificate_must_have_the_name_and_be_in_its_validity_period() {
    let (certificate, key) = self_signed(|_| ());
    let port = serve(&certificate, &key, None).await;
    let refused = connect(trusting(&certificate), &format!("https://127.0.0.1:{port}/")).await;
    assert_tls_error(&refused, "not valid for", Some(CertificateProblem::WrongName));
    let (expired, key) = self_signed(|params| params.not_after = date_time_ymd(2020, 1, 1));
    let port = serve(&expired, &key, None).await;
    let refused = connect(trusting(&expired), &format!("https://localhost:{port}/")).await;
    assert_tls_error(&refused, "expired", Some(CertificateProblem::Expired));
}

#[tokio::test]
async fn a_client_certificate_is_presented_and_reloaded() {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let issuer = Issuer::new(params, authority_key);
    let issue = || {
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &issuer).unwrap(), key)
    };
    let (server, server_key) = issue();
    let port = serve(&server, &server_key, Some(&authority)).await;
    let folder = tempfile::tempdir().unwrap();
    let paths = ["cert.pem", "key.pem", "ca.pem"].map(|name| folder.path().join(name));
    let load = || MtlsIdentity::load(paths[0].clone(), paths[1].clone(), paths[2].clone());
    let missing = load().unwrap_err().to_string();
    assert!(missing.starts_with(paths[2].to_str().unwrap()), "{missing}");

    let (client, client_key) = issue();
    std::fs::write(&paths[0], client.pem()).unwrap();
    std::fs::write(&paths[1], client_key.serialize_pem()).unwrap();
    std::fs::write(&paths[2], authority.pem()).unwrap();
    let identity = load().unwrap();
    // While the files are being replaced, the previous certificate stays in use.
    std::fs::write(&paths[0], "").unwrap();
    identity.tls_config().unwrap();
    connect(identity, &format!("https://localhost:{port}/")).await.unwrap();
}
