//! Connections to Valkey: to one server or to a cluster, plain or with TLS.

use std::{net::SocketAddr, time::Duration};

use muster_core::shared::StoreError;
use muster_net::TrustStore;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, ErrorKind, FromRedisValue,
    IntoConnectionInfo as _, Pipeline, ProtocolVersion, RedisError, RedisFuture, ServerErrorKind,
    TlsCertificates, Value,
    aio::{AsyncPushSender, ConnectionLike, MultiplexedConnection},
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    io::AsyncDNSResolver,
};

use crate::ValkeyOptions;

/// How long a command may take: requests wait for it.
pub(super) const TIMEOUT: Duration = Duration::from_secs(3);

/// Opens connections.
pub(super) struct Connector {
    client: Client,
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
    /// The client of a cluster.
    cluster: Option<ClusterClient>,
    /// The host to connect to, if the client is given another name to verify.
    host: Option<String>,
}

/// An open connection, which many requests share.
#[derive(Clone)]
pub(super) enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Connector {
    pub(super) fn new(options: &ValkeyOptions, trust: &TrustStore) -> Result<Self, StoreError> {
        let (info, host) = connection_info(options)?;
        let cluster =
            options.cluster.then(|| cluster(&info, host.as_deref(), trust)).transpose()?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let info = info.set_redis_settings(settings);
        let certificates = certificates(trust);
        let client = client(info.clone(), certificates.clone());
        let client = client.map_err(|err| unavailable(&err))?;
        Ok(Self { client, info, certificates, cluster, host })
    }

    /// Opens a connection.
    pub(super) async fn connect(&self) -> Result<Connection, RedisError> {
        match &self.cluster {
            Some(cluster) => cluster.get_async_connection().await.map(Connection::Cluster),
            None => {
                let config = self.config();
                let opened = self.client.get_multiplexed_async_connection_with_config(&config);
                opened.await.map(Connection::Single)
            }
        }
    }

    /// Opens a connection for subscriptions. In a cluster each node passes messages on to all others.
    pub(super) async fn connect_for_messages(
        &self,
        messages: impl AsyncPushSender,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = self.config().set_push_sender(messages);
        self.client.get_multiplexed_async_connection_with_config(&config).await
    }

    /// Opens a connection to the node of a cluster that a slot is being moved to. The cluster client does not know the
    /// node if it has no other slot.
    pub(super) async fn connect_to_importing(
        &self,
        node: &NodeAddress,
    ) -> Result<ImportingNode, RedisError> {
        let (host, port) = (node.host.clone(), node.port);
        let address = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        let client = client(self.info.clone().set_addr(address), self.certificates.clone())?;
        let opened = client.get_multiplexed_async_connection_with_config(&self.config()).await;
        opened.map(ImportingNode)
    }

    fn config(&self) -> AsyncConnectionConfig {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(TIMEOUT))
            .set_response_timeout(Some(TIMEOUT));
        match &self.host {
            Some(host) => config.set_dns_resolver(FixedHost(host.clone())),
            None => config,
        }
    }
}

impl Connection {
    /// Sends commands in one round trip.
    pub(super) async fn query<T: FromRedisValue>(
        &mut self,
        commands: &Pipeline,
    ) -> Result<T, RedisError> {
        match self {
            Self::Single(connection) => commands.query_async(connection).await,
            Self::Cluster(connection) => commands.query_async(connection).await,
        }
    }

    /// Whether an error shows that another server is responsible, which only a new connection finds. The cluster client
    /// learns that from commands, but not from transactions.
    pub(super) fn is_misdirected(&self, err: &RedisError) -> bool {
        use ServerErrorKind::{Moved, ReadOnly};
        is_aborted_by(err, |kind| matches!(kind, Moved | ReadOnly))
            || (matches!(self, Self::Single(_)) && err.kind() == ErrorKind::Server(ReadOnly))
    }
}

/// The address of a node of a cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeAddress {
    host: String,
    port: u16,
}

impl NodeAddress {
    /// The node that a slot is being moved to, if an error shows that a command, which was not executed, belongs there.
    pub(super) fn of_import(err: &RedisError) -> Option<Self> {
        let errors = err.clone().into_server_errors()?;
        let (_, error) =
            errors.iter().find(|(_, error)| error.kind() == Some(ServerErrorKind::Ask))?;
        let (host, port) = error.details()?.split_whitespace().nth(1)?.rsplit_once(':')?;
        // An empty host stands for that of the node that was asked, which is not known here.
        let host = Some(host).filter(|host| !host.is_empty())?;
        Some(Self { host: host.to_owned(), port: port.parse().ok()? })
    }
}

/// The node that a slot is being moved to. It executes commands for the slot only after `ASKING`.
pub(super) struct ImportingNode(MultiplexedConnection);

impl ConnectionLike for ImportingNode {
    fn req_packed_command<'a>(&'a mut self, command: &'a redis::Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        // `ASKING` holds for the next command, or for the whole transaction that begins with it.
        let mut asking = redis::pipe();
        asking.cmd("ASKING");
        if commands.is_transaction() {
            asking.cmd("MULTI");
        }
        for command in commands.cmd_iter() {
            asking.add_command(command.clone());
        }
        if commands.is_transaction() {
            asking.cmd("EXEC");
        }
        Box::pin(async move {
            let replies = self.0.req_packed_commands(&asking, offset + 1, count).await?;
            match commands.is_transaction() {
                // An aborted transaction has an error in place of replies.
                true => replies.into_iter().map(Value::extract_error).collect(),
                false => Ok(replies),
            }
        })
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}

fn client(
    info: ConnectionInfo,
    certificates: Option<TlsCertificates>,
) -> Result<Client, RedisError> {
    match certificates {
        None => Client::open(info),
        Some(certificates) => Client::build_with_tls(info, certificates),
    }
}

fn cluster(
    info: &ConnectionInfo,
    host: Option<&str>,
    trust: &TrustStore,
) -> Result<ClusterClient, StoreError> {
    if host.is_some() {
        let reason = "the nodes of a cluster cannot share one `tlsServerName`";
        return Err(StoreError::Unavailable(reason.to_owned()));
    }
    let builder = ClusterClientBuilder::new([info.clone()])
        .connection_timeout(TIMEOUT)
        .response_timeout(TIMEOUT)
        .overall_response_timeout(Some(TIMEOUT))
        // A command is sent again only if it was not executed: see `is_not_executed`.
        .retries(0);
    let builder = match certificates(trust) {
        None => builder,
        Some(certificates) => builder.certs(certificates),
    };
    builder.build().map_err(|err| unavailable(&err))
}

fn certificates(trust: &TrustStore) -> Option<TlsCertificates> {
    let root_cert = trust.to_pem()?;
    Some(TlsCertificates { client_tls: None, root_cert: Some(root_cert) })
}

/// A resolver that returns the addresses of one host. The name to resolve is the one that the certificate must have.
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

/// Whether an error proves that a command was not executed, and that it may be soon.
pub(super) fn is_not_executed(err: &RedisError) -> bool {
    use ServerErrorKind::{Ask, BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    let is_refused = |kind| {
        matches!(kind, Moved | Ask | TryAgain | ClusterDown | MasterDown | BusyLoading | ReadOnly)
    };
    is_aborted_by(err, is_refused)
        || matches!(err.kind(), ErrorKind::Server(kind) if is_refused(kind))
}

/// Whether a transaction was aborted because of an error of some kind.
fn is_aborted_by(err: &RedisError, is_reason: impl Fn(ServerErrorKind) -> bool) -> bool {
    if err.kind() != ErrorKind::Server(ServerErrorKind::ExecAbort) {
        return false;
    }
    let errors = err.clone().into_server_errors().unwrap_or_default();
    errors.iter().any(|(_, error)| error.kind().is_some_and(&is_reason))
}

pub(super) fn unavailable(err: &RedisError) -> StoreError {
    // Only the category: details may repeat what was sent.
    StoreError::Unavailable(err.category().to_owned())
}
