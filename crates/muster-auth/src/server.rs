//! The protected endpoint: authentication of requests, and the endpoints by which clients obtain tokens.
//!
//! The gateway is an OAuth 2.1 resource server, and an authorization server in front of the identity
//! provider. Its own tokens are random; their records are in the storage.

mod authenticate;
mod authorize;
mod broker;
mod clients;
mod config;
mod endpoints;
mod logins;
mod metadata;
mod params;
mod provider;
pub(crate) mod rate_limit;
mod redirect_uri;
mod responses;
mod token;
mod token_cache;
mod trusted_proxies;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use muster_core::{
    backend::BoxFuture,
    call::Caller,
    credentials::{Admission, Authenticator, Peer, Principal, WebPages},
};
use muster_net::{HttpClient, Url};
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::task::TaskTracker;

use self::{
    authenticate::TrustedIssuerKeys, provider::Provider, rate_limit::RateLimit,
    token_cache::TokenCache,
};
pub use self::{
    config::{
        AuthConfig, BrokerConfig, BrokerTargetConfig, ConfigError, OwnCallback, ProviderConfig,
        ProviderKind, ServerConfig, StorageConfig, TrustedIssuerConfig, load, replica_storage,
    },
    trusted_proxies::TrustedProxies,
};
use crate::{
    clock::Clock,
    jwks::JwksCache,
    keyed_lock::KeyedLock,
    principal_list::SharedPrincipalList,
    store::{self, KeyValueStore, MemoryStore, StoreError, Vault},
};

/// How many unknown tokens are looked up at the provider concurrently.
const MAX_LOOKUPS: usize = 16;

/// How long the shutdown waits for requests to the provider in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// The authorization server of the gateway. It also authenticates requests.
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
    trusted: Vec<TrustedIssuerKeys>,
    vault: Vault,
    http: HttpClient,
    clock: Clock,
    tokens: TokenCache,
    locks: KeyedLock,
    /// Token requests, which complete even if their caller is cancelled.
    tasks: TaskTracker,
    /// Limits concurrent lookups of unknown tokens at the provider.
    lookups: Semaphore,
    /// Limits the requests of an address to all OAuth endpoints together, the token endpoint included.
    request_limit: RateLimit,
    /// Limits the registrations of an address.
    registration_limit: RateLimit,
    /// Limits lookups of tokens that the provider does not know.
    invalid_tokens: RateLimit,
}

impl AuthServer {
    /// Starts a server with its configuration.
    pub fn start(config: AuthConfig) -> Result<Self, ConfigError> {
        let clock = Clock::system();
        let store: Arc<dyn KeyValueStore> = match &config.storage {
            StorageConfig::Memory => Arc::new(MemoryStore::new(clock.clone())),
            StorageConfig::Valkey(options) => store::open(options, &config.trust)?,
        };
        let http = HttpClient::new(Arc::new(config.trust));
        Ok(Self::new(config.server, Vault::new(store, config.seal), http, clock))
    }

    /// Creates a server from its parts.
    pub fn new(config: ServerConfig, vault: Vault, http: HttpClient, clock: Clock) -> Self {
        let keys = |one: &TrustedIssuerConfig| {
            let keys = match &one.jwks_url {
                Some(url) => JwksCache::new(http.clone(), url.clone(), one.policy),
                None => {
                    let base = one.issuer.trim_end_matches('/');
                    JwksCache::discovered(http.clone(), base, one.policy)
                }
            };
            keys.with_private_hosts(one.private_hosts.clone())
        };
        let trusted = config
            .trusted_issuers
            .iter()
            .map(|one| TrustedIssuerKeys { keys: keys(one), config: one.clone() });
        let trusted = trusted.collect();
        let provider = Provider::new(config.provider.clone(), http.clone(), clock.clone());
        Self(Arc::new(Inner {
            provider,
            trusted,
            config,
            vault,
            http,
            clock,
            tokens: TokenCache::default(),
            locks: KeyedLock::default(),
            tasks: TaskTracker::new(),
            lookups: Semaphore::new(MAX_LOOKUPS),
            request_limit: RateLimit::of_requests(),
            registration_limit: RateLimit::new(10, Duration::from_secs(6 * 60)),
            invalid_tokens: RateLimit::new(20, Duration::from_millis(500)),
        }))
    }

    /// Discovers the identity provider, retrying until it succeeds. The gateway runs meanwhile, and responds to
    /// logins with `temporarily_unavailable`.
    pub async fn discover_provider(&self) {
        self.0.provider.discover_with_retries().await;
    }

    /// Waits for token requests in flight, so that no refreshed token is lost at shutdown.
    pub async fn drain(&self) {
        self.0.tasks.close();
        drop(timeout(DRAIN_TIMEOUT, self.0.tasks.wait()).await);
    }

    /// Why logins do not work yet, for the health endpoint; `None` if they do.
    pub fn pending_reason(&self) -> Option<&'static str> {
        (!self.0.provider.is_discovered()).then_some("oidc-discovery-pending")
    }

    /// The origins of web pages that may send requests.
    pub fn origins(&self) -> &[String] {
        &self.0.config.origins
    }

    /// The users who may log in. The list may be replaced at any time.
    pub fn allowed_users(&self) -> SharedPrincipalList {
        self.0.config.allowed.clone()
    }

    /// The storage of logins, which logins at servers share.
    pub fn vault(&self) -> Vault {
        self.0.vault.clone()
    }

    /// The gateway's URL, without a trailing slash.
    pub(crate) fn base_url(&self) -> &str {
        &self.0.config.base_url
    }

    /// The id of the principal who last logged in with a browser.
    pub(crate) async fn browser_principal(
        &self,
        headers: &HeaderMap,
    ) -> Result<Option<String>, StoreError> {
        self.0.browser_principal(headers).await
    }

    /// Logs in the user of a browser, which then returns to a page of the gateway.
    pub(crate) async fn browser_login(
        &self,
        headers: &HeaderMap,
        return_to: String,
    ) -> Response<Bytes> {
        let reply = self.0.browser_login(headers, return_to).await;
        reply.unwrap_or_else(|error| responses::error(&error))
    }

    /// The address of the client behind trusted proxies.
    pub(crate) fn client_ip(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        self.0.config.proxies.client_ip(headers, peer)
    }

    /// The issuer of the identity provider.
    pub(crate) fn issuer(&self) -> &str {
        &self.0.provider.config.issuer
    }

    /// Whether a user may use the gateway after a login.
    pub(crate) fn allows(&self, Principal { id, email, groups, .. }: &Principal) -> bool {
        self.0.config.allows(id, email.as_deref(), groups)
    }

    /// Whether the gateway issued a login and it has not ended.
    pub(crate) async fn has_login(&self, id: &str) -> Result<bool, StoreError> {
        Ok(self.0.login(id).await?.is_some())
    }

    /// Finds the login with a session id, if the gateway issued it.
    pub(crate) async fn login_of_session(
        &self,
        session: &str,
    ) -> Result<Option<String>, StoreError> {
        self.0.login_of_session(session).await
    }

    /// Returns the principal that a token of `client` for a session has now; `None` if the login has ended or the user
    /// may no longer use the gateway.
    pub(crate) async fn principal_of_session(
        &self,
        session: &str,
        client: &str,
    ) -> Result<Option<Principal>, StoreError> {
        let Some(id) = self.0.login_of_session(session).await? else { return Ok(None) };
        let Some(login) = self.0.login(&id).await? else { return Ok(None) };
        let principal = self.0.principal(&login, client);
        Ok(Some(principal).filter(|principal| self.allows(principal)))
    }

    /// Ends a login. Returns whether there was one.
    pub(crate) async fn end_login(&self, id: &str) -> Result<bool, StoreError> {
        if !self.has_login(id).await? {
            return Ok(false);
        }
        self.0.log_out(id).await?;
        Ok(true)
    }

    /// The host by which clients reach the gateway.
    pub fn host(&self) -> Option<String> {
        Url::parse(&self.0.config.base_url).ok().map(|url| url.host().to_owned())
    }
}

impl Authenticator for AuthServer {
    fn authenticate<'a>(
        &'a self,
        headers: &'a HeaderMap,
        _: &'a Peer,
    ) -> BoxFuture<'a, Result<Admission, Response<Bytes>>> {
        Box::pin(async move { self.0.authenticate(headers).await.map(Admission::of) })
    }

    fn still_admits<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            match &caller.principal {
                Some(principal) => self.0.still_admits(principal).await,
                None => true,
            }
        })
    }
}

impl WebPages for AuthServer {
    fn serves(&self, path: &str) -> bool {
        self.0.has_endpoint(path)
    }

    fn respond<'a>(
        &'a self,
        request: Request<Bytes>,
        peer: &'a Peer,
    ) -> BoxFuture<'a, Response<Bytes>> {
        Box::pin(async move { self.0.respond(&request, peer.ip()).await })
    }
}
