//! What the configuration says about logins, checked.

use std::{fs, time::Duration};

use muster_config::settings::{self, OAuthServer};
use muster_net::{AddressPolicy, BadCertificate, TrustStore};
use thiserror::Error;

use super::proxies::Proxies;
use crate::{
    secret::Secret,
    store::{BadKey, Seal, StoreError, ValkeyOptions},
};

/// Google, as it calls itself.
const GOOGLE: &str = "https://accounts.google.com";

/// How long the provider may take to answer: a browser waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(10);

/// The configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// There is no address.
    #[error("base URL cannot be empty\nhint: set `aggregator.oauth.server.baseUrl`")]
    NoBaseUrl,
    /// Tokens would travel in the open.
    #[error(
        "OAuth 2.1 requires HTTPS for production (got: {0}). Use HTTPS or localhost for development"
    )]
    Insecure(String),
    /// The address is none of the web.
    #[error("invalid URL scheme: {0}. Must be http (localhost only) or https")]
    Scheme(String),
    /// The address cannot be read.
    #[error("`aggregator.oauth.server.{key}` cannot be used: {reason}")]
    Address {
        /// Which key.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// Nobody of that name.
    #[error("unsupported OAuth provider: {0} (supported: dex, google)")]
    Provider(String),
    /// Nowhere of that name.
    #[error("unsupported OAuth storage type: {0} (supported: memory, valkey)")]
    Storage(String),
    /// Valkey, but where?
    #[error("valkey URL is required when using valkey storage")]
    NoValkey,
    /// Something must be said.
    #[error("`aggregator.oauth.server.{0}` is required")]
    Missing(&'static str),
    /// A secret's file.
    #[error("error resolving secret files: failed to read {what} from {file}: {reason}")]
    SecretFile {
        /// What it holds.
        what: &'static str,
        /// Which file.
        file: String,
        /// Why.
        reason: String,
    },
    /// A file of certificates.
    #[error("`{file}` cannot be used: {reason}")]
    Certificates {
        /// Which file.
        file: String,
        /// Why.
        reason: String,
    },
    /// A span of time.
    #[error(
        "`aggregator.oauth.server.sessionDuration` is `{0}`: write a number with `h`, `m` or `s`, such as `720h`"
    )]
    Duration(String),
    /// A network.
    #[error(
        "`aggregator.oauth.server.trustedProxyCIDRs` has `{0}`: write a network such as `10.0.0.0/8`"
    )]
    Network(String),
    /// The key.
    #[error(transparent)]
    Key(#[from] BadKey),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who knows the users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Dex, or any other that speaks OpenID Connect.
    Oidc,
    /// Google.
    Google,
}

/// How the one who knows the users is reached.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// What it is.
    pub kind: Kind,
    /// Its name and address.
    pub issuer: String,
    /// Our id there.
    pub client_id: String,
    /// Our secret there.
    pub client_secret: Secret,
    /// Dex: the connector to go to at once.
    pub connector: Option<String>,
    /// Dex: further clients that ID tokens shall be good for.
    pub audiences: Vec<String>,
    /// How far requests to it may go.
    pub reach: AddressPolicy,
    /// How long one may take.
    pub patience: Duration,
}

/// Someone else whose signed tokens are taken.
#[derive(Debug, Clone)]
pub struct Trusted {
    /// Their name and address.
    pub issuer: String,
    /// For whom the tokens must be.
    pub audiences: Vec<String>,
}

/// Where logins are kept.
#[derive(Debug, Clone)]
pub enum Storage {
    /// In this process.
    Memory,
    /// In Valkey.
    Valkey(ValkeyOptions),
}

/// What protects the endpoint, checked.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Our address and the issuer of our tokens, without a slash at the end.
    pub base_url: String,
    /// What the protected resource is called beside its addresses.
    pub resource: Option<String>,
    /// Who knows the users.
    pub provider: ProviderConfig,
    /// For whom ID tokens of the provider may be, beside ourselves.
    pub trusted_audiences: Vec<String>,
    /// Whose signed tokens are taken as well.
    pub trusted_issuers: Vec<Trusted>,
    /// What registering a client needs.
    pub registration_token: Option<Secret>,
    /// Whether anybody may register.
    pub public_registration: bool,
    /// Schemes of redirect addresses that anybody may register.
    pub trusted_schemes: Vec<String>,
    /// Redirect addresses that anybody may register.
    pub trusted_uris: Vec<String>,
    /// Whether clients may be described by a document, and how far away that may be.
    pub cimd: Option<AddressPolicy>,
    /// Whether redirects to the user's own machine are allowed.
    pub localhost_redirects: bool,
    /// How long a login lasts.
    pub session: Duration,
    /// Web pages that may talk to us from a browser, by their origin.
    pub origins: Vec<String>,
    /// Proxies of ours, which say whom they speak for.
    pub proxies: Proxies,
}

/// Everything the configuration says.
#[derive(Debug)]
pub struct Loaded {
    /// What protects the endpoint.
    pub server: ServerConfig,
    /// Where logins are kept.
    pub storage: Storage,
    /// What they are encrypted with.
    pub seal: Option<Seal>,
    /// Whose certificates are believed.
    pub trust: TrustStore,
}

/// Checks what the configuration says, and reads the files it names. `trust` is what is trusted anyway.
pub fn load(said: &OAuthServer, mut trust: TrustStore) -> Result<Loaded, ConfigError> {
    let base_url = base_url(&said.base_url)?;
    let key = secret("encryption key", &said.encryption_key, &said.encryption_key_file)?;
    let registration_token =
        secret("registration token", &said.registration_token, &said.registration_token_file)?;
    let server = ServerConfig {
        base_url,
        resource: text(&said.resource_identifier),
        provider: provider(said)?,
        trusted_audiences: said.trusted_audiences.clone(),
        trusted_issuers: trusted(said)?,
        registration_token,
        public_registration: said.allow_public_client_registration,
        trusted_schemes: said.trusted_public_registration_schemes.clone(),
        trusted_uris: said.trusted_public_registration_redirect_uris.clone(),
        cimd: said.enable_cimd.then_some(AddressPolicy::Public),
        localhost_redirects: said.allow_localhost_redirect_uris,
        session: duration(&said.session_duration)?,
        proxies: Proxies::parse(&said.trusted_proxy_cidrs).map_err(ConfigError::Network)?,
        origins: {
            let origins = said.allowed_origins.split([',', ' ']).map(str::trim);
            origins.filter(|origin| !origin.is_empty()).map(str::to_owned).collect()
        },
    };
    if !said.dex.ca_file.is_empty() {
        let bad =
            |reason: String| ConfigError::Certificates { file: said.dex.ca_file.clone(), reason };
        let pem = fs::read(&said.dex.ca_file).map_err(|err| bad(err.to_string()))?;
        trust = trust.with_pem(&pem).map_err(|err: BadCertificate| bad(err.to_string()))?;
    }
    let seal = key.map(|key| Seal::new(key.reveal())).transpose()?;
    Ok(Loaded { server, storage: storage(&said.storage)?, seal, trust })
}

fn base_url(url: &str) -> Result<String, ConfigError> {
    let url = url.trim_end_matches('/');
    if url.is_empty() {
        return Err(ConfigError::NoBaseUrl);
    }
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme {
        "https" => {}
        "http" if AddressPolicy::Loopback.parse(url).is_ok() => {}
        "http" => return Err(ConfigError::Insecure(url.to_owned())),
        other => return Err(ConfigError::Scheme(other.to_owned())),
    }
    address("baseUrl", url, AddressPolicy::Private)?;
    Ok(url.to_owned())
}

fn address(key: &'static str, url: &str, reach: AddressPolicy) -> Result<(), ConfigError> {
    match reach.parse(url) {
        Ok(_) => Ok(()),
        Err(err) => Err(ConfigError::Address { key, reason: err.to_string() }),
    }
}

fn provider(said: &OAuthServer) -> Result<ProviderConfig, ConfigError> {
    let need = |value: &str, key| {
        if value.is_empty() { Err(ConfigError::Missing(key)) } else { Ok(value.to_owned()) }
    };
    match said.provider.as_str() {
        "dex" => {
            let dex = &said.dex;
            let issuer = need(&dex.issuer_url, "dex.issuerUrl")?;
            let reach = if dex.allow_private_ip_oidc {
                AddressPolicy::Private
            } else {
                AddressPolicy::Loopback
            };
            address("dex.issuerUrl", &issuer, reach)?;
            let client_secret =
                secret("Dex client secret", &dex.client_secret, &dex.client_secret_file)?;
            Ok(ProviderConfig {
                kind: Kind::Oidc,
                issuer,
                client_id: need(&dex.client_id, "dex.clientId")?,
                client_secret: client_secret.unwrap_or_default(),
                connector: text(&dex.connector_id),
                audiences: Vec::new(),
                reach,
                patience: PATIENCE,
            })
        }
        "google" => {
            let google = &said.google;
            let client_secret =
                secret("Google client secret", &google.client_secret, &google.client_secret_file)?;
            Ok(ProviderConfig {
                kind: Kind::Google,
                issuer: GOOGLE.to_owned(),
                client_id: need(&google.client_id, "google.clientId")?,
                client_secret: client_secret.unwrap_or_default(),
                connector: None,
                audiences: Vec::new(),
                reach: AddressPolicy::Public,
                patience: PATIENCE,
            })
        }
        other => Err(ConfigError::Provider(other.to_owned())),
    }
}

fn trusted(said: &OAuthServer) -> Result<Vec<Trusted>, ConfigError> {
    let mut trusted = Vec::new();
    for one in &said.trusted_issuers {
        address("trustedIssuers.issuer", &one.issuer, AddressPolicy::Loopback)?;
        // Tokens for everybody are tokens for nobody in particular.
        if one.audiences.is_empty() {
            return Err(ConfigError::Missing("trustedIssuers.audiences"));
        }
        trusted.push(Trusted { issuer: one.issuer.clone(), audiences: one.audiences.clone() });
    }
    Ok(trusted)
}

fn storage(said: &settings::Storage) -> Result<Storage, ConfigError> {
    match said.kind.as_str() {
        "memory" | "" => Ok(Storage::Memory),
        "valkey" if said.valkey.url.is_empty() => Err(ConfigError::NoValkey),
        "valkey" => {
            let valkey = &said.valkey;
            let prefix = if valkey.key_prefix.is_empty() { "muster:" } else { &valkey.key_prefix };
            Ok(Storage::Valkey(ValkeyOptions {
                url: valkey.url.clone(),
                password: secret("valkey password", &valkey.password, &valkey.password_file)?,
                tls: valkey.tls_enabled,
                server_name: text(&valkey.tls_server_name),
                db: valkey.db,
                prefix: prefix.to_owned(),
            }))
        }
        other => Err(ConfigError::Storage(other.to_owned())),
    }
}

/// A secret that is written down, or in a file of its own.
fn secret(
    what: &'static str,
    said: &settings::Secret,
    file: &str,
) -> Result<Option<Secret>, ConfigError> {
    if !said.reveal().is_empty() {
        return Ok(Some(Secret::new(said.reveal().to_owned())));
    }
    if file.is_empty() {
        return Ok(None);
    }
    let text = fs::read_to_string(file).map_err(|err| ConfigError::SecretFile {
        what,
        file: file.to_owned(),
        reason: err.to_string(),
    })?;
    Ok(Some(Secret::new(text.trim().to_owned())).filter(|secret| !secret.reveal().is_empty()))
}

fn duration(text: &str) -> Result<Duration, ConfigError> {
    let bad = || ConfigError::Duration(text.to_owned());
    let mut rest = text;
    let mut seconds = 0_u64;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = rest.split_at_checked(end).ok_or_else(bad)?;
        let number: u64 = number.parse().map_err(|_| bad())?;
        let each = match unit.chars().next() {
            Some('h') => 3600,
            Some('m') => 60,
            Some('s') => 1,
            _ => return Err(bad()),
        };
        seconds =
            number.checked_mul(each).and_then(|more| seconds.checked_add(more)).ok_or_else(bad)?;
        rest = unit.get(1..).unwrap_or_default();
    }
    if seconds == 0 { Err(bad()) } else { Ok(Duration::from_secs(seconds)) }
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
