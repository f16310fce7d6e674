//! The logins that requests came from since the gateway started.
//!
//! The storage of logins cannot be listed, so each replica records the logins it sees and shares them with the others.

mod shared;

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::pending,
    sync::{Arc, OnceLock},
};

use muster_core::{
    call::Role, caller_directory::SeenLogin, credentials::Principal, shared::ReplicaLink,
};
use tokio::sync::Notify;

use self::shared::SharedLogins;
pub(super) use self::shared::add;
use crate::{lock::Lock, random, store::StoreError};

/// The maximum number of logins that are remembered. The least recently used is evicted.
const MAX_LOGINS: usize = 1_000;
/// The length of an id: long enough to be unique, too short to serve as a credential.
const ID: usize = 12;

/// The logins of recent requests. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct RecentLogins(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The logins, by the ids of their records.
    seen: Lock<BTreeMap<Arc<str>, SeenLogin>>,
    /// Signals that a request was recorded that other replicas do not know of.
    recorded: Notify,
    /// What other replicas have seen.
    shared: OnceLock<SharedLogins>,
}

impl RecentLogins {
    /// Records a request.
    pub(super) fn record(&self, principal: &Principal, role: Role, now: u64) {
        self.0.recorded.notify_one();
        let mut logins = self.0.seen.lock();
        if let Some(known) = logins.get_mut(&principal.login) {
            known.last_seen = now;
            known.requests += 1;
            known.role = role;
            return;
        }
        if logins.len() >= MAX_LOGINS {
            let oldest = logins.iter().min_by_key(|(_, known)| known.last_seen);
            if let Some(oldest) = oldest.map(|(login, _)| Arc::clone(login)) {
                logins.remove(&oldest);
            }
        }
        let seen = SeenLogin {
            id: login_session_id(&principal.login),
            user: principal.email.as_deref().unwrap_or(&principal.subject).to_owned(),
            name: principal.name.as_deref().map(str::to_owned),
            issuer: principal.issuer.to_string(),
            groups: principal.groups.to_vec(),
            client: principal.client.as_deref().map(str::to_owned),
            role,
            first_seen: now,
            last_seen: now,
            requests: 1,
        };
        logins.insert(Arc::clone(&principal.login), seen);
    }

    /// Lists the logins with the ids of their records, the most recently used first.
    pub(super) fn list(&self) -> Vec<(Arc<str>, SeenLogin)> {
        let logins = self.0.seen.lock();
        let mut all: Vec<_> =
            logins.iter().map(|(login, seen)| (Arc::clone(login), seen.clone())).collect();
        all.sort_by_key(|(_, seen)| std::cmp::Reverse(seen.last_seen));
        all
    }

    /// Finds the login with a session id.
    pub(super) fn login(&self, id: &str) -> Option<(Arc<str>, SeenLogin)> {
        let logins = self.0.seen.lock();
        let found = logins.iter().find(|(_, seen)| seen.id == id);
        found.map(|(login, seen)| (Arc::clone(login), seen.clone()))
    }

    /// Forgets a login that has ended.
    pub(super) fn forget(&self, id: &str) {
        self.0.seen.lock().retain(|_, known| known.id != id);
    }

    /// Shares the logins with other replicas, once: see [`publish`](Self::publish).
    pub fn share(&self, link: Arc<dyn ReplicaLink>) {
        // `set` fails only on a second call; the first link stays.
        drop(self.0.shared.set(SharedLogins::new(link)));
    }

    /// Publishes the logins that this replica has seen. Never returns.
    pub async fn publish(&self) -> Infallible {
        match self.0.shared.get() {
            Some(shared) => {
                let seen = || self.list().into_iter().map(|(_, seen)| seen).collect();
                shared.publish(&self.0.recorded, seen).await
            }
            None => pending().await,
        }
    }

    /// Loads the logins that other replicas have seen, by the ids of their sessions.
    pub(super) async fn of_others(&self) -> Result<BTreeMap<String, SeenLogin>, StoreError> {
        match self.0.shared.get() {
            Some(shared) => shared.of_others().await,
            None => Ok(BTreeMap::new()),
        }
    }
}

/// The session id of a login.
pub(crate) fn login_session_id(login: &str) -> String {
    session_id(&random::digest_of(login))
}

/// The session id for a digest.
pub(super) fn session_id(digest: &str) -> String {
    digest.chars().take(ID).collect()
}

#[cfg(test)]
mod tests {
    use muster_core::{call::Role, credentials::Principal};

    use super::{MAX_LOGINS, RecentLogins};

    fn principal(login: &str) -> Principal {
        Principal {
            id: "i|s".into(),
            issuer: "i".into(),
            subject: "s".into(),
            email: Some("ann@example.com".into()),
            name: None,
            groups: [].into(),
            login: login.into(),
            identity: None,
            client: None,
        }
    }

    #[test]
    fn requests_of_a_login_are_counted_and_the_number_of_logins_is_limited() {
        let recent = RecentLogins::default();
        for (login, at) in [("a", 1), ("b", 2), ("a", 3)] {
            recent.record(&principal(login), Role::Agent, at);
        }
        let seen: Vec<_> = recent
            .list()
            .into_iter()
            .map(|(_, login)| (login.user, login.first_seen, login.last_seen, login.requests))
            .collect();
        let ann = || "ann@example.com".to_owned();
        assert_eq!(seen, [(ann(), 1, 3, 2), (ann(), 2, 2, 1)]);
        let id = recent.list().first().unwrap().1.id.clone();
        assert_eq!(&*recent.login(&id).unwrap().0, "a");
        recent.forget(&id);
        assert!(recent.login(&id).is_none());
        for at in 0..MAX_LOGINS + 5 {
            recent.record(&principal(&at.to_string()), Role::Agent, 10);
        }
        assert_eq!(recent.list().len(), MAX_LOGINS);
    }
}
