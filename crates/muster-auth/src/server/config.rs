//! The configuration of the protected endpoint, checked.

mod broker;
mod storage;

use std::{fs, time::Duration};

use muster_config::settings::OAuthServer;
use muster_core::glob::{CaseSensitivity, Glob};
use muster_net::{AddressPolicy, BadCertificate, TrustStore};
use thiserror::Error;

use self::storage::storage;
pub use self::{
    broker::{BrokerConfig, BrokerTargetConfig},
    storage::{StorageConfig, replica_storage},
};
use super::trusted_proxies::TrustedProxies;
use crate::{
    client::SecretLocation,
    jwks::policy_of,
    principal_list::SharedPrincipalList,
    secret::Secret,
    store::{InvalidEncryptionKey, Seal, StoreError},
};

/// Google's issuer identifier.
const GOOGLE: &str = "https://accounts.google.com";

/// The timeout of a request to the provider. A browser waits for the response.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// There is no base URL.
    #[error("base URL cannot be empty\nhint: set `aggregator.oauth.server.baseUrl`")]
    NoBaseUrl,
    /// Tokens would be sent without TLS.
    #[error(
        "OAuth 2.1 requires HTTPS for production (got: {0}). Use HTTPS or localhost for development"
    )]
    Insecure(String),
    /// The base URL is not a web URL.
    #[error("invalid URL scheme: {0}. Must be http (localhost only) or https")]
    Scheme(String),
    /// A URL is invalid or not allowed.
    #[error("`aggregator.oauth.server.{key}` cannot be used: {reason}")]
    Url {
        /// The setting.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// The provider is unknown.
    #[error("unsupported OAuth provider: {0} (supported: dex, google)")]
    Provider(String),
    /// The storage type is unknown.
    #[error("unsupported OAuth storage type: {0} (supported: memory, valkey)")]
    Storage(String),
    /// There is no URL for Valkey.
    #[error("valkey URL is required when using valkey storage")]
    NoValkey,
    /// No storage is configured that replicas can share.
    #[error("replicas share their state in Valkey\nhint: set `replicas.valkey.url`")]
    NoReplicaStorage,
    /// No encryption key is configured, so shared state would be readable in Valkey.
    #[error(
        "replicas encrypt what they share\nhint: set `replicas.encryptionKeyFile` to a file made with `openssl rand -base64 32`"
    )]
    NoReplicaKey,
    /// The storage of logins is not shared, so a login would be known to one replica only.
    #[error(
        "replicas must share logins\nhint: set `aggregator.oauth.server.storage.type` to `valkey`"
    )]
    LoginsNotShared,
    /// A required setting is missing.
    #[error("`aggregator.oauth.server.{0}` is required")]
    Missing(&'static str),
    /// A file with a secret cannot be read.
    #[error("error resolving secret files: failed to read {what} from {file}: {reason}")]
    SecretFile {
        /// The secret.
        what: &'static str,
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// A file with certificates cannot be used.
    #[error("`{file}` cannot be used: {reason}")]
    Certificates {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
    /// A duration is invalid.
    #[error(
        "`aggregator.oauth.server.sessionDuration` is `{0}`: write a number with `h`, `m` or `s`, such as `720h`"
    )]
    Duration(String),
    /// A pattern of a claim cannot be read.
    #[error(
        "`aggregator.oauth.server.trustedIssuers` has an invalid pattern for the claim `{0}`: `{1}`"
    )]
    Claim(String, String),
    /// The broker has no trusted issuer, so it could not validate any token.
    #[error(
        "tokenExchangeBroker requires at least one trustedIssuers entry to validate subject tokens"
    )]
    BrokerWithoutIssuers,
    /// A target of the broker has no token endpoint.
    #[error(
        "tokenExchangeBroker target \"{0}\" requires dexTokenEndpoint (downstream Dex token endpoint)"
    )]
    BrokerTarget(String),
    /// A client of the broker has no secret.
    #[error("tokenExchangeBroker client \"{0}\" requires clientCredentialsSecretRef")]
    BrokerClient(String),
    /// A secret of the broker cannot be read.
    #[error("tokenExchangeBroker: {0}")]
    BrokerSecret(String),
    /// A network is invalid.
    #[error(
        "`aggregator.oauth.server.trustedProxyCIDRs` has `{0}`: write a network such as `10.0.0.0/8`"
    )]
    Network(String),
    /// The encryption key is invalid.
    #[error(transparent)]
    Key(#[from] InvalidEncryptionKey),
    /// The storage cannot be used.
    #[error(transparent)]
    KeyValueStore(#[from] StoreError),
}

/// The kind of an identity provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderKind {
    /// Dex, or any other OpenID Connect provider.
    Oidc,
    /// Google.
    Google,
}

/// The configuration of the identity provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Its kind.
    pub kind: ProviderKind,
    /// Its issuer identifier, which is a URL.
    pub issuer: String,
    /// The gateway's client id there.
    pub client_id: String,
    /// The gateway's client secret there.
    pub client_secret: Secret,
    /// The Dex connector to log in with, which skips Dex's choice of connectors.
    pub connector: Option<String>,
    /// Dex clients that are requested as further audiences of ID tokens.
    pub audiences: Vec<String>,
    /// Which networks it may be in.
    pub policy: AddressPolicy,
    /// The timeout of a request to it.
    pub timeout: Duration,
}

/// Another issuer whose signed tokens are accepted.
#[derive(Debug, Clone)]
pub struct TrustedIssuerConfig {
    /// Its issuer identifier, which is a URL.
    pub issuer: String,
    /// A token must have one of these audiences.
    pub audiences: Vec<String>,
    /// Patterns of the claims that a token must have.
    pub claims: Vec<(String, ClaimPattern)>,
    /// The claim that names the user; none for `sub`.
    pub subject_claim: Option<String>,
    /// The accepted `typ` headers; none for every type that authenticates a user.
    pub types: Vec<String>,
    /// The URL of its keys; none if its metadata names it.
    pub jwks_url: Option<String>,
    /// Which networks its keys may be in.
    pub policy: AddressPolicy,
    /// Hosts of its keys that may have private addresses, whatever the policy says.
    pub private_hosts: Vec<String>,
}

/// A pattern of a claim: `*` matches any text, `?` one character, and any other character itself.
#[derive(Debug, Clone)]
pub struct ClaimPattern(Glob);

impl ClaimPattern {
    /// Parses a pattern; `None` if it has a control character.
    pub fn new(pattern: &str) -> Option<Self> {
        let literal = Self::plain(pattern)?.replace('\\', "\\\\").replace('[', "\\[");
        Glob::new(&literal, CaseSensitivity::Sensitive).ok().map(Self)
    }

    /// Whether the pattern matches the whole claim.
    pub fn matches(&self, claim: &str) -> bool {
        Self::plain(claim).is_some_and(|claim| self.0.matches(&claim))
    }

    /// Replaces slashes, which a [`Glob`] treats as separators, by a character that it matches like any other.
    fn plain(text: &str) -> Option<String> {
        (!text.contains(char::is_control)).then(|| text.replace('/', "\u{1}"))
    }
}

impl TrustedIssuerConfig {
    /// An issuer whose tokens only need one of these audiences.
    pub fn new(issuer: impl Into<String>, audiences: Vec<String>) -> Self {
        Self {
            issuer: issuer.into(),
            audiences,
            claims: Vec::new(),
            subject_claim: None,
            types: Vec::new(),
            jwks_url: None,
            policy: AddressPolicy::Loopback,
            private_hosts: Vec::new(),
        }
    }
}

/// Whether clients may have the gateway's own callback as a redirect URI. Such a client needs no consent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OwnCallback {
    /// They may not.
    #[default]
    Refused,
    /// They may; for acceptance tests.
    Allowed,
}

/// The configuration of an [`AuthServer`](super::AuthServer).
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// The gateway's URL and issuer identifier, without a trailing slash.
    pub base_url: String,
    /// An additional identifier of the protected resource.
    pub resource: Option<String>,
    /// The identity provider.
    pub provider: ProviderConfig,
    /// The audiences of the provider's ID tokens that are accepted as bearer tokens.
    pub trusted_audiences: Vec<String>,
    /// Other issuers whose signed tokens are accepted.
    pub trusted_issuers: Vec<TrustedIssuerConfig>,
    /// The token that allows a client registration.
    pub registration_token: Option<Secret>,
    /// Whether clients may register without a token.
    pub public_registration: bool,
    /// Private-use schemes of redirect URIs that may be registered without a token.
    pub trusted_schemes: Vec<String>,
    /// Redirect URIs that may be registered without a token.
    pub trusted_uris: Vec<String>,
    /// Which networks client metadata documents may be in; `None` if they are not supported.
    pub client_documents: Option<AddressPolicy>,
    /// Whether redirect URIs on the user's own machine are allowed.
    pub allow_loopback_redirects: bool,
    /// How long a login lasts.
    pub session_duration: Duration,
    /// The origins of web pages that may send requests.
    pub origins: Vec<String>,
    /// The reverse proxies that may set the client's address.
    pub proxies: TrustedProxies,
    /// The users who may log in. If it is empty, every user of the provider may.
    pub allowed: SharedPrincipalList,
    /// Whether clients may have the gateway's own callback as a redirect URI.
    pub own_callback: OwnCallback,
    /// The token exchange broker; `None` if it is off.
    pub broker: Option<BrokerConfig>,
}

impl ServerConfig {
    /// Whether a user may use the gateway.
    pub(super) fn allows(&self, id: &str, email: Option<&str>, groups: &[String]) -> bool {
        let allowed = self.allowed.now();
        allowed.is_empty() || allowed.has(id, email, groups)
    }
}

/// A checked configuration, with the contents of the files and secrets that it refers to.
#[derive(Debug)]
pub struct AuthConfig {
    /// The configuration of the server.
    pub server: ServerConfig,
    /// Where logins are stored.
    pub storage: StorageConfig,
    /// Encrypts stored values.
    pub seal: Option<Seal>,
    /// The trusted certificate authorities.
    pub trust: TrustStore,
}

/// Checks the settings, and reads the files and secrets that they name.
pub async fn load(
    settings: &OAuthServer,
    mut trust: TrustStore,
    secrets: SecretLocation<'_>,
) -> Result<AuthConfig, ConfigError> {
    let base_url = base_url(&settings.base_url)?;
    let key = secret("encryption key", &settings.encryption_key, &settings.encryption_key_file)?;
    let registration_token = secret(
        "registration token",
        &settings.registration_token,
        &settings.registration_token_file,
    )?;
    let server = ServerConfig {
        resource: non_empty(&settings.resource_identifier),
        provider: provider(settings)?,
        trusted_audiences: settings.trusted_audiences.clone(),
        trusted_issuers: trusted_issuers(settings, &base_url)?,
        registration_token,
        public_registration: settings.allow_public_client_registration,
        trusted_schemes: settings.trusted_public_registration_schemes.clone(),
        trusted_uris: settings.trusted_public_registration_redirect_uris.clone(),
        client_documents: settings.enable_cimd.then_some(AddressPolicy::Public),
        allow_loopback_redirects: settings.allow_localhost_redirect_uris,
        session_duration: duration(&settings.session_duration)?,
        base_url,
        proxies: TrustedProxies::parse(&settings.trusted_proxy_cidrs)
            .map_err(ConfigError::Network)?,
        origins: {
            let origins = settings.allowed_origins.split([',', ' ']).map(str::trim);
            origins.filter(|origin| !origin.is_empty()).map(str::to_owned).collect()
        },
        allowed: SharedPrincipalList::default(),
        own_callback: OwnCallback::default(),
        broker: broker::load(settings, secrets).await?,
    };
    if !settings.dex.ca_file.is_empty() {
        let bad = |reason: String| ConfigError::Certificates {
            file: settings.dex.ca_file.clone(),
            reason,
        };
        let pem = fs::read(&settings.dex.ca_file).map_err(|err| bad(err.to_string()))?;
        trust = trust.with_pem(&pem).map_err(|err: BadCertificate| bad(err.to_string()))?;
    }
    let seal = key.map(|key| Seal::new(key.reveal())).transpose()?;
    Ok(AuthConfig { server, storage: storage(&settings.storage)?, seal, trust })
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
    check_url("baseUrl", url, AddressPolicy::Private)?;
    Ok(url.to_owned())
}

fn check_url(key: &'static str, url: &str, policy: AddressPolicy) -> Result<(), ConfigError> {
    match policy.parse(url) {
        Ok(_) => Ok(()),
        Err(err) => Err(ConfigError::Url { key, reason: err.to_string() }),
    }
}

fn provider(settings: &OAuthServer) -> Result<ProviderConfig, ConfigError> {
    let require = |value: &str, key| {
        if value.is_empty() { Err(ConfigError::Missing(key)) } else { Ok(value.to_owned()) }
    };
    match settings.provider.as_str() {
        "dex" => {
            let dex = &settings.dex;
            let issuer = require(&dex.issuer_url, "dex.issuerUrl")?;
            let policy = if dex.allow_private_ip_oidc {
                AddressPolicy::Private
            } else {
                AddressPolicy::Loopback
            };
            check_url("dex.issuerUrl", &issuer, policy)?;
            let client_secret =
                secret("Dex client secret", &dex.client_secret, &dex.client_secret_file)?;
            Ok(ProviderConfig {
                kind: ProviderKind::Oidc,
                issuer,
                client_id: require(&dex.client_id, "dex.clientId")?,
                client_secret: client_secret.unwrap_or_default(),
                connector: non_empty(&dex.connector_id),
                audiences: Vec::new(),
                policy,
                timeout: PROVIDER_TIMEOUT,
            })
        }
        "google" => {
            let google = &settings.google;
            let client_secret =
                secret("Google client secret", &google.client_secret, &google.client_secret_file)?;
            Ok(ProviderConfig {
                kind: ProviderKind::Google,
                issuer: GOOGLE.to_owned(),
                client_id: require(&google.client_id, "google.clientId")?,
                client_secret: client_secret.unwrap_or_default(),
                connector: None,
                audiences: Vec::new(),
                policy: AddressPolicy::Public,
                timeout: PROVIDER_TIMEOUT,
            })
        }
        other => Err(ConfigError::Provider(other.to_owned())),
    }
}

fn trusted_issuers(
    settings: &OAuthServer,
    base_url: &str,
) -> Result<Vec<TrustedIssuerConfig>, ConfigError> {
    let mut trusted = Vec::new();
    for one in &settings.trusted_issuers {
        check_url("trustedIssuers.issuer", &one.issuer, AddressPolicy::Loopback)?;
        let mut audiences = [one.allowed_audiences.as_slice(), &one.audiences].concat();
        // Without a list, a token must be for this gateway. Otherwise any server that receives a token of the
        // issuer could impersonate its user here.
        if audiences.is_empty() {
            audiences = vec![base_url.to_owned(), format!("{base_url}/mcp")];
            audiences.extend(non_empty(&settings.resource_identifier));
        }
        let policy = match one.allow_private_ip_jwks {
            true => AddressPolicy::Private,
            false => AddressPolicy::Loopback,
        };
        if !one.jwks_url.is_empty() {
            let policy = policy_of(&one.jwks_url, policy, &one.allow_private_ip_jwks_hosts);
            check_url("trustedIssuers.jwksUrl", &one.jwks_url, policy)?;
        }
        let mut claims = Vec::new();
        for (claim, pattern) in &one.allowed_claims {
            let pattern = ClaimPattern::new(pattern)
                .ok_or_else(|| ConfigError::Claim(claim.clone(), pattern.clone()))?;
            claims.push((claim.clone(), pattern));
        }
        trusted.push(TrustedIssuerConfig {
            claims,
            subject_claim: non_empty(&one.subject_claim),
            types: one.accepted_typ_headers.clone(),
            jwks_url: non_empty(&one.jwks_url),
            policy,
            private_hosts: one.allow_private_ip_jwks_hosts.clone(),
            ..TrustedIssuerConfig::new(one.issuer.clone(), audiences)
        });
    }
    Ok(trusted)
}

/// Returns a secret from the settings, or reads it from the file that they name.
fn secret(what: &'static str, setting: &Secret, file: &str) -> Result<Option<Secret>, ConfigError> {
    if !setting.reveal().is_empty() {
        return Ok(Some(setting.clone()));
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
        let unit_seconds = match unit.chars().next() {
            Some('h') => 3600,
            Some('m') => 60,
            Some('s') => 1,
            _ => return Err(bad()),
        };
        seconds = number
            .checked_mul(unit_seconds)
            .and_then(|more| seconds.checked_add(more))
            .ok_or_else(bad)?;
        rest = unit.get(1..).unwrap_or_default();
    }
    if seconds == 0 { Err(bad()) } else { Ok(Duration::from_secs(seconds)) }
}

fn non_empty(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
