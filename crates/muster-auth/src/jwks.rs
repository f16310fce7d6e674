//! JSON Web Key Sets: parsing, fetching, and a cache for each issuer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use muster_net::{AddressPolicy, HttpClient, HttpError, HttpRequest, Url};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    jwt::{Claims, ExpectedClaims, Jwt, JwtError},
    random::from_base64url,
};

/// How long fetched keys are used.
const KEYS_TTL: Duration = Duration::from_secs(60 * 60);

/// How often keys are fetched at most because of a token with an unknown key: an attacker can make any
/// number of them.
const MIN_REFETCH_INTERVAL: Duration = Duration::from_secs(10);

/// A public key of an issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    /// The key id (`kid`).
    pub id: Option<String>,
    /// The only signature algorithm it is for, if it names one.
    pub algorithm: Option<String>,
    /// The key itself.
    pub material: KeyMaterial,
}

/// The numbers of a public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyMaterial {
    /// An RSA key.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// An elliptic curve key.
    Curve {
        /// The curve.
        name: &'static str,
        /// The encoded point.
        point: Vec<u8>,
    },
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

/// Parses a key set. Keys that are not for signatures, or of an unknown type, are skipped.
pub fn parse(document: &[u8]) -> Option<Vec<PublicKey>> {
    let set: Set = serde_json::from_slice(document).ok()?;
    let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Some(keys.filter_map(key).collect())
}

fn key(jwk: Jwk) -> Option<PublicKey> {
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let part = |part: &Option<String>| part.as_deref().and_then(from_base64url);
    let point = |name, length| {
        let (x, y) = (part(&jwk.x)?, part(&jwk.y)?);
        let fits = x.len() == length && y.len() == length;
        fits.then(|| KeyMaterial::Curve { name, point: [vec![4], x, y].concat() })
    };
    let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => KeyMaterial::Rsa { n: part(&jwk.n)?, e: part(&jwk.e)? },
        ("EC", Some("P-256")) => point("P-256", 32)?,
        ("EC", Some("P-384")) => point("P-384", 48)?,
        ("OKP", Some("Ed25519")) => KeyMaterial::Curve { name: "Ed25519", point: part(&jwk.x)? },
        _ => return None,
    };
    Some(PublicKey { id: jwk.kid, algorithm: jwk.alg, material })
}

/// Why a token could not be verified.
#[derive(Debug, thiserror::Error)]
pub enum JwksError {
    /// The token is invalid.
    #[error(transparent)]
    Token(#[from] JwtError),
    /// The keys cannot be fetched.
    #[error("the keys of the issuer cannot be fetched: {0}")]
    Fetch(#[from] HttpError),
    /// The response is not a key set.
    #[error("the keys of the issuer cannot be read")]
    Malformed,
}

/// Where the keys are fetched from.
#[derive(Debug)]
enum KeysLocation {
    /// The URL of the key set.
    Url(String),
    /// The `jwks_uri` in the metadata of this issuer.
    Issuer(String),
}

/// Keys, and when they were fetched.
type Fetched = (Instant, Arc<[PublicKey]>);

/// A cache of one issuer's keys.
#[derive(Debug)]
pub struct JwksCache {
    http: HttpClient,
    location: KeysLocation,
    policy: AddressPolicy,
    /// Hosts that may also have private addresses.
    private_hosts: Vec<String>,
    fetched: Mutex<Option<Fetched>>,
}

impl JwksCache {
    /// A cache for the key set at a URL.
    pub fn new(http: HttpClient, url: String, policy: AddressPolicy) -> Self {
        Self::at(http, KeysLocation::Url(url), policy)
    }

    /// A cache for the key set that the metadata of an issuer names.
    pub fn discovered(http: HttpClient, issuer: &str, policy: AddressPolicy) -> Self {
        Self::at(http, KeysLocation::Issuer(issuer.to_owned()), policy)
    }

    fn at(http: HttpClient, location: KeysLocation, policy: AddressPolicy) -> Self {
        Self { http, location, policy, private_hosts: Vec::new(), fetched: Mutex::new(None) }
    }

    /// Allows these hosts to have private addresses, whatever the policy says.
    #[must_use]
    pub fn with_private_hosts(self, private_hosts: Vec<String>) -> Self {
        Self { private_hosts, ..self }
    }

    /// Verifies a token. If no cached key fits, the keys are fetched again: the issuer may have rotated
    /// them.
    pub async fn verify(
        &self,
        token: &str,
        expected: &ExpectedClaims<'_>,
    ) -> Result<Claims, JwksError> {
        let read = || Jwt::parse(token).ok_or(JwtError::Malformed);
        match read()?.verify(&self.keys(KEYS_TTL).await?, expected) {
            Err(JwtError::UnknownKey | JwtError::Signature) => {
                Ok(read()?.verify(&self.keys(MIN_REFETCH_INTERVAL).await?, expected)?)
            }
            verified => Ok(verified?),
        }
    }

    /// Keys that are no older than `max_age`. Concurrent callers wait for one fetch.
    async fn keys(&self, max_age: Duration) -> Result<Arc<[PublicKey]>, JwksError> {
        let mut fetched = self.fetched.lock().await;
        if let Some((when, keys)) = fetched.as_ref()
            && when.elapsed() < max_age
        {
            return Ok(Arc::clone(keys));
        }
        match self.fetch().await {
            Ok(keys) => {
                *fetched = Some((Instant::now(), Arc::clone(&keys)));
                Ok(keys)
            }
            // Old keys are better than none while the issuer is unavailable.
            Err(err) => fetched.as_ref().map(|(_, keys)| Arc::clone(keys)).ok_or(err),
        }
    }

    async fn fetch(&self) -> Result<Arc<[PublicKey]>, JwksError> {
        let url = match &self.location {
            KeysLocation::Url(url) => url.clone(),
            KeysLocation::Issuer(issuer) => self.discover(issuer).await?,
        };
        let body = self.document(url).await?;
        parse(&body).map(Into::into).ok_or(JwksError::Malformed)
    }

    async fn discover(&self, issuer: &str) -> Result<String, JwksError> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: String,
        }
        let body = self.document(format!("{issuer}/.well-known/openid-configuration")).await?;
        let metadata: Metadata = serde_json::from_slice(&body).map_err(|_| JwksError::Malformed)?;
        if metadata.issuer.trim_end_matches('/') == issuer {
            Ok(metadata.jwks_uri)
        } else {
            Err(JwksError::Malformed)
        }
    }

    async fn document(&self, url: String) -> Result<Bytes, JwksError> {
        // No redirect is followed, so the policy of this host stays with it.
        let policy = policy_of(&url, self.policy, &self.private_hosts);
        let response = self.http.send(HttpRequest::get(url, policy)).await?;
        if response.status.is_success() { Ok(response.body) } else { Err(JwksError::Malformed) }
    }
}

/// The policy for a URL: private addresses are allowed for the hosts that are named.
pub(crate) fn policy_of(url: &str, policy: AddressPolicy, private: &[String]) -> AddressPolicy {
    let host = Url::parse(url).ok().map(|url| url.host().to_owned());
    match host.is_some_and(|host| private.iter().any(|named| named.eq_ignore_ascii_case(&host))) {
        true => AddressPolicy::Private,
        false => policy,
    }
}
