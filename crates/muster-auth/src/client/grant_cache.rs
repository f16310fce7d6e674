//! The cache of grants, with single-flight refresh.
//!
//! A refresh token is good for one use, so concurrent requests wait for one refresh. With shared storage
//! the same holds between gateways: a lease in the storage decides which of them refreshes.

use std::{sync::Arc, time::Duration};

use muster_core::{call::Owner, credentials::BearerToken, logins::LoginError};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use super::{
    OAuthClient,
    grant::{AccessToken, Grant},
};
use crate::{
    lock::Lock,
    oauth::{RevocableToken, TokenEndpoint, TokenRequestError, TokenResponse, revoke},
    random::digest_of,
    secret::Secret,
    store::StoreError,
};

/// How long an unused grant is stored.
const GRANT_TTL: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long another gateway may hold the lease to refresh a grant.
const LEASE_TTL: Duration = Duration::from_secs(20);
const LEASE_POLL: Duration = Duration::from_millis(100);
/// How many seconds a grant from shared storage is used without a look at the storage. A logout at
/// another gateway takes effect after this time.
const SHARED_TTL: u64 = 5;

/// One owner's grant of one issuer.
#[derive(Debug, Default)]
pub(super) struct GrantCacheEntry {
    grant: Lock<Option<Grant>>,
    /// When it was last synchronized with the storage, in seconds since 1970.
    synced: Lock<u64>,
    /// Held while the grant is loaded or refreshed, so that one caller does it for all.
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
    /// The cache entry of an owner's grant of an issuer, loaded from the storage.
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

    /// Loads a grant again if another gateway may have refreshed, extended or ended it.
    async fn sync(&self, owner: &Owner, entry: &GrantCacheEntry) {
        let Some(issuer) = entry.get().map(|grant| grant.issuer) else { return };
        let _loading = entry.refreshing.lock().await;
        if entry.is_stale(self.clock.now())
            && let Ok(stored) = self.load(owner, &issuer).await
        {
            entry.set(stored, self.clock.now());
        }
    }

    /// Stores the grant of a new login.
    pub(super) async fn add_grant(&self, owner: &Owner, mut grant: Grant) {
        let entry = self.entry(owner, &grant.issuer).await;
        let _refreshing = entry.refreshing.lock().await;
        if let Some(earlier) = entry.get() {
            match earlier.identity == grant.identity {
                true => grant.merge_earlier(earlier),
                // Tokens of another client id are useless to this one.
                false => self.revoke(&earlier).await,
            }
        }
        self.store(owner, &entry, grant).await;
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
        // The index is written each time, so that it never expires before the grant.
        let _writing = self.index_locks.lock(&index_key(owner)).await;
        let mut issuers = self.issuers_of(owner).await;
        if !issuers.contains(&issuer) {
            issuers.push(issuer);
        }
        if let Err(error) = self.vault.put(&index_key(owner), &issuers, GRANT_TTL).await {
            tracing::warn!("cannot store the index of a user's logins: {error}");
        }
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

    /// The issuers that an owner has grants of.
    pub(super) async fn issuers_of(&self, owner: &Owner) -> Vec<String> {
        self.vault.get(&index_key(owner)).await.ok().flatten().unwrap_or_default()
    }

    /// Removes and revokes an owner's grant of an issuer.
    pub(super) async fn drop_grant(&self, owner: &Owner, issuer: &str) {
        let entry = self.entry(owner, issuer).await;
        let _refreshing = entry.refreshing.lock().await;
        let grant = entry.grant.lock().take();
        entry.set(None, self.clock.now());
        if let Err(error) = self.vault.remove(&grant_key(owner, issuer)).await {
            tracing::warn!("cannot remove the tokens of a login from the storage: {error}");
        }
        if let Some(grant) = grant {
            self.revoke(&grant).await;
        }
    }

    /// Removes the logins that an owner has to a server at another address than now; false if there are none.
    pub(super) async fn drop_former_logins(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        server: &str,
        resource: &str,
    ) -> bool {
        let _refreshing = entry.refreshing.lock().await;
        let Some(mut grant) = entry.get() else { return false };
        let former = grant.former_resources(server, resource);
        if former.is_empty() {
            return false;
        }
        tracing::info!("a login to `{server}` has ended: the address of the server has changed");
        if former.len() < grant.access.len() {
            grant.access.retain(|known, _| !former.contains(known));
            self.store_refreshed(owner, entry, grant).await;
            return true;
        }
        drop(self.vault.remove(&grant_key(owner, &grant.issuer)).await);
        entry.set(None, self.clock.now());
        self.revoke(&grant).await;
        true
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

    /// An access token for a resource, refreshed if it expires soon or was `refused`.
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
        // The caller may be cancelled, but the tokens that replace a used refresh token must be stored.
        let refreshing = self.tasks.spawn(async move {
            this.single_flight_refresh(&owner, &entry, &resource, refused.as_ref()).await
        });
        let ended = |_| Err(LoginError::Unavailable("the gateway is shutting down".to_owned()));
        refreshing.await.unwrap_or_else(ended)
    }

    async fn single_flight_refresh(
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
        let timeout = if valid.is_some() { Duration::ZERO } else { LEASE_TTL + LEASE_POLL * 20 };
        match self.refresh(owner, entry, grant, resource, timeout).await {
            Ok(token) => Ok(token),
            Err(error) => valid.ok_or(error),
        }
    }

    async fn refresh(
        &self,
        owner: &Owner,
        entry: &GrantCacheEntry,
        mut grant: Grant,
        resource: &str,
        timeout: Duration,
    ) -> Result<BearerToken, LoginError> {
        let lease = format!("{}/renewing", grant_key(owner, &grant.issuer));
        if self.vault.is_shared() {
            match self.acquire_lease(owner, &grant, resource, &lease, timeout).await {
                Lease::Acquired => (),
                Lease::HeldElsewhere => {
                    let text = "another gateway is refreshing the login";
                    return Err(LoginError::Unavailable(text.to_owned()));
                }
                Lease::RefreshedElsewhere(stored) => {
                    entry.set(Some((*stored).clone()), self.clock.now());
                    grant = *stored;
                    if let Some(token) = entry.fresh(resource, self.clock.now()) {
                        self.release_lease(&lease).await;
                        return Ok(token);
                    }
                }
                Lease::EndedElsewhere => {
                    entry.set(None, self.clock.now());
                    self.release_lease(&lease).await;
                    return Err(LoginError::Required);
                }
            }
        }
        let Some(refresh) = grant.refresh_for(resource).cloned() else {
            self.release_lease(&lease).await;
            return Err(LoginError::Required);
        };
        let mut response = self.request_refresh(&grant, &refresh, resource).await;
        // The refresh token of the last login may work where the resource's own is used up.
        if let (Err(TokenRequestError::Grant(_)), Some(last)) = (&response, grant.refresh.clone())
            && last != refresh
        {
            response = self.request_refresh(&grant, &last, resource).await;
            if let Some(token) = grant.access.get_mut(resource) {
                token.refresh = None;
            }
        }
        let refreshed = match response {
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
        };
        self.release_lease(&lease).await;
        refreshed
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

    /// Removes what the issuer does not refresh any more: one resource, or the whole grant.
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

    /// Acquires the lease to refresh a grant, or waits for the gateway that holds it.
    async fn acquire_lease(
        &self,
        owner: &Owner,
        grant: &Grant,
        resource: &str,
        lease: &str,
        timeout: Duration,
    ) -> Lease {
        let deadline = Instant::now() + timeout;
        while !self.vault.claim(lease, &true, LEASE_TTL).await.unwrap_or(true) {
            if Instant::now() >= deadline {
                return Lease::HeldElsewhere;
            }
            sleep(LEASE_POLL).await;
        }
        // Load only with the lease: nobody else writes from here on.
        match self.load(owner, &grant.issuer).await {
            Ok(None) => Lease::EndedElsewhere,
            Ok(Some(stored)) if differ(grant, &stored, resource) => {
                Lease::RefreshedElsewhere(Box::new(stored))
            }
            Ok(Some(_)) | Err(_) => Lease::Acquired,
        }
    }

    async fn release_lease(&self, lease: &str) {
        if self.vault.is_shared()
            && let Err(error) = self.vault.remove(lease).await
        {
            tracing::debug!("cannot release the lease on a login, it expires by itself: {error}");
        }
    }
}

/// The outcome of acquiring the lease to refresh a grant.
enum Lease {
    /// This gateway holds it and has to refresh the grant.
    Acquired,
    /// Another gateway holds it, and the timeout has passed.
    HeldElsewhere,
    /// This gateway holds it, but another one has refreshed the grant before.
    RefreshedElsewhere(Box<Grant>),
    /// This gateway holds it, but another one has ended the login before.
    EndedElsewhere,
}

/// Whether a grant was refreshed. Some issuers return the same refresh token again.
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

fn index_key(owner: &Owner) -> String {
    format!("backend/logins/{}", owner_digest(owner))
}

/// A digest of an owner that reveals nothing and cannot collide between subjects and sessions.
fn owner_digest(owner: &Owner) -> String {
    match owner {
        Owner::Subject(id) => digest_of(&format!("subject {id}")),
        Owner::Session(id) => digest_of(&format!("session {id}")),
    }
}
