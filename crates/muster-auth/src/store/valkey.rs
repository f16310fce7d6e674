//! Logins in Valkey or Redis, where several gateways find them.

use std::{fmt, time::Duration};

use redis::{
    AsyncCommands as _, Client, ConnectionAddr, ConnectionInfo, ExistenceCheck,
    IntoConnectionInfo as _, RedisError, SetExpiry, SetOptions,
    aio::{ConnectionManager, ConnectionManagerConfig},
};
use tokio::sync::OnceCell;

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
    /// The number of the database.
    pub db: u16,
    /// What all names begin with.
    pub prefix: String,
}

/// Logins in Valkey.
pub struct Valkey {
    client: Client,
    prefix: String,
    /// Made with the first request, so that a gateway starts while its storage is down.
    connection: OnceCell<ConnectionManager>,
}

impl fmt::Debug for Valkey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Valkey").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Valkey {
    /// Reads where it is; it is reached with the first request.
    pub fn new(options: &ValkeyOptions) -> Result<Self, StoreError> {
        let info = address(options)?;
        let client = Client::open(info).map_err(|err| away(&err))?;
        Ok(Self { client, prefix: options.prefix.clone(), connection: OnceCell::new() })
    }

    async fn connection(&self) -> Result<ConnectionManager, StoreError> {
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(LIMIT))
            .set_response_timeout(Some(LIMIT))
            .set_number_of_retries(1);
        let connect = || ConnectionManager::new_with_config(self.client.clone(), config);
        self.connection.get_or_try_init(connect).await.cloned().map_err(|err| away(&err))
    }

    fn name(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

fn address(options: &ValkeyOptions) -> Result<ConnectionInfo, StoreError> {
    let (scheme, rest) = options.url.split_once("://").unwrap_or(("redis", &options.url));
    let secure = options.tls || matches!(scheme, "rediss" | "valkeys");
    let url = format!("{}://{rest}", if secure { "rediss" } else { "redis" });
    let info = url.into_connection_info().map_err(|err| away(&err))?;
    if let ConnectionAddr::Unix(_) = info.addr() {
        return Err(StoreError::Away("a path is no address".to_owned()));
    }
    let mut settings = info.redis_settings().clone();
    if let Some(password) = &options.password {
        settings = settings.set_password(password.reveal());
    }
    if options.db > 0 {
        settings = settings.set_db(options.db.into());
    }
    Ok(info.set_redis_settings(settings))
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
            connection.get(self.name(name)).await.map_err(|err| away(&err))
        })
    }

    fn put<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, ()> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let options = SetOptions::default().with_expiration(expiry(keep));
            connection.set_options(self.name(name), value, options).await.map_err(|err| away(&err))
        })
    }

    fn claim<'a>(&'a self, name: &'a str, value: Vec<u8>, keep: Duration) -> Outcome<'a, bool> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            let options = SetOptions::default()
                .with_expiration(expiry(keep))
                .conditional_set(ExistenceCheck::NX);
            let set: Option<String> = connection
                .set_options(self.name(name), value, options)
                .await
                .map_err(|err| away(&err))?;
            Ok(set.is_some())
        })
    }

    fn take<'a>(&'a self, name: &'a str) -> Outcome<'a, Option<Vec<u8>>> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            connection.get_del(self.name(name)).await.map_err(|err| away(&err))
        })
    }

    fn remove<'a>(&'a self, name: &'a str) -> Outcome<'a, ()> {
        Box::pin(async move {
            let mut connection = self.connection().await?;
            connection.del(self.name(name)).await.map_err(|err| away(&err))
        })
    }

    fn is_shared(&self) -> bool {
        true
    }
}
