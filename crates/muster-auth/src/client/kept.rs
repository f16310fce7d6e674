//! How what someone was given by an issuer is kept and renewed: once, however many ask.

use std::{sync::Arc, time::Duration};

use muster_core::{call::Owner, credentials::BearerToken, logins::LoginError};
use tokio::{
    sync::Mutex,
    time::{Instant, sleep},
};

use super::{
    Client,
    given::{Grant, Token},
    grants::{Counter, Denied, Tokens},
};
use crate::{lock::Lock, random::digest_of, secret::Secret, store::StoreError};

/// What can be renewed is kept this long without being used.
const KEEP: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long another gateway may take to renew what is shared.
const OTHERS: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(100);
/// How long what is shared is not looked at again: so long a logout at another gateway goes unseen.
const SHARED: u64 = 5;

/// The place of what one owner has of one issuer.
#[derive(Debug, Default)]
pub(super) struct Slot {
    grant: Lock<Option<Grant>>,
    /// When it was last the same as what is stored, in seconds since 1970.
    seen: Lock<u64>,
    /// Held while it is read or renewed, so that one does it for all.
    busy: Mutex<()>,
}

impl Slot {
    pub(super) fn get(&self) -> Option<Grant> {
        self.grant.lock().clone()
    }

    fn set(&self, grant: Option<Grant>, now: u64) {
        *self.grant.lock() = grant;
        *self.seen.lock() = now;
    }

    fn is_old(&self, now: u64) -> bool {
        now.abs_diff(*self.seen.lock()) >= SHARED
    }

    pub(super) fn latest(&self, resource: &str) -> Option<BearerToken> {
        self.grant.lock().as_ref()?.access.get(resource).map(Token::bearer)
    }

    /// A token that need not be renewed.
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

impl Client {
    /// The place of what an owner has of an issuer, filled with what is kept.
    pub(super) async fn slot(&self, owner: &Owner, issuer: &str) -> Arc<Slot> {
        let slot = {
            let mut slots = self.slots.lock();
            if slots.len() >= super::MOST {
                slots.retain(|_, slot| Arc::strong_count(slot) > 1);
            }
            let key = (owner.clone(), issuer.to_owned());
            Arc::clone(slots.entry(key).or_default())
        };
        if slot.grant.lock().is_none() {
            let _turn = slot.busy.lock().await;
            if slot.grant.lock().is_none() {
                let stored = self.stored(owner, issuer).await.unwrap_or_default();
                slot.set(stored, self.clock.now());
            }
        }
        slot
    }

    async fn stored(&self, owner: &Owner, issuer: &str) -> Result<Option<Grant>, StoreError> {
        let stored = self.vault.get(&name(owner, issuer)).await;
        stored.inspect_err(|error| {
            tracing::warn!("what is kept of a login cannot be used: {error}");
        })
    }

    /// Sees what other gateways have done to a login: renewed it, widened it, or ended it.
    async fn look_again(&self, owner: &Owner, slot: &Slot) {
        let Some(issuer) = slot.get().map(|grant| grant.issuer) else { return };
        let _turn = slot.busy.lock().await;
        if slot.is_old(self.clock.now())
            && let Ok(stored) = self.stored(owner, &issuer).await
        {
            slot.set(stored, self.clock.now());
        }
    }

    /// Keeps what someone was given by a login.
    pub(super) async fn keep(&self, owner: &Owner, mut grant: Grant) {
        let slot = self.slot(owner, &grant.issuer).await;
        let _turn = slot.busy.lock().await;
        if let Some(before) = slot.get() {
            match before.identity == grant.identity {
                true => grant.follow(before),
                // What another client was given is of no use to this one.
                false => self.revoke(&before).await,
            }
        }
        self.put(owner, &slot, grant).await;
    }

    async fn put(&self, owner: &Owner, slot: &Slot, grant: Grant) {
        let stored = self.vault.put(&name(owner, &grant.issuer), &grant, KEEP).await;
        self.is_kept(owner, slot, grant, stored).await;
    }

    async fn is_kept(
        &self,
        owner: &Owner,
        slot: &Slot,
        grant: Grant,
        stored: Result<(), StoreError>,
    ) {
        let issuer = grant.issuer.clone();
        slot.set(Some(grant), self.clock.now());
        if let Err(error) = stored {
            tracing::warn!("a login is kept in this process only: {error}");
        }
        // Each time, so that the one never ends before the other.
        let _turn = self.turns.wait(&index(owner)).await;
        let mut known = self.issuers_of(owner).await;
        if !known.contains(&issuer) {
            known.push(issuer);
        }
        if let Err(error) = self.vault.put(&index(owner), &known, KEEP).await {
            tracing::warn!("a login will not be found again: {error}");
        }
    }

    /// Keeps what was renewed, unless another gateway has ended the login meanwhile.
    async fn put_again(&self, owner: &Owner, slot: &Slot, grant: Grant) {
        if !self.vault.is_shared() {
            return self.put(owner, slot, grant).await;
        }
        let stored = self.vault.replace(&name(owner, &grant.issuer), &grant, KEEP).await;
        if let Ok(false) = stored {
            slot.set(None, self.clock.now());
            return self.revoke(&grant).await;
        }
        self.is_kept(owner, slot, grant, stored.map(drop)).await;
    }

    /// The issuers of whom an owner has something.
    pub(super) async fn issuers_of(&self, owner: &Owner) -> Vec<String> {
        self.vault.get(&index(owner)).await.ok().flatten().unwrap_or_default()
    }

    /// Forgets what an owner has of an issuer, which is told if it wants to know.
    pub(super) async fn drop_grant(&self, owner: &Owner, issuer: &str) {
        let slot = self.slot(owner, issuer).await;
        let _turn = slot.busy.lock().await;
        let grant = slot.grant.lock().take();
        slot.set(None, self.clock.now());
        if let Err(error) = self.vault.remove(&name(owner, issuer)).await {
            tracing::warn!("a login is not forgotten in storage: {error}");
        }
        if let Some(grant) = grant {
            self.revoke(&grant).await;
        }
    }

    async fn revoke(&self, grant: &Grant) {
        let Some(endpoint) = &grant.revocation_endpoint else { return };
        for refresh in grant.refreshes() {
            let mut fields =
                vec![("token", refresh.reveal().as_str()), ("token_type_hint", "refresh_token")];
            let proof = super::identity::prove(&grant.identity, &mut fields);
            let mut outgoing =
                muster_net::HttpRequest::form(endpoint.as_str(), self.options.reach, &fields);
            if let Some((name, value)) = proof {
                outgoing = outgoing.header(name, &value);
            }
            if let Err(error) = self.dialer.send(outgoing).await {
                tracing::debug!("an issuer was not told of a logout: {error}");
            }
        }
    }

    /// A token for one resource, renewed if it is about to end, or if it is `refused`.
    pub(super) async fn token(
        self: &Arc<Self>,
        owner: &Owner,
        slot: &Arc<Slot>,
        resource: &str,
        refused: Option<&BearerToken>,
    ) -> Result<BearerToken, LoginError> {
        if self.vault.is_shared() && slot.is_old(self.clock.now()) {
            self.look_again(owner, slot).await;
        }
        if let Some(token) = slot.usable(resource, refused, self.clock.now()) {
            return Ok(token);
        }
        let (this, owner, slot) = (Arc::clone(self), owner.clone(), Arc::clone(slot));
        let (resource, refused) = (resource.to_owned(), refused.cloned());
        // Whoever asks may leave at any moment; what the issuer gives for the old token must not be lost.
        let renewing = self
            .tasks
            .spawn(async move { this.renewed(&owner, &slot, &resource, refused.as_ref()).await });
        let ended = |_| Err(LoginError::Unavailable("the gateway is shutting down".to_owned()));
        renewing.await.unwrap_or_else(ended)
    }

    async fn renewed(
        &self,
        owner: &Owner,
        slot: &Slot,
        resource: &str,
        refused: Option<&BearerToken>,
    ) -> Result<BearerToken, LoginError> {
        let _turn = slot.busy.lock().await;
        // Someone else may have done it meanwhile.
        if let Some(token) = slot.usable(resource, refused, self.clock.now()) {
            return Ok(token);
        }
        let grant = slot.get().ok_or(LoginError::Required)?;
        let now = self.clock.now();
        let still = grant.access.get(resource).filter(|token| token.is_good(now));
        let still =
            still.map(Token::bearer).filter(|token| refused.is_none_or(|refused| refused != token));
        // Better an old token than none, and than to wait for others, as long as it is good.
        let patience = if still.is_some() { Duration::ZERO } else { OTHERS + LOOK * 20 };
        match self.renew(owner, slot, grant, resource, patience).await {
            Ok(token) => Ok(token),
            Err(error) => still.ok_or(error),
        }
    }

    async fn renew(
        &self,
        owner: &Owner,
        slot: &Slot,
        mut grant: Grant,
        resource: &str,
        patience: Duration,
    ) -> Result<BearerToken, LoginError> {
        let lock = format!("{}/renewing", name(owner, &grant.issuer));
        if self.vault.is_shared() {
            match self.elsewhere(owner, &grant, resource, &lock, patience).await {
                Elsewhere::Nothing => (),
                Elsewhere::Busy => {
                    let text = "another gateway is renewing the login";
                    return Err(LoginError::Unavailable(text.to_owned()));
                }
                Elsewhere::Renewed(done) => {
                    slot.set(Some((*done).clone()), self.clock.now());
                    grant = *done;
                    if let Some(token) = slot.fresh(resource, self.clock.now()) {
                        self.unlock(&lock).await;
                        return Ok(token);
                    }
                }
                Elsewhere::Ended => {
                    slot.set(None, self.clock.now());
                    self.unlock(&lock).await;
                    return Err(LoginError::Required);
                }
            }
        }
        let Some(refresh) = grant.refresh_for(resource).cloned() else {
            self.unlock(&lock).await;
            return Err(LoginError::Required);
        };
        let mut given = self.given(&grant, &refresh, resource).await;
        // That of the last login may do where the one of its own is used up.
        if let (Err(Denied::Grant(_)), Some(last)) = (&given, grant.refresh.clone())
            && last != refresh
        {
            given = self.given(&grant, &last, resource).await;
            if let Some(token) = grant.access.get_mut(resource) {
                token.refresh = None;
            }
        }
        let renewed = match given {
            Ok(tokens) => {
                grant.take(resource, tokens, self.clock.now());
                self.put_again(owner, slot, grant).await;
                slot.latest(resource).ok_or(LoginError::Required)
            }
            Err(denied @ (Denied::Grant(_) | Denied::Client(_))) => {
                tracing::debug!("a login is over: {denied:?}");
                self.over(owner, slot, grant, resource, &denied).await;
                Err(LoginError::Required)
            }
            Err(denied) => Err(denied.into()),
        };
        self.unlock(&lock).await;
        renewed
    }

    /// What the issuer gives for a refresh token.
    async fn given(
        &self,
        grant: &Grant,
        refresh: &Secret,
        resource: &str,
    ) -> Result<Tokens, Denied> {
        let fields = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.reveal().as_str()),
            ("resource", resource),
        ];
        let counter = Counter { endpoint: &grant.token_endpoint, identity: &grant.identity };
        self.grant(counter, &fields, &[refresh.reveal()]).await
    }

    async fn unlock(&self, lock: &str) {
        if self.vault.is_shared()
            && let Err(error) = self.vault.remove(lock).await
        {
            tracing::debug!("others have to wait for a login: {error}");
        }
    }

    /// The issuer gives no more: for this resource, or at all.
    async fn over(
        &self,
        owner: &Owner,
        slot: &Slot,
        mut grant: Grant,
        resource: &str,
        denied: &Denied,
    ) {
        if let Denied::Client(_) = denied {
            self.unregistered(&grant.issuer).await;
        }
        let others = grant.access.keys().any(|other| other != resource);
        grant.access.remove(resource);
        // What was never for this resource may be good for others yet.
        match others {
            true => self.put_again(owner, slot, grant).await,
            false => {
                drop(self.vault.remove(&name(owner, &grant.issuer)).await);
                slot.set(None, self.clock.now());
            }
        }
    }

    /// Waits for another gateway that renews the same, until it has or until it is for us to do. Then
    /// nobody else does.
    async fn elsewhere(
        &self,
        owner: &Owner,
        grant: &Grant,
        resource: &str,
        lock: &str,
        patience: Duration,
    ) -> Elsewhere {
        let end = Instant::now() + patience;
        while !self.vault.claim(lock, &true, OTHERS).await.unwrap_or(true) {
            if Instant::now() >= end {
                return Elsewhere::Busy;
            }
            sleep(LOOK).await;
        }
        // Only now, so that nothing is missed that was done before.
        match self.stored(owner, &grant.issuer).await {
            Ok(None) => Elsewhere::Ended,
            Ok(Some(now)) if differ(grant, &now, resource) => Elsewhere::Renewed(Box::new(now)),
            Ok(Some(_)) | Err(_) => Elsewhere::Nothing,
        }
    }
}

/// What became of a login at other gateways.
enum Elsewhere {
    /// It is for us to do, and nobody else does.
    Nothing,
    /// Someone is at it.
    Busy,
    Renewed(Box<Grant>),
    Ended,
}

/// Whether one was renewed after the other. Some issuers give the same refresh token again.
fn differ(left: &Grant, right: &Grant, resource: &str) -> bool {
    let tokens = |grant: &Grant| {
        let access = grant.access.get(resource).map(|token| token.token.clone());
        (grant.refresh_for(resource).cloned(), access)
    };
    tokens(left) != tokens(right)
}

fn name(owner: &Owner, issuer: &str) -> String {
    format!("backend/login/{}/{}", owner_name(owner), digest_of(issuer))
}

fn index(owner: &Owner) -> String {
    format!("backend/logins/{}", owner_name(owner))
}

/// Who someone is, in a form that tells nothing and cannot be mixed up.
pub(super) fn owner_name(owner: &Owner) -> String {
    match owner {
        Owner::Subject(id) => digest_of(&format!("subject {id}")),
        Owner::Session(id) => digest_of(&format!("session {id}")),
    }
}
