//! Storage of logins: in this process, or in Valkey, where several gateways share it.
//!
//! Every value has a key and a TTL. What must happen only once (redeeming a code, refreshing a token)
//! relies on [`KeyValueStore::take`] and [`KeyValueStore::claim`], which succeed for one caller among all gateways.

mod memory;
mod seal;
mod valkey;

use std::{fmt, sync::Arc, time::Duration};

use muster_core::backend::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

pub use self::{
    memory::MemoryStore,
    seal::{InvalidEncryptionKey, Seal},
    valkey::{ValkeyOptions, ValkeyStore},
};

/// Why a value cannot be loaded or stored.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The store cannot be reached, or is full.
    #[error("the storage of logins is not available: {0}")]
    Unavailable(String),
    /// The value was not written by a gateway, or with another encryption key.
    #[error("a value in the storage of logins cannot be read")]
    Unreadable,
}

type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A key-value store with a TTL for each value.
pub trait KeyValueStore: fmt::Debug + Send + Sync {
    /// The value of a key.
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>>;

    /// Sets the value of a key.
    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()>;

    /// Sets the value of a key only if it has one: a removed value does not come back.
    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Sets the value of a key only if it has none. Of concurrent callers one succeeds.
    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool>;

    /// Removes a value and returns it. Of concurrent callers one gets it.
    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>>;

    /// Removes a value.
    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()>;

    /// Whether other gateways use the same store.
    fn is_shared(&self) -> bool;
}

/// Typed values in a store, encrypted if there is a key.
#[derive(Debug, Clone)]
pub struct Vault {
    store: Arc<dyn KeyValueStore>,
    seal: Option<Arc<Seal>>,
}

impl Vault {
    /// Wraps a store; `seal` encrypts the values.
    pub fn new(store: Arc<dyn KeyValueStore>, seal: Option<Seal>) -> Self {
        Self { store, seal: seal.map(Arc::new) }
    }

    /// The value of a key.
    pub async fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        self.decode(key, self.store.get(key).await?)
    }

    /// Sets the value of a key.
    pub async fn put(
        &self,
        key: &str,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.store.put(key, self.encode(key, value)?, ttl).await
    }

    /// Sets the value of a key only if it has one.
    pub async fn replace(
        &self,
        key: &str,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        self.store.replace(key, self.encode(key, value)?, ttl).await
    }

    /// Sets the value of a key only if it has none.
    pub async fn claim(
        &self,
        key: &str,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        self.store.claim(key, self.encode(key, value)?, ttl).await
    }

    /// Removes a value and returns it.
    pub async fn take<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        self.decode(key, self.store.take(key).await?)
    }

    /// Removes a value.
    pub async fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.store.remove(key).await
    }

    /// Whether other gateways use the same store.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn encode(&self, key: &str, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
        let plain = serde_json::to_vec(value).map_err(|_| StoreError::Unreadable)?;
        match &self.seal {
            None => Ok(plain),
            Some(seal) => seal.seal(key, plain).ok_or(StoreError::Unreadable),
        }
    }

    fn decode<T: DeserializeOwned>(
        &self,
        key: &str,
        stored: Option<Vec<u8>>,
    ) -> Result<Option<T>, StoreError> {
        let Some(stored) = stored else { return Ok(None) };
        let plain = match &self.seal {
            None => stored,
            Some(seal) => seal.open(key, &stored).ok_or(StoreError::Unreadable)?,
        };
        serde_json::from_slice(&plain).map(Some).map_err(|_| StoreError::Unreadable)
    }
}
