//! The gateway as an OAuth client: it obtains tokens for users at the servers behind it.
//!
//! Grants are stored by owner and issuer, and each access token by the resource it is for. A token leaves
//! this module only in requests to its issuer, or through an [`AccessTokenSource`] for one owner and one server.

pub(crate) mod client_credentials;
mod grant;
mod grant_access;
mod grant_cache;
mod id_token_access;
mod issuer_index;
mod lease;
mod login_flow;
mod login_link;
mod post_login_redirects;
mod registration;
mod scopes;
mod step_up;
mod web_pages;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use muster_core::{
    backend::BoxFuture,
    logins::{
        AccessTokenSource, AuthMethod, IssuerInfo, LoginError, LoginObserver, LoginService,
        LoginSubject, ProtectedServer,
    },
    secret_source::SecretSource,
};
use muster_net::{AddressPolicy, HttpClient, Url};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

pub use self::{
    client_credentials::SecretLocation,
    post_login_redirects::{InvalidRedirect, PostLoginRedirects},
    web_pages::OAuthClientPages,
};
use self::{
    grant_access::GrantAccess,
    grant_cache::GrantCache,
    id_token_access::{ExchangedToken, ForwardedToken},
    login_flow::LoginWaiter,
    step_up::StepUp,
};
use crate::{
    clock::Clock,
    keyed_lock::KeyedLock,
    lock::Lock,
    oauth::{
        BearerChallenge, Discovered, DiscoveryError, MetadataFetcher, TokenRequestError,
        same_issuer,
    },
    secret::Secret,
    server::{AuthServer, rate_limit::RateLimit},
    store::Vault,
};

const NAME: &str = "muster";
const DEFAULT_SCOPES: &str = "openid profile email groups offline_access";
/// The maximum number of entries of each map that this client keeps in memory.
const MAX_ENTRIES: usize = 10_000;
/// How long the shutdown waits for token requests in flight.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Configuration of an [`OAuthClient`].
#[derive(Debug, Clone)]
pub struct OAuthClientOptions {
    /// The URL by which browsers reach the gateway, without a trailing slash.
    pub public_url: String,
    /// The client id; empty for the URL of the gateway's client metadata document.
    pub client_id: String,
    /// The client secret, for issuers where the client is pre-registered.
    pub client_secret: Option<Secret>,
    /// The path of the redirect URI.
    pub callback_path: String,
    /// The path of the client metadata document.
    pub document_path: String,
    /// The scopes in that document.
    pub scopes: String,
    /// The only issuer that the client id and secret are sent to; empty for all issuers.
    pub client_issuer: String,
    /// The folder of secrets that server files refer to.
    pub secrets: Option<PathBuf>,
    /// The secrets of a cluster, used instead of that folder.
    pub cluster: Option<Arc<dyn SecretSource>>,
    /// Which networks issuers may be in.
    pub policy: AddressPolicy,
    /// The gateway's own logins, which bind a login link to the browser of its owner.
    pub browser_logins: Option<AuthServer>,
    /// Whether browsers on this machine must belong to the gateway's own user, if the gateway requires no logins.
    pub own_browsers_only: bool,
    /// The pages that a login link may redirect to after the login.
    pub redirects: PostLoginRedirects,
}

impl OAuthClientOptions {
    /// The defaults for a gateway at `public_url`. Issuers on this machine are allowed only if the gateway
    /// is on it, too.
    pub fn new(public_url: &str) -> Self {
        let local = Url::parse(public_url).is_ok_and(|url| url.is_loopback());
        Self {
            public_url: public_url.trim_end_matches('/').to_owned(),
            client_id: String::new(),
            client_secret: None,
            client_issuer: String::new(),
            secrets: None,
            cluster: None,
            callback_path: "/oauth/proxy/callback".to_owned(),
            document_path: "/.well-known/oauth-client.json".to_owned(),
            scopes: DEFAULT_SCOPES.to_owned(),
            policy: if local { AddressPolicy::Loopback } else { AddressPolicy::Public },
            browser_logins: None,
            own_browsers_only: false,
            redirects: PostLoginRedirects::default(),
        }
    }

    fn callback_url(&self) -> String {
        format!("{}{}", self.public_url, self.callback_path)
    }

    fn document_url(&self) -> String {
        format!("{}{}", self.public_url, self.document_path)
    }

    fn serves_document(&self) -> bool {
        self.client_id.is_empty() || self.client_id == self.document_url()
    }
}

/// Logs users in at servers, and supplies their tokens.
#[derive(Debug)]
pub struct OAuthClient {
    options: OAuthClientOptions,
    http: HttpClient,
    vault: Vault,
    clock: Clock,
    /// Token requests, which complete even if their caller is cancelled.
    tasks: TaskTracker,
    grants: Lock<GrantCache>,
    waiters: Lock<BTreeMap<String, LoginWaiter>>,
    /// The discovered issuers, by server name.
    issuers: Lock<BTreeMap<String, ServerIssuer>>,
    step_up: StepUp,
    /// Serializes updates of each owner's index of issuers.
    index_locks: KeyedLock,
    /// Limits requests for the pages of logins.
    page_limit: RateLimit,
}

/// The issuer that was discovered for a server.
#[derive(Debug, Clone)]
struct ServerIssuer {
    server_url: String,
    issuer: String,
    scope: String,
    resource: String,
}

impl From<DiscoveryError> for LoginError {
    fn from(error: DiscoveryError) -> Self {
        match error {
            DiscoveryError::NoIssuer(reason) => Self::UnknownIssuer(reason),
            DiscoveryError::Untrusted(reason) => Self::Refused(reason),
        }
    }
}

impl From<TokenRequestError> for LoginError {
    fn from(error: TokenRequestError) -> Self {
        match error {
            TokenRequestError::Grant(reason)
            | TokenRequestError::Client(reason)
            | TokenRequestError::Other(reason) => Self::Refused(reason),
            TokenRequestError::Unavailable(reason) => Self::Unavailable(reason),
        }
    }
}

impl OAuthClient {
    /// Creates a client that stores grants in `vault`.
    pub fn new(
        options: OAuthClientOptions,
        http: HttpClient,
        vault: Vault,
        clock: Clock,
    ) -> Arc<Self> {
        Arc::new(Self {
            options,
            http,
            vault,
            clock,
            tasks: TaskTracker::new(),
            grants: Lock::default(),
            waiters: Lock::default(),
            issuers: Lock::default(),
            step_up: StepUp::default(),
            index_locks: KeyedLock::default(),
            page_limit: RateLimit::of_requests(),
        })
    }

    /// Waits for token requests in flight, so that no refreshed token is lost at shutdown.
    pub async fn drain(&self) {
        self.tasks.close();
        drop(timeout(DRAIN_TIMEOUT, self.tasks.wait()).await);
    }

    /// The host by which browsers and issuers reach the gateway.
    pub fn host(&self) -> Option<String> {
        Url::parse(&self.options.public_url).ok().map(|url| url.host().to_owned())
    }

    /// The port through which the gateway uses this client.
    pub fn logins(self: &Arc<Self>) -> Arc<dyn LoginService> {
        Arc::new(LoginsAdapter(Arc::clone(self)))
    }

    /// The web pages for browsers and issuers.
    pub fn pages(self: &Arc<Self>) -> OAuthClientPages {
        OAuthClientPages(Arc::clone(self))
    }

    async fn discover(&self, site: &ProtectedServer) -> Result<Discovered, LoginError> {
        let challenge = BearerChallenge::parse(site.challenge.as_deref().unwrap_or_default());
        let pin = site.auth.authorization_server.as_ref().filter(|pin| !pin.issuer.is_empty());
        let discovery = MetadataFetcher { http: &self.http, policy: self.options.policy };
        let pinned = pin.map(|pin| pin.issuer.as_str());
        let mut discovered = discovery.discover(&site.url, &challenge, pinned).await?;
        if let Some(pin) = pin.filter(|pin| !pin.scopes.trim().is_empty()) {
            pin.scopes.trim().clone_into(&mut discovered.scope);
        }
        Ok(discovered)
    }

    fn remember_issuer(&self, site: &ProtectedServer, discovered: &Discovered) {
        let issuer = ServerIssuer {
            server_url: site.url.clone(),
            issuer: discovered.issuer.issuer.clone(),
            scope: discovered.scope.clone(),
            resource: discovered.resource.clone(),
        };
        self.issuers.lock().insert(site.name.clone(), issuer);
    }

    /// The issuer that was discovered for a server, unless the server's file has changed since.
    fn known_issuer(&self, site: &ProtectedServer) -> Option<ServerIssuer> {
        let pin = site.auth.authorization_server.as_ref().map(|pin| pin.issuer.as_str());
        let pin = pin.filter(|issuer| !issuer.is_empty());
        let is_current = |known: &&ServerIssuer| {
            known.server_url == site.url && pin.is_none_or(|pin| same_issuer(pin, &known.issuer))
        };
        self.issuers.lock().get(&site.name).filter(is_current).cloned()
    }

    async fn issuer_of(&self, site: &ProtectedServer) -> Result<ServerIssuer, LoginError> {
        if let Some(known) = self.known_issuer(site) {
            return Ok(known);
        }
        let discovered = self.discover(site).await?;
        self.remember_issuer(site, &discovered);
        self.known_issuer(site).ok_or(LoginError::Required)
    }

    async fn grant_access(
        self: &Arc<Self>,
        person: &LoginSubject,
        site: &ProtectedServer,
    ) -> Result<Arc<dyn AccessTokenSource>, LoginError> {
        let issuer = self.issuer_of(site).await?;
        let entry = self.entry(&person.owner, &issuer.issuer).await;
        // A login is valid only for the address that the user saw when logging in.
        let has_moved =
            self.drop_former_logins(&person.owner, &entry, &site.name, &issuer.resource).await;
        if has_moved || entry.get().is_none() {
            return Err(LoginError::Required);
        }
        checked(GrantAccess {
            client: Arc::clone(self),
            owner: person.owner.clone(),
            server: site.name.clone(),
            entry,
            resource: issuer.resource,
        })
        .await
    }
}

/// Fetches a token once, so that a missing login is reported now and not by the first request.
async fn checked(
    access: impl AccessTokenSource + 'static,
) -> Result<Arc<dyn AccessTokenSource>, LoginError> {
    access.token().await?;
    Ok(Arc::new(access))
}

/// Implements the gateway's port.
#[derive(Debug)]
struct LoginsAdapter(Arc<OAuthClient>);

impl LoginService for LoginsAdapter {
    fn access<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<Arc<dyn AccessTokenSource>, LoginError>> {
        Box::pin(async move {
            let client = &self.0;
            match AuthMethod::of(&site.auth) {
                AuthMethod::Login => client.grant_access(person, site).await,
                AuthMethod::Forwarded => checked(ForwardedToken::new(client, person)).await,
                AuthMethod::Exchanged => checked(ExchangedToken::new(client, person, site)).await,
            }
        })
    }

    fn begin<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
        arrived: Arc<dyn LoginObserver>,
    ) -> BoxFuture<'a, Result<String, LoginError>> {
        Box::pin(self.0.start(person, site, arrived))
    }

    fn forget<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.step_up.clear(&person.owner, Some(&site.name));
            if AuthMethod::of(&site.auth).is_silent() {
                return;
            }
            if let Ok(issuer) = self.0.issuer_of(site).await {
                self.0.drop_grant(&person.owner, &issuer.issuer).await;
            }
        })
    }

    fn forget_all<'a>(&'a self, person: &'a LoginSubject) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.0.step_up.clear(&person.owner, None);
            let issuers = self.0.issuers_of(&person.owner).await.unwrap_or_else(|error| {
                tracing::warn!("cannot end all logins of a user: {error}");
                self.0.cached_issuers(&person.owner)
            });
            for issuer in issuers {
                self.0.drop_grant(&person.owner, &issuer).await;
            }
        })
    }

    fn has_stored_login<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, Result<bool, LoginError>> {
        Box::pin(async move {
            let issuers = self.0.issuers_of(&person.owner).await;
            let issuers = issuers.map_err(|error| LoginError::Unavailable(error.to_string()))?;
            if issuers.is_empty() {
                return Ok(false);
            }
            // A server names its own issuer, so a grant of that issuer proves nothing: only a token for this server
            // counts.
            let issuer = self.0.issuer_of(site).await?;
            let entry = self.0.entry(&person.owner, &issuer.issuer).await;
            Ok(entry.get().is_some_and(|grant| grant.access.contains_key(&issuer.resource)))
        })
    }

    fn needs_step_up<'a>(
        &'a self,
        person: &'a LoginSubject,
        site: &'a ProtectedServer,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let wanted = self.0.step_up.wanted(&person.owner, &site.name);
            let Some(wanted) = wanted else { return false };
            let Ok(issuer) = self.0.issuer_of(site).await else { return false };
            let grant = self.0.entry(&person.owner, &issuer.issuer).await.get();
            // Another gateway may have completed the step-up meanwhile.
            grant.is_some_and(|grant| !scopes::covers(&grant.scope, &wanted))
        })
    }

    fn issuer(&self, site: &ProtectedServer) -> IssuerInfo {
        let known = self.0.known_issuer(site);
        known
            .map(|ServerIssuer { issuer, scope, .. }| IssuerInfo { issuer, scope })
            .unwrap_or_default()
    }
}
