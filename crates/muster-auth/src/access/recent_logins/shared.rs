//! The logins that other replicas have seen: each replica stores a copy of its list in the shared, encrypted storage.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use muster_core::{call::Role, caller_directory::SeenLogin, shared::ReplicaLink};
use serde::{Deserialize, Serialize};
use tokio::{sync::Notify, time::sleep};

use crate::store::{KeyValueStore, StoreError, Vault};

/// The set of the replicas that have stored a list.
const REPLICAS: &str = "seen-logins";
/// How long the list of a replica is kept after its last update.
const TTL: Duration = Duration::from_secs(24 * 60 * 60);
/// The minimum interval between two updates.
const INTERVAL: Duration = Duration::from_secs(5);
/// The maximum size of a list. The least recently used logins are left out.
const MAX_SIZE: usize = 1 << 20;

/// The lists of all replicas.
#[derive(Debug)]
pub(super) struct SharedLogins {
    link: Arc<dyn ReplicaLink>,
    /// Typed values in the same state.
    vault: Vault,
}

#[derive(Serialize, Deserialize)]
struct StoredLogin {
    id: String,
    user: String,
    name: Option<String>,
    issuer: String,
    groups: Vec<String>,
    client: Option<String>,
    is_operator: bool,
    first_seen: u64,
    last_seen: u64,
    requests: u64,
}

impl SharedLogins {
    pub(super) fn new(link: Arc<dyn ReplicaLink>) -> Self {
        let vault = Vault::new(Arc::clone(link.state()) as Arc<dyn KeyValueStore>, None);
        Self { link, vault }
    }

    /// Stores a copy of the list after requests were recorded. Retries after a failure. Never returns.
    pub(super) async fn publish(
        &self,
        recorded: &Notify,
        seen: impl Fn() -> Vec<SeenLogin>,
    ) -> Infallible {
        loop {
            recorded.notified().await;
            if let Err(error) = self.store(seen()).await {
                tracing::debug!("other replicas do not know the last logins: {error}");
                recorded.notify_one();
            }
            sleep(INTERVAL).await;
        }
    }

    async fn store(&self, seen: Vec<SeenLogin>) -> Result<(), StoreError> {
        let (mut size, mut copy) = (0, Vec::new());
        for login in seen.into_iter().map(StoredLogin::of) {
            size += serde_json::to_vec(&login).map_or(MAX_SIZE, |text| text.len());
            if size > MAX_SIZE {
                break;
            }
            copy.push(login);
        }
        // Store the value before joining the set: a concurrent listing removes members without a value.
        self.vault.put(&key(self.link.id()), &copy, TTL).await?;
        self.link.state().join(REPLICAS, self.link.id(), TTL).await
    }

    /// The logins in the lists of other replicas, by the ids of their sessions.
    pub(super) async fn of_others(&self) -> Result<BTreeMap<String, SeenLogin>, StoreError> {
        let mut found = BTreeMap::new();
        for replica in self.link.state().members(REPLICAS).await? {
            if replica == self.link.id() {
                continue;
            }
            let copy: Option<Vec<StoredLogin>> = match self.vault.get(&key(&replica)).await {
                // Encrypted with another key or stored by another version.
                Err(StoreError::Unreadable) => None,
                copy => copy?,
            };
            let Some(copy) = copy else {
                self.link.state().leave(REPLICAS, &replica).await?;
                continue;
            };
            for login in copy {
                add(&mut found, login.seen());
            }
        }
        Ok(found)
    }
}

/// Merges a login that one replica has seen into the logins that others have seen.
pub(in super::super) fn add(known: &mut BTreeMap<String, SeenLogin>, login: SeenLogin) {
    match known.entry(login.id.clone()) {
        Entry::Vacant(place) => drop(place.insert(login)),
        Entry::Occupied(mut place) => {
            let before = place.get();
            let first_seen = before.first_seen.min(login.first_seen);
            let last_seen = before.last_seen.max(login.last_seen);
            let requests = before.requests.saturating_add(login.requests);
            // The most recent request has the current role and groups.
            let latest = if login.last_seen >= before.last_seen { login } else { before.clone() };
            place.insert(SeenLogin { first_seen, last_seen, requests, ..latest });
        }
    }
}

impl StoredLogin {
    fn of(login: SeenLogin) -> Self {
        let is_operator = login.role == Role::Operator;
        let SeenLogin { id, user, name, issuer, groups, client, .. } = login;
        let SeenLogin { first_seen, last_seen, requests, .. } = login;
        Self {
            id,
            user,
            name,
            issuer,
            groups,
            client,
            is_operator,
            first_seen,
            last_seen,
            requests,
        }
    }

    fn seen(self) -> SeenLogin {
        let Self { id, user, name, issuer, groups, client, .. } = self;
        let Self { is_operator, first_seen, last_seen, requests, .. } = self;
        let role = if is_operator { Role::Operator } else { Role::Agent };
        SeenLogin { id, user, name, issuer, groups, client, role, first_seen, last_seen, requests }
    }
}

/// The storage key of a replica's list.
fn key(replica: &str) -> String {
    format!("seen-logins:{replica}")
}
