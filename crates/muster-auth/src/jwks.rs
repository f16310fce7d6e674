//! JSON Web Key Sets: parsing, fetching, and a cache for each issuer.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use muster_net::{AddressPolicy, HttpClient, HttpError, HttpRequest, Url};
use serde::Deserialize;
use tokio::{sync::Mutex, time::Instant};

use crate::{
    jwt::{Claims, ExpectedClaims, Jwt, JwtError},
    lock::Lock,
    random::from_base64url,
};

/// How long fetched keys are used.
const KEYS_TTL: Duration = Duration::from_secs(60 * 60);

/// The minimum interval between fetches that an unknown key or an unavailable issuer causes. It protects the issuer: an
/// attacker can send any number of tokens with unknown keys.
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

/// The cryptographic parameters of a public key.
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
    /// A recent fetch failed, and the keys are not fetched again yet.
    #[error("the keys of the issuer could not be fetched a moment ago")]
    BackingOff,
}

/// The source of the keys.
#[derive(Debug)]
enum KeysLocation {
    /// The URL of the key set.
    Url(String),
    /// The `jwks_uri` in the metadata of this issuer.
    Issuer(String),
}

/// The keys of an issuer that were last fetched.
#[derive(Debug, Default)]
struct KnownKeys {
    /// The keys, and when they were fetched.
    fetched: Option<(Instant, Arc<[PublicKey]>)>,
    /// The last attempt to fetch them.
    attempted: Option<Instant>,
}

/// A cache of one issuer's keys.
#[derive(Debug)]
pub struct JwksCache {
    http: HttpClient,
    location: KeysLocation,
    policy: AddressPolicy,
    /// Hosts that may also have private addresses.
    private_hosts: Vec<String>,
    known: Lock<KnownKeys>,
    /// Held during a fetch, so that concurrent callers share one.
    fetching: Mutex<()>,
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
        Self {
            http,
            location,
            policy,
            private_hosts: Vec::new(),
            known: Lock::default(),
            fetching: Mutex::new(()),
        }
    }

    /// Allows these hosts to have private addresses, whatever the policy says.
    #[must_use]
    pub fn with_private_hosts(self, private_hosts: Vec<String>) -> Self {
        Self { private_hosts, ..self }
    }

    /// Verifies a token. If no cached key verifies it, fetches the keys again: the issuer may have rotated
    /// them.
    pub async fn verify(
        &self,
        token: &str,
        expected: &ExpectedClaims<'_>,
    ) -> Result<Claims, JwksError> {
        let read = || Jwt::parse(token).ok_or(JwtError::Malformed);
        match read()?.verify(&self.usable_keys().await?, expected) {
            Err(JwtError::UnknownKey | JwtError::Signature) => {
                Ok(read()?.verify(&self.latest_keys().await?, expected)?)
            }
            verified => Ok(verified?),
        }
    }

    /// Returns the keys, fetching them again if the cached ones are stale. Stale keys are returned without waiting if
    /// another caller is fetching already, and also if the fetch fails.
    async fn usable_keys(&self) -> Result<Arc<[PublicKey]>, JwksError> {
        if let Some(keys) = self.younger_than(KEYS_TTL) {
            return Ok(keys);
        }
        let Some(old) = self.younger_than(Duration::MAX) else { return self.latest_keys().await };
        match self.fetching.try_lock() {
            Ok(_fetching) => Ok(self.refetch().await.unwrap_or(old)),
            Err(_) => Ok(old),
        }
    }

    /// Returns keys that were fetched within the last few seconds. Concurrent callers wait for a single fetch.
    async fn latest_keys(&self) -> Result<Arc<[PublicKey]>, JwksError> {
        let _fetching = self.fetching.lock().await;
        match self.younger_than(MIN_REFETCH_INTERVAL) {
            Some(keys) => Ok(keys),
            None => {
                let fetched = self.refetch().await;
                fetched.or_else(|error| self.younger_than(Duration::MAX).ok_or(error))
            }
        }
    }

    fn younger_than(&self, max_age: Duration) -> Option<Arc<[PublicKey]>> {
        let known = self.known.lock();
        let (when, keys) = known.fetched.as_ref()?;
        (when.elapsed() < max_age).then(|| Arc::clone(keys))
    }

    /// Fetches the keys, unless the last attempt was a moment ago. The caller holds the `fetching` lock.
    async fn refetch(&self) -> Result<Arc<[PublicKey]>, JwksError> {
        let attempted = self.known.lock().attempted;
        if attempted.is_some_and(|when| when.elapsed() < MIN_REFETCH_INTERVAL) {
            return Err(JwksError::BackingOff);
        }
        let fetched = self.fetch().await;
        // Take the time after the fetch: a fetch that times out may take longer than the interval.
        let (now, mut known) = (Instant::now(), self.known.lock());
        known.attempted = Some(now);
        if let Ok(keys) = &fetched {
            known.fetched = Some((now, Arc::clone(keys)));
        }
        fetched
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
        // Redirects are not followed, so the address policy of this host cannot apply to another one.
        let policy = policy_of(&url, self.policy, &self.private_hosts);
        let response = self.http.send(HttpRequest::get(url, policy)).await?;
        if response.status.is_success() { Ok(response.body) } else { Err(JwksError::Malformed) }
    }
}

/// The address policy for a URL: the hosts in `private` may also have private addresses.
pub(crate) fn policy_of(url: &str, policy: AddressPolicy, private: &[String]) -> AddressPolicy {
    let host = Url::parse(url).ok().map(|url| url.host().to_owned());
    match host.is_some_and(|host| private.iter().any(|named| named.eq_ignore_ascii_case(&host))) {
        true => AddressPolicy::Private,
        false => policy,
    }
}

#[cfg(test)]
mod tests {
    use std::{
        net::Ipv4Addr,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use muster_core::{backend::BoxFuture, join::join_all};
    use muster_net::{AddressPolicy, HttpClient, TrustStore};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        sync::Notify,
    };

    use super::{JwksCache, JwksError, KEYS_TTL, MIN_REFETCH_INTERVAL};

    /// An issuer that stops responding after its first response. Its connections are closed when the gate opens.
    struct Issuer {
        keys: JwksCache,
        requests: Arc<AtomicUsize>,
        gate: Arc<Notify>,
        _tasks: tokio::task::JoinSet<()>,
    }

    async fn issuer(responses: usize) -> Issuer {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (requests, gate) = (Arc::<AtomicUsize>::default(), Arc::new(Notify::new()));
        let (counter, closing) = (Arc::clone(&requests), Arc::clone(&gate));
        let mut tasks = tokio::task::JoinSet::new();
        tasks.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                drop(stream.read(&mut [0; 4096]).await);
                if counter.fetch_add(1, Ordering::SeqCst) < responses {
                    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\n{\"keys\":[]}";
                    stream.write_all(reply.as_bytes()).await.unwrap();
                } else {
                    closing.notified().await;
                }
            }
        });
        let http = HttpClient::new(Arc::new(TrustStore::system()));
        let keys = JwksCache::new(http, url, AddressPolicy::Loopback);
        Issuer { keys, requests, gate, _tasks: tasks }
    }

    #[tokio::test]
    async fn an_issuer_that_is_down_delays_nobody_who_has_old_keys() {
        let issuer = issuer(1).await;
        issuer.keys.usable_keys().await.unwrap();
        tokio::time::pause();
        tokio::time::advance(KEYS_TTL).await;
        tokio::time::resume();
        let fetching = issuer.keys.usable_keys();
        let others = async {
            while issuer.requests.load(Ordering::SeqCst) < 2 {
                tokio::task::yield_now().await;
            }
            // These calls return although the issuer does not respond.
            for _ in 0..10 {
                issuer.keys.usable_keys().await.unwrap();
            }
            issuer.gate.notify_one();
        };
        tokio::join!(fetching, others).0.unwrap();
        issuer.keys.usable_keys().await.unwrap();
        issuer.keys.latest_keys().await.unwrap();
        assert_eq!(issuer.requests.load(Ordering::SeqCst), 2, "one attempt in the interval");
    }

    #[tokio::test]
    async fn callers_without_keys_share_one_failed_attempt() {
        let issuer = issuer(0).await;
        issuer.gate.notify_one();
        let callers = (0..5)
            .map(|_| Box::pin(issuer.keys.usable_keys()) as BoxFuture<'_, Result<_, JwksError>>);
        let results = join_all(callers.collect()).await;
        assert!(results.iter().all(Result::is_err));
        assert_eq!(issuer.requests.load(Ordering::SeqCst), 1);
        tokio::time::pause();
        tokio::time::advance(MIN_REFETCH_INTERVAL).await;
        tokio::time::resume();
        issuer.gate.notify_one();
        assert!(matches!(issuer.keys.usable_keys().await, Err(JwksError::Fetch(_))));
    }
}
