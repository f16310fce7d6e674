//! The storage of logins and of the shared state of replicas.

use muster_config::settings::{OAuthServer, ReplicaSettings, Storage as StorageSetting, Valkey};

use super::{ConfigError, non_empty, secret};
use crate::store::{Seal, ValkeyOptions};

/// The storage of logins.
#[derive(Debug, Clone)]
pub enum StorageConfig {
    /// In the memory of this process.
    Memory,
    /// In Valkey.
    Valkey(ValkeyOptions),
}

pub(super) fn storage(settings: &StorageSetting) -> Result<StorageConfig, ConfigError> {
    match settings.kind.as_str() {
        "memory" | "" => Ok(StorageConfig::Memory),
        "valkey" if settings.valkey.url.is_empty() => Err(ConfigError::NoValkey),
        "valkey" => Ok(StorageConfig::Valkey(valkey(&settings.valkey)?)),
        other => Err(ConfigError::Storage(other.to_owned())),
    }
}

fn valkey(settings: &Valkey) -> Result<ValkeyOptions, ConfigError> {
    let prefix = if settings.key_prefix.is_empty() { "muster:" } else { &settings.key_prefix };
    Ok(ValkeyOptions {
        url: settings.url.clone(),
        password: secret("valkey password", &settings.password, &settings.password_file)?,
        tls: settings.tls_enabled,
        server_name: non_empty(&settings.tls_server_name),
        cluster: settings.cluster_enabled,
        db: settings.db,
        prefix: prefix.to_owned(),
    })
}

/// The storage that replicas share, and its encryption. Settings that are missing are taken from those of logins.
pub fn replica_storage(
    settings: &ReplicaSettings,
    logins: &OAuthServer,
) -> Result<(ValkeyOptions, Seal), ConfigError> {
    let storage = match settings.valkey.url.is_empty() {
        true => &logins.storage.valkey,
        false => &settings.valkey,
    };
    if storage.url.is_empty() {
        return Err(ConfigError::NoReplicaStorage);
    }
    if logins.enabled && logins.storage.kind != "valkey" {
        return Err(ConfigError::LoginsNotShared);
    }
    let own = secret("encryption key", &settings.encryption_key, &settings.encryption_key_file)?;
    let key = match own {
        Some(key) => key,
        None => secret("encryption key", &logins.encryption_key, &logins.encryption_key_file)?
            .ok_or(ConfigError::NoReplicaKey)?,
    };
    let mut options = valkey(storage)?;
    // Separate the keys from those of logins, which may be in the same database.
    options.prefix.push_str("shared:");
    Ok((options, Seal::new(key.reveal())?))
}
