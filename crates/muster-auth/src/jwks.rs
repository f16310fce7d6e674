//! The keys that an issuer signs with: read, fetched, and kept for a while.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use muster_net::{AddressPolicy, HttpClient, HttpError, HttpRequest};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    jwt::{Claims, Expected, Jwt, JwtError},
    random::from_base64url,
};

/// How long keys are taken for current.
const KEEP: Duration = Duration::from_secs(60 * 60);

/// How often an issuer is asked at most because of a key that nobody knows: such tokens cost nothing to
/// make.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// A public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name among the issuer's keys.
    pub id: Option<String>,
    /// The one way to sign that it is for, if it says so.
    pub algorithm: Option<String>,
    /// What it consists of.
    pub material: Material,
}

/// What a key consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Material {
    /// A modulus and an exponent.
    Rsa {
        /// The modulus.
        n: Vec<u8>,
        /// The exponent.
        e: Vec<u8>,
    },
    /// A point on a curve.
    Curve {
        /// The curve.
        name: &'static str,
        /// The point, as signatures are checked with it.
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

/// Reads a key set. What is not a key for signatures is passed over.
pub fn parse(document: &[u8]) -> Option<Vec<Key>> {
    let set: Set = serde_json::from_slice(document).ok()?;
    let keys = set.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
    Some(keys.filter_map(key).collect())
}

fn key(jwk: Jwk) -> Option<Key> {
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let part = |part: &Option<String>| part.as_deref().and_then(from_base64url);
    let point = |name, length| {
        let (x, y) = (part(&jwk.x)?, part(&jwk.y)?);
        let fits = x.len() == length && y.len() == length;
        fits.then(|| Material::Curve { name, point: [vec![4], x, y].concat() })
    };
    let material = match (jwk.kty.as_str(), jwk.crv.as_deref()) {
        ("RSA", _) => Material::Rsa { n: part(&jwk.n)?, e: part(&jwk.e)? },
        ("EC", Some("P-256")) => point("P-256", 32)?,
        ("EC", Some("P-384")) => point("P-384", 48)?,
        ("OKP", Some("Ed25519")) => Material::Curve { name: "Ed25519", point: part(&jwk.x)? },
        _ => return None,
    };
    Some(Key { id: jwk.kid, algorithm: jwk.alg, material })
}

/// Why a token could not be judged, or was refused.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// It was judged, and is bad.
    #[error(transparent)]
    Token(#[from] JwtError),
    /// The keys cannot be had.
    #[error("the keys of the issuer cannot be had: {0}")]
    Dial(#[from] HttpError),
    /// What came are no keys.
    #[error("the keys of the issuer cannot be read")]
    Document,
}

/// Where the keys are.
#[derive(Debug)]
enum Place {
    /// At an address.
    At(String),
    /// Where the issuer says.
    Of(String),
}

/// Keys, and since when they are here.
type Held = (Instant, Arc<[Key]>);

/// The keys of one issuer.
#[derive(Debug)]
pub struct Keys {
    dialer: HttpClient,
    place: Place,
    reach: AddressPolicy,
    held: Mutex<Option<Held>>,
}

impl Keys {
    /// Keys that are at an address.
    pub fn new(dialer: HttpClient, url: String, reach: AddressPolicy) -> Self {
        Self { dialer, place: Place::At(url), reach, held: Mutex::new(None) }
    }

    /// Keys of an issuer that tells where they are.
    pub fn discovered(dialer: HttpClient, issuer: &str, reach: AddressPolicy) -> Self {
        Self { dialer, place: Place::Of(issuer.to_owned()), reach, held: Mutex::new(None) }
    }

    /// Believes a token, if the issuer signed it. Keys may have changed since they were fetched, so a
    /// token that fits none of them is worth another look.
    pub async fn verify(&self, token: &str, expected: &Expected<'_>) -> Result<Claims, KeysError> {
        let read = || Jwt::read(token).ok_or(JwtError::Malformed);
        match read()?.verify(&self.keys(KEEP).await?, expected) {
            Err(JwtError::UnknownKey | JwtError::Signature) => {
                Ok(read()?.verify(&self.keys(ASK_AGAIN).await?, expected)?)
            }
            judged => Ok(judged?),
        }
    }

    /// Keys that were fetched no longer ago than this. One fetch serves everybody who waits.
    async fn keys(&self, no_older: Duration) -> Result<Arc<[Key]>, KeysError> {
        let mut held = self.held.lock().await;
        if let Some((since, keys)) = held.as_ref()
            && since.elapsed() < no_older
        {
            return Ok(Arc::clone(keys));
        }
        match self.fetch().await {
            Ok(keys) => {
                *held = Some((Instant::now(), Arc::clone(&keys)));
                Ok(keys)
            }
            // Old keys are better than none while their owner cannot be asked.
            Err(err) => held.as_ref().map(|(_, keys)| Arc::clone(keys)).ok_or(err),
        }
    }

    async fn fetch(&self) -> Result<Arc<[Key]>, KeysError> {
        let url = match &self.place {
            Place::At(url) => url.clone(),
            Place::Of(issuer) => self.told(issuer).await?,
        };
        let body = self.document(url).await?;
        parse(&body).map(Into::into).ok_or(KeysError::Document)
    }

    async fn told(&self, issuer: &str) -> Result<String, KeysError> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: String,
        }
        let body = self.document(format!("{issuer}/.well-known/openid-configuration")).await?;
        let told: Metadata = serde_json::from_slice(&body).map_err(|_| KeysError::Document)?;
        if told.issuer.trim_end_matches('/') == issuer {
            Ok(told.jwks_uri)
        } else {
            Err(KeysError::Document)
        }
    }

    async fn document(&self, url: String) -> Result<Bytes, KeysError> {
        let answer = self.dialer.send(HttpRequest::get(url, self.reach)).await?;
        if answer.status.is_success() { Ok(answer.body) } else { Err(KeysError::Document) }
    }
}
