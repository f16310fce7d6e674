//! The cache of grants, with single-flight refresh.
//!
//! A refresh token can be used only once, so concurrent requests wait for a single refresh. With shared storage
//! this includes other gateways: a gateway acquires a lease on a grant and reloads it before it changes it.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use muster_core::{backend::boxed, call::Owner, credentials::BearerToken, logins::LoginError};
use tokio::sync::Mutex;

use super::{
    OAuthClient,
    grant::{AccessToken, Grant},
    lease::LEASE_TIMEOUT,
};
use crate::{
    lock::Lock,
    oauth::{RevocableToken, TokenEndpoint, TokenRequestError, TokenResponse, revoke},
    random::digest_of,
    secret::Secret,
    store::StoreError,
};

/// How long an unused grant is stored.
pub(super) const GRANT_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How many seconds a grant from shared storage is cached. A logout at another gateway takes effect within
/// this time.
const SHARED_TTL: u64 = 5;

/// The cached grants, by owner and issuer.
pub(super) type GrantCache = BTreeMap<(Owner, String), Arc<GrantCacheEntry>>;

/// One owner's grant of one issuer.
#[derive(Debug, Default)]
pub(super) struct GrantCacheEntry {
    grant: Lock<Option<Grant>>,
    /// When it was last synchronized with the storage, in seconds since 1970.
    synced: Lock<u64>,
    /// Held while the grant is loaded or refreshed, so that concurrent callers share one load or refresh.
    refreshing: Mutex<()>,
}

impl GrantCacheEntry {
    pub(super) fn get(&self) -> Option<Grant> {
        self.grant.lock().clone()
    }

    fn set(&self, grant: Option<Grant>, now: u64) {
        *self.grant.lock() = grant;
        *self.synced.lock() = now;
    }

    fn is_stale(&self, now: u64) -> bool {
        now.abs_diff(*self.synced.lock()) >= SHARED_TTL
    }

    /// The access token for a resource, however old.
    pub(super) fn latest(&self, resource: &str) -> Option<BearerToken> {
        self.grant.lock().as_ref()?.access.get(resource).map(AccessToken::bearer)
    }

    /// An access token that need not be refreshed, other than the `refused` one.
    fn usable(
        &self,
        resource: &str,
        refused: Option<&BearerToken>,
        now: u64,
    ) -> Option<BearerToken> {
        self.fresh(resource, now).filter(|token| refused.is_none_or(|refused| refused != token))
    }

    fn fresh(&self, resource: &str, now: u64) -> Option<BearerToken> {
        let grant = self.grant.lock();
        let token = grant.as_ref()?.access.get(resource)?;
        token.is_fresh(now).then(|| token.bearer())
    }
}

impl OAuthClient {
    /// Returns the cache entry of an owner's grant of an issuer, loading the grant from the storage if necessary.
    pub(super) async fn entry(&self, owner: &Owner, issuer: &str) -> Arc<GrantCacheEntry> {
        let entry = {
            let mut grants = self.grants.lock();
            if grants.len() >= super::MAX_ENTRIES {
                grants.retain(|_, entry| Arc::strong_count(entry) > 1);
            }
            let key = (owner.clone(), issuer.to_owned());
            Arc::clone(grants.entry(key).or_default())
        };
        if entry.grant.lock().is_none() {
            let _loading = entry.refreshing.lock().await;
            if entry.grant.lock().is_none() {
                let stored = self.load(owner, issuer).await.unwrap_or_default();
                entry.set(stored, self.clock.now());
            }
        }
        entry
    }

    async fn load(&self, owner: &Owner, issuer: &str) -> Result<Option<Grant>, StoreError> {
        let stored = self.vault.get(&grant_key(owner, issuer)).await;
        stored.inspect_err(|error| tracing::warn!("cannot load the tokens of a login: {error}"))
    }

    /// Reloads a grant if the cached one is stale: another gateway may have refreshed, extended or ended it.
    async fn sync(&self, owner: &Owner, entry: &GrantCacheEntry) {
        let Some(issuer) = entry.get().map(|grant| grant.issuer) else { return };
        let _loading = entry.refreshing.lock().await;
        if entry.is_stale(self.clock.now())
            && let Ok(stored) = self.load(owner, &issuer).await
        {
            entry.set(stored, self.clock.now());
        }
    }

    /// Returns the grant as it is stored now, or the cached one if the storage is not available. The caller holds the
    /// lease.
    async fn current(&self, owner: &Owner, entry: &GrantCacheEntry, issuer: &str) -> Option<Grant> {
        if self.vault.is_shared()
            && let Ok(stored) = self.load(owner, issuer).await
        {
            entry.set(stored, self.clock.now());
        }
        entry.get()
    }

    /// Stores the grant of a new login.
    pub(super) async fn add_grant(&self, owner: &Owner, mut grant: Grant) {
        let entry = self.entry(owner, &grant.issuer).await;
        let _refreshing = entry.refreshing.lock().await;
        let key = grant_key(owner, &grant.issuer);
        let lease = self.acquire_lease(&key, LEASE_TIMEOUT).await;
        if let Some(earlier) = self.current(owner, &entry, &grant.issuer).await {
            match earlier.identity == grant.identity {
                true => grant.merge_earlier(earlier),
                // Tokens that were issued to another client id cannot be used with this one.
                false => self.revoke(&earlier).await,
            }
        }
        self.store(owner, &entry, grant).await;
        if let Some(until) = lease {
            self.release_lease(&key, until).await;
        }
    }

    async fn store(&self, owner: &Owner, entry: &GrantCacheEntry, grant: Grant) {
        let stored = self.vault.put(&grant_key(owner, &grant.issuer), &grant, GRANT_TTL).await;
        self.stored(owner, entry, grant, stored).await;
    }

    async fn stored(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        grant: Grant,
        result: Result<(), StoreError>,
    ) {
        let issuer = grant.issuer.clone();
        entry.set(Some(grant), self.clock.now());
        if let Err(error) = result {
            tracing::warn!(
                "cannot store the tokens of a login, they live in this process only: {error}"
            );
        }
        // Write the index every time, so that it never expires before the grant.
        self.index_issuer(owner, &issuer).await;
    }

    /// Stores a refreshed grant, unless another gateway has ended the login meanwhile.
    async fn store_refreshed(&self, owner: &Owner, entry: &GrantCacheEntry, grant: Grant) {
        if !self.vault.is_shared() {
            return self.store(owner, entry, grant).await;
        }
        let stored = self.vault.replace(&grant_key(owner, &grant.issuer), &grant, GRANT_TTL).await;
        if let Ok(false) = stored {
            entry.set(None, self.clock.now());
            return self.revoke(&grant).await;
        }
        self.stored(owner, entry, grant, stored.map(drop)).await;
    }

    /// Removes and revokes an owner's grant of an issuer.
    pub(super) async fn drop_grant(&self, owner: &Owner, issuer: &str) {
        let entry = self.entry(owner, issuer).await;
        let _refreshing = entry.refreshing.lock().await;
        let cached = entry.get();
        entry.set(None, self.clock.now());
        // Another gateway may have refreshed it: the stored refresh token is the valid one.
        let grant = match self.vault.take(&grant_key(owner, issuer)).await {
            Ok(stored) => stored.or(cached),
            Err(error) => {
                tracing::warn!("cannot remove the tokens of a login from the storage: {error}");
                cached
            }
        };
        if let Some(grant) = grant {
            self.revoke(&grant).await;
        }
    }

    /// Removes an owner's logins to a server from before its address changed. Returns whether there were any.
    pub(super) async fn drop_former_logins(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        server: &str,
        resource: &str,
    ) -> bool {
        let has_former = |grant: &Grant| !grant.former_resources(server, resource).is_empty();
        let Some(cached) = entry.get().filter(has_former) else { return false };
        let _refreshing = entry.refreshing.lock().await;
        let key = grant_key(owner, &cached.issuer);
        // Without the lease, leave their removal to the next call.
        let Some(until) = self.acquire_lease(&key, LEASE_TIMEOUT).await else { return true };
        // The cached grant may be old: the user may have logged in again at another gateway.
        let grant = self.current(owner, entry, &cached.issuer).await;
        let has_moved = grant.as_ref().is_none_or(has_former);
        if let Some(grant) = grant {
            self.remove_former(owner, entry, grant, (server, resource)).await;
        }
        self.release_lease(&key, until).await;
        has_moved
    }

    /// Removes the logins to a server at its former address from a grant. The caller holds the lease.
    async fn remove_former(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        mut grant: Grant,
        (server, resource): (&str, &str),
    ) {
        let former = grant.former_resources(server, resource);
        if former.is_empty() {
            return;
        }
        tracing::info!("a login to `{server}` has ended: the address of the server has changed");
        if former.len() < grant.access.len() {
            grant.access.retain(|known, _| !former.contains(known));
            return self.store_refreshed(owner, entry, grant).await;
        }
        drop(self.vault.remove(&grant_key(owner, &grant.issuer)).await);
        entry.set(None, self.clock.now());
        self.revoke(&grant).await;
    }

    async fn revoke(&self, grant: &Grant) {
        let Some(endpoint) = &grant.revocation_endpoint else { return };
        for refresh in grant.refresh_tokens() {
            let (policy, token) = (self.options.policy, RevocableToken::Refresh(refresh));
            let revoked = revoke(&self.http, endpoint, policy, &grant.identity, token).await;
            if let Err(error) = revoked {
                tracing::debug!("cannot revoke a refresh token at its issuer: {error}");
            }
        }
    }

    /// Returns an access token for a resource, refreshed if it expires soon or was `refused`.
    pub(super) async fn token(
        self: &Arc<Self>,
        owner: &Owner,
        entry: &Arc<GrantCacheEntry>,
        resource: &str,
        refused: Option<&BearerToken>,
    ) -> Result<BearerToken, LoginError> {
        if self.vault.is_shared() && entry.is_stale(self.clock.now()) {
            self.sync(owner, entry).await;
        }
        if let Some(token) = entry.usable(resource, refused, self.clock.now()) {
            return Ok(token);
        }
        let (this, owner, entry) = (Arc::clone(self), owner.clone(), Arc::clone(entry));
        let (resource, refused) = (resource.to_owned(), refused.cloned());
        // Spawned, because the caller may be cancelled: the tokens that replace a used refresh token must be stored.
        let refreshing = self.tasks.spawn(boxed(async move {
            this.refresh_server_token(&owner, &entry, &resource, refused.as_ref()).await
        }));
        let ended = |_| Err(LoginError::Unavailable("the gateway is shutting down".to_owned()));
        refreshing.await.unwrap_or_else(ended)
    }

    /// Refreshes the token of a server as single flight: concurrent callers share one request.
    async fn refresh_server_token(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        resource: &str,
        refused: Option<&BearerToken>,
    ) -> Result<BearerToken, LoginError> {
        let _refreshing = entry.refreshing.lock().await;
        // The caller before this one may have refreshed it.
        if let Some(token) = entry.usable(resource, refused, self.clock.now()) {
            return Ok(token);
        }
        let grant = entry.get().ok_or(LoginError::Required)?;
        let now = self.clock.now();
        let valid = grant.access.get(resource).filter(|token| token.is_valid(now));
        let valid = valid.map(AccessToken::bearer);
        let valid = valid.filter(|token| refused.is_none_or(|refused| refused != token));
        // A token that is still valid is better than an error or a wait for another gateway.
        let timeout = if valid.is_some() { Duration::ZERO } else { LEASE_TIMEOUT };
        match self.refresh(owner, entry, grant, resource, timeout).await {
            Ok(token) => Ok(token),
            Err(error) => valid.ok_or(error),
        }
    }

    async fn refresh(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        grant: Grant,
        resource: &str,
        timeout: Duration,
    ) -> Result<BearerToken, LoginError> {
        let key = grant_key(owner, &grant.issuer);
        let Some(until) = self.acquire_lease(&key, timeout).await else {
            let text = "another gateway is refreshing the login";
            return Err(LoginError::Unavailable(text.to_owned()));
        };
        let refreshed = self.refresh_leased(owner, entry, grant, resource).await;
        self.release_lease(&key, until).await;
        refreshed
    }

    /// Refreshes a grant, unless another gateway did so before. The caller holds the lease.
    async fn refresh_leased(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        cached: Grant,
        resource: &str,
    ) -> Result<BearerToken, LoginError> {
        // Reload the grant: other resources may have new tokens, which must not be overwritten.
        let mut grant =
            self.current(owner, entry, &cached.issuer).await.ok_or(LoginError::Required)?;
        if differ(&cached, &grant, resource)
            && let Some(token) = entry.fresh(resource, self.clock.now())
        {
            return Ok(token);
        }
        let refresh = grant.refresh_for(resource).cloned().ok_or(LoginError::Required)?;
        let mut response = self.request_refresh(&grant, &refresh, resource).await;
        // The refresh token of the last login may still work if the resource's own is no longer valid.
        if let (Err(TokenRequestError::Grant(_)), Some(last)) = (&response, grant.refresh.clone())
            && last != refresh
        {
            response = self.request_refresh(&grant, &last, resource).await;
            if let Some(token) = grant.access.get_mut(resource) {
                token.refresh = None;
            }
        }
        match response {
            Ok(response) => {
                grant.update(resource, response, self.clock.now());
                self.store_refreshed(owner, entry, grant).await;
                entry.latest(resource).ok_or(LoginError::Required)
            }
            Err(error @ (TokenRequestError::Grant(_) | TokenRequestError::Client(_))) => {
                tracing::debug!("a login has ended: {error}");
                self.end_grant(owner, entry, grant, resource, &error).await;
                Err(LoginError::Required)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn request_refresh(
        &self,
        grant: &Grant,
        refresh: &Secret,
        resource: &str,
    ) -> Result<TokenResponse, TokenRequestError> {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.reveal().as_str()),
            ("resource", resource),
        ];
        let (url, client, policy) = (&grant.token_endpoint, &grant.identity, self.options.policy);
        let endpoint = TokenEndpoint { url, client, policy };
        endpoint.request(&self.http, &fields, &[refresh.reveal()]).await
    }

    /// Removes the token of a resource that the issuer refuses to refresh. If it was the last token of the grant, removes
    /// the whole grant.
    async fn end_grant(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        mut grant: Grant,
        resource: &str,
        error: &TokenRequestError,
    ) {
        if let TokenRequestError::Client(_) = error {
            self.drop_registration(&grant.issuer).await;
        }
        grant.access.remove(resource);
        // Tokens for other resources may still be valid.
        match grant.access.is_empty() {
            false => self.store_refreshed(owner, entry, grant).await,
            true => {
                drop(self.vault.remove(&grant_key(owner, &grant.issuer)).await);
                entry.set(None, self.clock.now());
            }
        }
    }
}

/// Whether two versions of a grant have different tokens for a resource. Some issuers return the same refresh token
/// again, so the access token is compared too.
fn differ(left: &Grant, right: &Grant, resource: &str) -> bool {
    let tokens = |grant: &Grant| {
        let access = grant.access.get(resource).map(|token| token.token.clone());
        (grant.refresh_for(resource).cloned(), access)
    };
    tokens(left) != tokens(right)
}

fn grant_key(owner: &Owner, issuer: &str) -> String {
    format!("backend/login/{}/{}", owner_digest(owner), digest_of(issuer))
}

/// A digest of an owner. It reveals nothing, and a subject and a session never have the same digest.
pub(super) fn owner_digest(owner: &Owner) -> String {
    match owner {
        Owner::Subject(id) => digest_of(&format!("subject {id}")),
        Owner::Session(id) => digest_of(&format!("session {id}")),
    }
}
