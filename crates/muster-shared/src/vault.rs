//! Typed values in a store.
//!
//! Every value has a key and a TTL. Operations that must happen only once (redeeming a code, refreshing a token) rely
//! on [`KeyValueStore::take`] and [`KeyValueStore::claim`], which succeed for one caller among all gateways.

use std::{sync::Arc, time::Duration};

use muster_core::shared::{KeyValueStore, StoreError};
use serde::{Serialize, de::DeserializeOwned};

use crate::{Seal, SealedStore};

/// Typed values in a store, encrypted if there is a key.
#[derive(Debug, Clone)]
pub struct Vault {
    store: Arc<dyn KeyValueStore>,
}

impl Vault {
    /// Wraps a store; `seal` encrypts the values.
    pub fn new(store: Arc<dyn KeyValueStore>, seal: Option<Seal>) -> Self {
        match seal {
            None => Self { store },
            Some(seal) => Self { store: Arc::new(SealedStore::new(store, seal)) },
        }
    }

    /// The value of a key.
    pub async fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        decode(self.store.get(key).await?)
    }

    /// Sets the value of a key.
    pub async fn put(
        &self,
        key: &str,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<(), StoreError> {
        self.store.put(key, encode(value)?, ttl).await
    }

    /// Sets the value of a key only if it has one.
    pub async fn replace(
        &self,
        key: &str,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        self.store.replace(key, encode(value)?, ttl).await
    }

    /// Sets the value of a key only if it has none.
    pub async fn claim(
        &self,
        key: &str,
        value: &impl Serialize,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        self.store.claim(key, encode(value)?, ttl).await
    }

    /// Removes a value and returns it.
    pub async fn take<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, StoreError> {
        decode(self.store.take(key).await?)
    }

    /// Removes a value.
    pub async fn remove(&self, key: &str) -> Result<(), StoreError> {
        self.store.remove(key).await
    }

    /// Whether other gateways use the same store.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }
}

fn encode(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(value).map_err(|_| StoreError::Unreadable)
}

fn decode<T: DeserializeOwned>(stored: Option<Vec<u8>>) -> Result<Option<T>, StoreError> {
    let decoded = stored.map(|stored| serde_json::from_slice(&stored));
    decoded.transpose().map_err(|_| StoreError::Unreadable)
}
