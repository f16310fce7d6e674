//! Kubernetes as the store of definitions.
//!
//! [`Cluster`] lists and watches the custom resources of one namespace, is a
//! [`DefinitionStore`](muster_engine::store::DefinitionStore) over them, writes their statuses, records Events, and stores
//! what workflows did. Of several gateways one, the holder of a Lease, writes what all of them see.
//!
//! **Invariants:** definitions are read from memory, which a watch keeps up to date, so that an API server that is
//! away changes nothing; tokens are read for each request, and never printed; every list, object and watch event is
//! bounded.

mod access;
mod api;
mod cache;
mod cluster;
mod discovery;
mod events;
mod executions;
mod kubeconfig;
mod leader;
mod object;
mod reflector;
mod secret_files;
mod secrets;
mod status;
mod status_patch;
mod store;
#[cfg(test)]
mod testing;
mod transfer;
mod watching;

pub use self::{
    access::{AccessError, ClusterAccess, ClusterEnvironment},
    cluster::{Cluster, ClusterError},
    secret_files::SecretFile,
    store::InvalidNamespace,
    transfer::{Applied, Movable, Transfer, TransferError, read_all},
};
