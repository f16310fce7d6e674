//! Logins in Valkey or Redis, where several gateways find them.

use std::{fmt, net::SocketAddr, time::Duration};

use muster_net::TrustStore;
use redis::{
    AsyncCommands as _, AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo,
    ExistenceCheck, IntoConnectionInfo as _, RedisError, RedisFuture, SetExpiry, SetOptions,
    TlsCertificates, aio::MultiplexedConnection, io::AsyncDNSResolver,
};
use tokio::sync::Mutex;

use super::{Outcome, Store, StoreError};
use crate::secret::Secret;

/// How long a command may take; requests wait for it.
const LIMIT: Duration = Duration::from_secs(3);

/// How Valkey is reached.
#[derive(Debug, Clone, Default)]
pub struct ValkeyOptions {
    /// `host:port`, or an address that begins with `redis://`, `rediss://`, `valkey://` or `valkeys://`.
    pub url: String,
    /// Its password, if it has one.
    pub password: Option<Secret>,
    /// Whether TLS is spoken.
    pub tls: bool,
    /// What its certificate must name, if not the host of the address.
    pub server_name: Option<String>,
    /// The number of the database.
    pub db: u16,
    /// What all names begin with.
    pub prefix: String,
}

/// Logins in Valkey.
pub struct Valkey {
    client: Client,
    prefix: String,
    /// The host to connect to, where the client was told another name.
    host: Option<String>,
    /// Made with the first request, so that a gateway starts while its storage is down, and again
    /// after it broke.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl fmt::Debug for Valkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Valkey").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Valkey {
    /// Reads where it is; it is reached with the first request.
    pub fn new(options: &ValkeyOptions, trust: &TrustStore) -> Result<Self, StoreError> {
        let (info, host) = address(options)?;
        let client = match trust.to_pem() {
            None => Client::open(info),
            root_cert => {
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
        };
        let client = client.map_err(|err| away(&err))?;
        let prefix = options.prefix.clone();
        Ok(Self { client, prefix, host, connection: Mutex::default() })
    }

    async fn connection(&self) -> Result<MultiplexedConnection, StoreError> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(connection.clone());
        }
        let mut config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT));
        if let Some(host) = &self.host {
            config = config.set_dns_resolver(At(host.clone()));
        }
        let made = self.client.get_multiplexed_async_connection_with_config(&config).await;
        Ok(held.insert(made.map_err(|err| away(&err))?).clone())
    }

    /// What a command came to. A connection that broke is not used again.
    async fn outcome<T>(&self, outcome: Result<T, RedisError>) -> Result<T, StoreError> {
        match outcome {
            Ok(value) => Ok(value),
            Err(err) => {
                if err.is_unrecoverable_error() || err.is_timeout() {
                    *self.connection.lock().await = None;
                }
                Err(away(&err))
            }
        }
    }

    async fn set_if(
        &self,
        check: ExistenceCheck,
        name: &str,
        value: Vec<u8>,
        keep: Duration,
    ) -> Result<bool, StoreError> {
        let mut connection = self.connection().await?;
        let options = SetOptions::default().with_expiration(expiry(keep)).conditional_set(check);
        let set = connection.set_options(self.name(name), value, options).await;
        let set: Option<String> = self.outcome(set).await?;
        Ok(set.is_some())
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

/// Finds one host, whatever it is asked for: the name that is asked for is the one that the certificate
/// must have.
struct At(String);

impl AsyncDNSResolver for At {
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

/// How it is reached, and the host to connect to if that is not the one it is known by.
fn address(options: &ValkeyOptions) -> Result<(ConnectionInfo, Option<String>), StoreError> {
    let (scheme, rest) = options.url.split_once("://").unwrap_or(("redis", &options.url));
    let secure = options.tls || matches!(scheme, "rediss" | "valkeys");
    let url = format!("{}://{rest}", if secure { "rediss" } else { "redis" });
    let mut info = url.into_connection_info().map_err(|err| away(&err))?;
    let mut elsewhere = None;
    match (info.addr().clone(), &options.server_name) {
        (ConnectionAddr::TcpTls { host, port, insecure, tls_params }, Some(name)) => {
            elsewhere = Some(host);
            let host = name.clone();
            info = info.set_addr(ConnectionAddr::TcpTls { host, port, insecure, tls_params });
        }
        (ConnectionAddr::Unix(_), _) => {
            return Err(StoreError::Away("a path is no address".to_owned()));
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
    Ok((info.set_redis_settings(settings), elsewhere))
}

fn away(err: &RedisError) -> StoreError {
    // Only the kind: details may repeat what was sent.
    StoreError::Away(err.category().to_owned())
}

const fn expiry(keep: Duration) -> SetExpiry {
    SetExpiry::EX(if keep.as_secs() == 0 { 1 } else { keep.as_secs() })
}

impl Store for Valkey {
    fn get<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            self.outcome(connection.get(self.name(name)).await).await
        })
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, ()> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let options = SetOptions::default().with_expiration(expiry(keep));
            self.outcome(connection.set_options(self.name(name), value, options).await).await
        })
    }

    fn replace<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        Box::pin(self.set_if(ExistenceCheck::XX, name, value, keep))
    }

    fn claim<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        Box::pin(self.set_if(ExistenceCheck::NX, name, value, keep))
    }

    fn take<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            self.outcome(connection.get_del(self.name(name)).await).await
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Outcome<'a, ()> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            self.outcome(connection.del(self.name(name)).await).await
        })
    }

    fn is_shared(&self) -> bool {
        true
    }
}
