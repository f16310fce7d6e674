//! Storage in Valkey or Redis, which several gateways share.

use std::{fmt, net::SocketAddr, time::Duration};

use muster_net::TrustStore;
use redis::{
    AsyncCommands as _, AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo,
    ExistenceCheck, IntoConnectionInfo as _, RedisError, RedisFuture, SetExpiry, SetOptions,
    TlsCertificates, aio::MultiplexedConnection, io::AsyncDNSResolver,
};
use tokio::sync::Mutex;

use super::{KeyValueStore, StoreError, StoreFuture};
use crate::secret::Secret;

/// How long a command may take: requests wait for it.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Connection settings for Valkey.
#[derive(Debug, Clone, Default)]
pub struct ValkeyOptions {
    /// `host:port`, or a URL that begins with `redis://`, `rediss://`, `valkey://` or `valkeys://`.
    pub url: String,
    /// The password, if it has one.
    pub password: Option<Secret>,
    /// Whether to use TLS.
    pub tls: bool,
    /// The name in its certificate, if that is not the host of the URL.
    pub server_name: Option<String>,
    /// The database number.
    pub db: u16,
    /// The prefix of all keys.
    pub prefix: String,
}

/// A store in Valkey.
pub struct ValkeyStore {
    client: Client,
    prefix: String,
    /// The host to connect to, if the client is given another name to verify.
    host: Option<String>,
    /// Opened by the first request, so that a gateway starts while its storage is down, and again
    /// after it broke.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl fmt::Debug for ValkeyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Valkey").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl ValkeyStore {
    /// Parses the settings; the first request connects.
    pub fn new(options: &ValkeyOptions, trust: &TrustStore) -> Result<Self, StoreError> {
        let (info, host) = connection_info(options)?;
        let client = match trust.to_pem() {
            None => Client::open(info),
            root_cert => {
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
        };
        let client = client.map_err(|err| unavailable(&err))?;
        let prefix = options.prefix.clone();
        Ok(Self { client, prefix, host, connection: Mutex::default() })
    }

    async fn connection(&self) -> Result<MultiplexedConnection, StoreError> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = &*current {
            return Ok(connection.clone());
        }
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        if let Some(host) = &self.host {
            config = config.set_dns_resolver(FixedHost(host.clone()));
        }
        let opened = self.client.get_multiplexed_async_connection_with_config(&config).await;
        Ok(current.insert(opened.map_err(|err| unavailable(&err))?).clone())
    }

    /// Maps the result of a command, and drops a connection that broke.
    async fn checked<T>(&self, result: Result<T, RedisError>) -> Result<T, StoreError> {
        match result {
            Ok(value) => Ok(value),
            Err(err) => {
                if err.is_unrecoverable_error() || err.is_timeout() {
                    *self.connection.lock().await = None;
                }
                Err(unavailable(&err))
            }
        }
    }

    async fn set_if(
        &self,
        check: ExistenceCheck,
        key: &str,
        value: Vec<u8>,
        ttl: Duration,
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let options = SetOptions::default().with_expiration(expiry(ttl)).conditional_set(check);
        let set = connection.set_options(self.prefixed(key), value, options).await;
        let set: Option<String> = self.checked(set).await?;
        Ok(set.is_some())
    }

    fn prefixed(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }
}

/// A resolver that returns the addresses of one host. The name it is given is the one that the certificate
/// must have.
struct FixedHost(String);

impl AsyncDNSResolver for FixedHost {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        _: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((self.0.as_str(), port)).await?;
            Ok(Box::new(found) as Box<dyn Iterator<Item = SocketAddr> + Send + 'a>)
        })
    }
}

/// The connection settings, and the host to connect to if the certificate has another name.
fn connection_info(
    options: &ValkeyOptions,
) -> Result<(ConnectionInfo, Option<String>), StoreError> {
    let (scheme, rest) = options.url.split_once("://").unwrap_or(("redis", &options.url));
    let secure = options.tls || matches!(scheme, "rediss" | "valkeys");
    let url = format!("{}://{rest}", if secure { "rediss" } else { "redis" });
    let mut info = url.into_connection_info().map_err(|err| unavailable(&err))?;
    let mut real_host = None;
    match (info.addr().clone(), &options.server_name) {
        (ConnectionAddr::TcpTls { host, port, insecure, tls_params }, Some(name)) => {
            real_host = Some(host);
            let host = name.clone();
            info = info.set_addr(ConnectionAddr::TcpTls { host, port, insecure, tls_params });
        }
        (ConnectionAddr::Unix(_), _) => {
            return Err(StoreError::Unavailable("a socket path is not supported".to_owned()));
        }
        _ => {}
    }
    let mut settings = info.redis_settings().clone();
    if let Some(password) = &options.password {
        settings = settings.set_password(password.reveal());
    }
    if options.db > 0 {
        settings = settings.set_db(options.db.into());
    }
    Ok((info.set_redis_settings(settings), real_host))
}

fn unavailable(err: &RedisError) -> StoreError {
    // Only the category: details may repeat what was sent.
    StoreError::Unavailable(err.category().to_owned())
}

const fn expiry(ttl: Duration) -> SetExpiry {
    SetExpiry::EX(if ttl.as_secs() == 0 { 1 } else { ttl.as_secs() })
}

impl KeyValueStore for ValkeyStore {
    fn get<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            self.checked(connection.get(self.prefixed(key)).await).await
        })
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let options = SetOptions::default().with_expiration(expiry(ttl));
            self.checked(connection.set_options(self.prefixed(key), value, options).await).await
        })
    }

    fn replace<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(self.set_if(ExistenceCheck::XX, key, value, ttl))
    }

    fn claim<'a>(&'a self, key: &'a str, value: Vec<u8>, ttl: Duration) -> StoreFuture<'a, bool> {
        Box::pin(self.set_if(ExistenceCheck::NX, key, value, ttl))
    }

    fn take<'a>(&'a self, key: &'a str) -> StoreFuture<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            self.checked(connection.get_del(self.prefixed(key)).await).await
        })
    }

    fn remove<'a>(&'a self, key: &'a str) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            self.checked(connection.del(self.prefixed(key)).await).await
        })
    }

    fn is_shared(&self) -> bool {
        true
    }
}
