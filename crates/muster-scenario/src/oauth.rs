//! Mock identity providers: authorization servers as strict as real ones, with a clock that a scenario can
//! advance.
//!
//! **Invariant:** a provider issues nothing for an invalid request, and accepts nothing that it did not issue.
//! What passes here passes because the gateway is correct.

pub mod certificate_authority;
pub mod clock;
pub mod config;
pub mod jwt;
pub mod provider;
pub mod provider_state;
pub mod records;
pub mod resource_guard;
pub mod token_endpoint;

pub(crate) mod authorize;
mod metadata;
mod responses;

use std::{collections::BTreeMap, io, sync::Arc};

use certificate_authority::CertificateAuthority;
use config::{Feature, MockProviderConfig};
use provider::Provider;
use provider_state::{ProviderState, Trusted};

/// The mock providers of one scenario.
#[derive(Debug, Default)]
pub struct Providers {
    all: BTreeMap<String, Provider>,
    /// The provider that muster itself authenticates users with.
    muster: Option<String>,
    authority: Option<CertificateAuthority>,
}

impl Providers {
    /// Starts all providers, each on a port of its own.
    pub async fn start(configs: &[MockProviderConfig]) -> io::Result<Self> {
        let mut providers = Self::default();
        if configs.iter().any(MockProviderConfig::uses_tls) {
            providers.authority = Some(CertificateAuthority::new()?);
        }
        for config in configs {
            let provider = Provider::start(config, providers.authority.as_ref()).await?;
            if config.has(Feature::MusterIdp) && providers.muster.is_none() {
                providers.muster = Some(config.name.clone());
            }
            providers.all.insert(config.name.clone(), provider);
        }
        // After the loop, because a provider may trust a later one.
        for config in configs {
            let trusted = config.trusted.iter().filter_map(|(connector, name)| {
                let state = Arc::clone(providers.get(name)?.state());
                Some(Trusted { connector: connector.clone(), state })
            });
            let trusted = trusted.collect();
            if let Some(provider) = providers.get(&config.name) {
                provider.state().trust(trusted);
            }
        }
        Ok(providers)
    }

    /// The provider of this name.
    pub fn get(&self, name: &str) -> Option<&Provider> {
        self.all.get(name)
    }

    /// The provider of this name, to kill or restart it.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Provider> {
        self.all.get_mut(name)
    }

    /// All providers, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Provider)> {
        self.all.iter().map(|(name, provider)| (name.as_str(), provider))
    }

    /// Whether there are no providers.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The provider that muster itself authenticates users with.
    pub fn muster(&self) -> Option<&Provider> {
        self.muster.as_deref().and_then(|name| self.get(name))
    }

    /// The CA certificate for providers with TLS.
    pub fn ca_pem(&self) -> Option<&str> {
        self.authority.as_ref().map(CertificateAuthority::pem)
    }

    /// The provider of a URL such as `https://localhost:4711`.
    pub fn at(&self, url: &str) -> Option<&Arc<ProviderState>> {
        let all = self.all.values().map(Provider::state);
        let mut found = all.filter(|state| {
            let rest = url.strip_prefix(state.origin());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']))
        });
        found.next()
    }
}
