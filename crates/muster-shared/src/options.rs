//! Connection settings for Valkey.

use std::sync::Arc;

use muster_core::{
    secret::Secret,
    shared::{SharedState, StoreError},
};
use muster_net::TrustStore;

/// Connection settings for Valkey.
#[derive(Debug, Clone, Default)]
pub struct ValkeyOptions {
    /// `host:port`, or a URL that begins with `redis://`, `rediss://`, `valkey://` or `valkeys://`. For a cluster it may be
    /// any of its nodes.
    pub url: String,
    /// The password, if it has one.
    pub password: Option<Secret>,
    /// Whether to use TLS.
    pub tls: bool,
    /// The name in its certificate, if that is not the host of the URL.
    pub server_name: Option<String>,
    /// Whether it is a cluster.
    pub cluster: bool,
    /// The database number.
    pub db: u16,
    /// The prefix of all keys.
    pub prefix: String,
}

/// Opens Valkey. The first request connects, so that a gateway starts while Valkey is down.
#[cfg(feature = "valkey")]
pub fn open(
    options: &ValkeyOptions,
    trust: &TrustStore,
) -> Result<Arc<dyn SharedState>, StoreError> {
    Ok(Arc::new(crate::valkey::ValkeyStore::new(options, trust)?))
}

/// Fails: this build has no client for Valkey.
#[cfg(not(feature = "valkey"))]
pub fn open(_: &ValkeyOptions, _: &TrustStore) -> Result<Arc<dyn SharedState>, StoreError> {
    Err(StoreError::Unavailable("this build has no support for Valkey".to_owned()))
}
