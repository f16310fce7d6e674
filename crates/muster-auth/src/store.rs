//! Where logins are kept: in this process, or in Valkey, where several gateways share them.
//!
//! Everything has a name and an end. What must happen only once (a code redeemed, a token renewed)
//! rests on [`Store::take`] and [`Store::claim`], which have one winner among all gateways.

mod memory;
mod seal;
mod valkey;

use std::{fmt, sync::Arc, time::Duration};

use muster_core::backend::BoxFuture;
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

pub use self::{
    memory::Memory,
    seal::{BadKey, Seal},
    valkey::{Valkey, ValkeyOptions},
};

/// What was kept cannot be had.
#[derive(Debug, Clone, Error)]
pub enum StoreError {
    /// The store does not answer.
    #[error("the storage of logins cannot be reached: {0}")]
    Away(String),
    /// What is kept there was not written by us, or with another key.
    #[error("what the storage of logins holds cannot be read")]
    Unreadable,
}

type Outcome<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// Bytes under names, each for a time.
pub trait Store: fmt::Debug + Send + Sync {
    /// What is kept under a name.
    fn get<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>>;

    /// Keeps something in place of what was there.
    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, ()>;

    /// Keeps something in place of what is there, if something is. What was removed does not come back.
    fn replace<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool>;

    /// Keeps something if nothing is there yet. One of several who try at once wins.
    fn claim<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool>;

    /// Takes out what is kept. One of several who try at once gets it.
    fn take<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>>;

    /// Keeps it no longer.
    fn remove<'a>(&'a self, name: &'a str) -> Outcome<'a, ()>;

    /// Whether others change it, too.
    fn is_shared(&self) -> bool;
}

/// Values in a store, sealed on the way in if there is a key.
#[derive(Debug, Clone)]
pub struct Vault {
    store: Arc<dyn Store>,
    seal: Option<Arc<Seal>>,
}

impl Vault {
    /// Values in a store.
    pub fn new(store: Arc<dyn Store>, seal: Option<Seal>) -> Self {
        Self { store, seal: seal.map(Arc::new) }
    }

    /// What is kept under a name.
    pub async fn get<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        self.open(name, self.store.get(name).await?)
    }

    /// Keeps something in place of what was there.
    pub async fn put(
        &self,
        name: &str,
        value: &impl Serialize,
        keep: Duration,
    ) -> Result<(), StoreError> {
        self.store.put(name, self.close(name, value)?, keep).await
    }

    /// Keeps something in place of what is there, if something is.
    pub async fn replace(
        &self,
        name: &str,
        value: &impl Serialize,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        self.store.replace(name, self.close(name, value)?, keep).await
    }

    /// Keeps something if nothing is there yet.
    pub async fn claim(
        &self,
        name: &str,
        value: &impl Serialize,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        self.store.claim(name, self.close(name, value)?, keep).await
    }

    /// Takes out what is kept.
    pub async fn take<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, StoreError> {
        self.open(name, self.store.take(name).await?)
    }

    /// Keeps it no longer.
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        self.store.remove(name).await
    }

    /// Whether others change it, too.
    pub fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn close(&self, name: &str, value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
        let plain = serde_json::to_vec(value).map_err(|_| StoreError::Unreadable)?;
        match &self.seal {
            None => Ok(plain),
            Some(seal) => seal.close(name, plain).ok_or(StoreError::Unreadable),
        }
    }

    fn open<T: DeserializeOwned>(
        &self,
        name: &str,
        held: Option<Vec<u8>>,
    ) -> Result<Option<T>, StoreError> {
        let Some(held) = held else { return Ok(None) };
        let plain = match &self.seal {
            None => held,
            Some(seal) => seal.open(name, &held).ok_or(StoreError::Unreadable)?,
        };
        serde_json::from_slice(&plain).map(Some).map_err(|_| StoreError::Unreadable)
    }
}
