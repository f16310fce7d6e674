//! Mock identity providers: authorization servers that are as strict as real ones, and run on a clock
//! that a scenario can move.
//!
//! **Invariant:** a provider gives out nothing that was not asked for properly, and accepts nothing that it
//! did not give out. What passes here passes because the gateway did its part.

pub mod authority;
pub mod book;
pub mod clock;
pub mod config;
pub mod core;
pub mod door;
pub mod grant;
pub mod jwt;
pub mod server;

pub(crate) mod authorize;
mod metadata;
mod reply;

use std::{collections::BTreeMap, io, sync::Arc};

use authority::Authority;
use config::{Feature, ProviderConfig};
use core::{Core, Trusted};
use server::Provider;

/// The providers of one scenario.
#[derive(Debug, Default)]
pub struct Providers {
    all: BTreeMap<String, Provider>,
    /// The provider that muster itself logs people in with.
    muster: Option<String>,
    authority: Option<Authority>,
}

impl Providers {
    /// Starts all of them, each on a port of its own.
    pub async fn start(configs: &[ProviderConfig]) -> io::Result<Self> {
        let mut providers = Self::default();
        if configs.iter().any(ProviderConfig::uses_tls) {
            providers.authority = Some(Authority::new()?);
        }
        for config in configs {
            let provider = Provider::start(config, providers.authority.as_ref()).await?;
            if config.has(Feature::MusterIdp) && providers.muster.is_none() {
                providers.muster = Some(config.name.clone());
            }
            providers.all.insert(config.name.clone(), provider);
        }
        // Only now: a provider may trust one that comes after it.
        for config in configs {
            let trusted = config.trusted.iter().filter_map(|(connector, name)| {
                let core = Arc::clone(providers.get(name)?.core());
                Some(Trusted { connector: connector.clone(), core })
            });
            let trusted = trusted.collect();
            if let Some(provider) = providers.get(&config.name) {
                provider.core().trust(trusted);
            }
        }
        Ok(providers)
    }

    /// One of them.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.all.get(name)
    }

    /// One of them, to kill it or to bring it back.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Provider> {
        self.all.get_mut(name)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Provider)> {
        self.all.iter().map(|(name, provider)| (name.as_str(), provider))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The provider that muster itself logs people in with.
    pub fn muster(&self) -> Option<&Provider> {
        self.muster.as_deref().and_then(|name| self.get(name))
    }

    /// The certificate that vouches for those that use TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.authority.as_ref().map(Authority::pem)
    }

    /// The provider at an address such as `https://localhost:4711`.
    pub fn at(&self, url: &str) -> Option<&Arc<Core>> {
        let all = self.all.values().map(Provider::core);
        let mut found = all.filter(|core| {
            let rest = url.strip_prefix(core.origin());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        });
        found.next()
    }
}
