//! The protected endpoint: who may come in, and the pages by which they become someone.
//!
//! The gateway is an OAuth 2.1 resource server, and an authorization server in front of the identity
//! provider that knows the users. Its own tokens are random words; what they stand for is in the store.

mod authorize;
mod cache;
mod clients;
mod config;
mod fields;
mod guard;
mod limits;
mod logins;
mod metadata;
mod pages;
mod provider;
mod proxies;
mod redirect_uri;
mod reply;
mod token;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use muster_core::{
    backend::BoxFuture,
    credentials::{Authenticator, Principal, WebPages},
};
use muster_net::{AddressPolicy, HttpClient};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::task::TaskTracker;

use self::{cache::Cache, guard::TrustedKeys, limits::Limit, provider::Provider};
pub use self::{
    config::{ConfigError, Kind, Loaded, ProviderConfig, ServerConfig, Storage, Trusted, load},
    proxies::Proxies,
};
use crate::{
    clock::Clock,
    jwks::Keys,
    keyed_lock::KeyedLock,
    store::{Memory, Store, Valkey, Vault},
};

/// How many unknown tokens the provider is asked about at once.
const ASKING: usize = 16;

/// How long the shutdown waits for requests to the provider in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The protected endpoint.
#[derive(Clone)]
pub struct AuthServer(Arc<Inner>);

impl fmt::Debug for AuthServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AuthServer").field(&self.0.config.base_url).finish()
    }
}

#[derive(Debug)]
struct Inner {
    config: ServerConfig,
    provider: Provider,
    trusted: Vec<TrustedKeys>,
    vault: Vault,
    dialer: HttpClient,
    clock: Clock,
    cache: Cache,
    locks: KeyedLock,
    /// What is done to its end, whoever asked for it.
    tasks: TaskTracker,
    asking: Semaphore,
    requests: Limit,
    registrations: Limit,
}

impl AuthServer {
    /// What the configuration describes.
    pub fn start(loaded: Loaded) -> Result<Self, ConfigError> {
        let clock = Clock::system();
        let store: Arc<dyn Store> = match &loaded.storage {
            Storage::Memory => Arc::new(Memory::new(clock.clone())),
            Storage::Valkey(options) => Arc::new(Valkey::new(options, &loaded.trust)?),
        };
        let dialer = HttpClient::new(Arc::new(loaded.trust));
        Ok(Self::new(loaded.server, Vault::new(store, loaded.seal), dialer, clock))
    }

    /// The same from its parts.
    pub fn new(config: ServerConfig, vault: Vault, dialer: HttpClient, clock: Clock) -> Self {
        let keys = |issuer: &str| {
            let base = issuer.trim_end_matches('/');
            Keys::discovered(dialer.clone(), base, AddressPolicy::Loopback)
        };
        let trusted = config.trusted_issuers.iter().map(|one| TrustedKeys {
            issuer: one.issuer.clone(),
            audiences: one.audiences.clone(),
            keys: keys(&one.issuer),
        });
        let trusted = trusted.collect();
        let provider = Provider::new(config.provider.clone(), dialer.clone(), clock.clone());
        Self(Arc::new(Inner {
            provider,
            trusted,
            config,
            vault,
            dialer,
            clock,
            cache: Cache::default(),
            locks: KeyedLock::default(),
            tasks: TaskTracker::new(),
            asking: Semaphore::new(ASKING),
            requests: Limit::new(100, Duration::from_millis(20)),
            registrations: Limit::new(10, Duration::from_secs(6 * 60)),
        }))
    }

    /// Looks for the identity provider until it is found. Until then the gateway is up, and logins are
    /// told to come again.
    pub async fn find_provider(&self) {
        self.0.provider.find().await;
    }

    /// Waits for token requests in flight, so that no refreshed token is lost at shutdown.
    pub async fn drain(&self) {
        self.0.tasks.close();
        drop(timeout(DRAIN_TIMEOUT, self.0.tasks.wait()).await);
    }

    /// Why logins do not work yet, if they do not.
    pub fn waits_for(&self) -> Option<&'static str> {
        (!self.0.provider.is_known()).then_some("oidc-discovery-pending")
    }

    /// Web pages that may talk to us from a browser, by their origin.
    pub fn origins(&self) -> &[String] {
        &self.0.config.origins
    }

    /// Where logins are kept, for those at servers as well.
    pub fn vault(&self) -> Vault {
        self.0.vault.clone()
    }

    /// The host that clients address us by.
    pub fn host(&self) -> &str {
        let url = &self.0.config.base_url;
        let authority = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let authority = authority.split('/').next().unwrap_or(authority);
        match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or(rest),
            None => authority.split(':').next().unwrap_or(authority),
        }
    }
}

impl Authenticator for AuthServer {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
    ) -> BoxFuture<'a, Result<Arc<Principal>, Response<Bytes>>> {
        Box::pin(self.0.admit(headers))
    }
}

impl WebPages for AuthServer {
    fn serves(&self, path: &str) -> bool {
        self.0.has_page(path)
    }

    fn respond(&self, request: Request<Bytes>, peer: IpAddr) -> BoxFuture<'_, Response<Bytes>> {
        Box::pin(async move { self.0.page(&request, peer).await })
    }
}
