//! Verification of server certificates, with support for pinned self-signed ones.

use std::sync::Arc;

use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        verify_server_name,
    },
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::ParsedCertificate,
};

use crate::tls::TlsError;

/// Verifies against certificate authorities, and accepts a pinned certificate that a server presents as
/// its own even if it is marked as a CA.
///
/// `openssl req -x509` makes such certificates. webpki refuses a CA as a server certificate, although the
/// operator who listed exactly this certificate trusts it for more than that.
#[derive(Debug)]
pub(crate) struct PinnedOrWebPki {
    webpki: Arc<WebPkiServerVerifier>,
    pinned: Vec<CertificateDer<'static>>,
}

impl PinnedOrWebPki {
    pub(crate) fn new(
        roots: RootCertStore,
        pinned: Vec<CertificateDer<'static>>,
    ) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let webpki = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|err| TlsError(format!("no certificate authority can be used: {err}")))?;
        Ok(Self { webpki, pinned })
    }
}

impl ServerCertVerifier for PinnedOrWebPki {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.webpki.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            // webpki reports this after it has checked the validity period, but before the name.
            Err(err) if is_ca_as_server(&err) && self.pinned.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.webpki.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.webpki.supported_verify_schemes()
    }
}

fn is_ca_as_server(err: &Error) -> bool {
    let Error::InvalidCertificate(CertificateError::Other(OtherError(source))) = err else {
        return false;
    };
    source.downcast_ref::<webpki::Error>() == Some(&webpki::Error::CaUsedAsEndEntity)
}
