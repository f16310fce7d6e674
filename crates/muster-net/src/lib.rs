//! Outgoing network connections: URLs, TLS trust, an SSRF guard, and a small HTTP/1 client.
//!
//! - [`Url`] is the workspace's one `http`/`https` URL type.
//! - [`AddressPolicy`] is the SSRF guard: which networks a connection may reach.
//! - [`TrustStore`], [`MtlsIdentity`] and [`PrivateTls`] supply TLS configurations.
//! - [`Dialer`] opens plain and TLS connections; connection pools are the caller's business.
//! - [`HttpClient`] sends one request over one connection and reads the whole response, within limits;
//!   [`HttpStream`] is one that is read while it arrives.
//!
//! **Invariant:** the dialer connects to the IP addresses that the policy has checked, never to a name
//! that would be resolved a second time.
//!
//! ```
//! use muster_net::{AddressPolicy, Url};
//!
//! let url = Url::parse("https://issuer.example/keys")?;
//! assert_eq!((url.host(), url.port()), ("issuer.example", 443));
//!
//! // A URL from an untrusted source must not lead into the local network.
//! assert!(AddressPolicy::Public.parse("https://10.0.0.1/").is_err());
//! assert!(AddressPolicy::Private.parse("https://10.0.0.1/").is_ok());
//! # Ok::<(), muster_net::UrlError>(())
//! ```

mod address_policy;
mod dialer;
mod http_client;
mod http_stream;
mod mtls;
mod private_tls;
mod resolve;
mod stream;
mod tls;
mod trust_store;
mod url;
mod verifier;

pub use self::{
    address_policy::{AddressClass, AddressPolicy},
    dialer::{DialError, Dialer},
    http_client::{HttpClient, HttpError, HttpRequest, HttpResponse},
    http_stream::HttpStream,
    mtls::MtlsIdentity,
    private_tls::PrivateTls,
    resolve::{Resolve, SystemResolver, loopback_addresses},
    stream::NetStream,
    tls::{TlsConfig, TlsError, TlsSource},
    trust_store::{BadCertificate, TrustStore},
    url::{Url, UrlError},
};
