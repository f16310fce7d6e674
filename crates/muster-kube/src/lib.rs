//! Kubernetes as the store of definitions.
//!
//! [`Cluster`] lists and watches the custom resources of one namespace and provides them as a
//! [`DefinitionStore`](muster_engine::store::DefinitionStore). It also writes their statuses, records Events, and
//! stores records of workflow executions. If there are several gateways, only the holder of a Lease writes what all of
//! them observe.
//!
//! **Invariants:** definitions are read from a cache that a watch keeps up to date, so that the gateway goes on while
//! the API server is unavailable; tokens are read for each request and never printed; the size of every list, object
//! and watch event is bounded.

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
