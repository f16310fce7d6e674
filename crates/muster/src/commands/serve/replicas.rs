//! Running this gateway as one of several replicas.

use std::{convert::Infallible, future::pending, sync::Arc};

use muster_auth::server;
use muster_config::settings::{OAuthServer, ReplicaSettings};
use muster_core::shared::ReplicaLink;
use muster_net::TrustStore;
use muster_shared::{KeyValueStore, Replica, SealedStore, Vault};

use super::logins::invalid;
use crate::error::CommandError;

/// Creates this replica, if replicas are configured.
pub(super) fn of(
    settings: &ReplicaSettings,
    logins: &OAuthServer,
    trust: &TrustStore,
) -> Result<Option<Arc<Replica>>, CommandError> {
    if !settings.enabled {
        return Ok(None);
    }
    let (options, seal) =
        server::replica_storage(settings, logins).map_err(|error| invalid(&error))?;
    let store = muster_shared::open(&options, trust).map_err(|error| invalid(&error.into()))?;
    let state = Arc::new(SealedStore::new(store, seal));
    let replica = Replica::new(state)
        .ok_or_else(|| CommandError::new("there is no source of randomness for a replica id"))?;
    Ok(Some(replica))
}

/// The port by which the parts of the gateway use this replica.
pub(super) fn link(replica: &Arc<Replica>) -> Arc<dyn ReplicaLink> {
    Arc::<Replica>::clone(replica)
}

/// The encrypted storage that all replicas share.
pub(super) fn vault(replica: &Replica) -> Vault {
    Vault::new(Arc::clone(replica.state()) as Arc<dyn KeyValueStore>, None)
}

/// Renews the lease of this replica and receives the messages of others. Never returns.
pub(super) async fn keep_up(replica: Option<&Replica>) -> Infallible {
    match replica {
        Some(replica) => replica.run().await,
        None => pending().await,
    }
}

/// Releases the lease of this replica.
pub(super) async fn retire(replica: Option<&Replica>) {
    if let Some(replica) = replica {
        replica.retire().await;
    }
}
