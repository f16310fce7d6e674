//! The adapters of shared state: the memory of this process, and Valkey.
//!
//! **Invariant:** the port is in `muster_core::shared`; the same tests run against both adapters.

pub mod clock;
mod memory;
mod memory_shared;
mod options;
mod replica;
mod seal;
mod sealed;
#[cfg(feature = "valkey")]
mod valkey;
mod vault;

pub use muster_core::shared::{KeyValueStore, SharedState, StoreError, StoreFuture};

pub use self::{
    memory::MemoryStore,
    memory_shared::MemoryShared,
    options::{ValkeyOptions, open},
    replica::Replica,
    seal::{InvalidEncryptionKey, Seal},
    sealed::SealedStore,
    vault::Vault,
};
