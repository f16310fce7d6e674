//! The gateway to use, selected by an explicit endpoint, a context or the local configuration.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use http::{HeaderName, HeaderValue};
use muster_auth::access::operator_file::{self, LOCAL_HEADER, OperatorCredentials};
use muster_config::settings::{self, Settings};

use thiserror::Error;

use crate::{
    contexts::{ContextError, Contexts},
    env_vars, local_gateway,
    user_dirs::{self, NoHome},
};

/// The endpoint of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its URL.
    pub url: String,
    /// The transport at this URL.
    pub transport: GatewayTransport,
    /// Where the URL comes from.
    pub origin: Origin,
    /// The operator credentials to send, see [`Target::as_operator`].
    pub operator: Option<OperatorCredentials>,
}

/// Where a URL comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The user or a context named it.
    Named,
    /// The `config.yaml` of the gateway.
    Configured,
}

/// The transport to a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewayTransport {
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP with server-sent events, as in 2024-11-05.
    Sse,
}

/// The options that select a gateway.
#[derive(Debug, Clone, Copy, Default)]
pub struct TargetOptions<'a> {
    /// An endpoint.
    pub endpoint: Option<&'a str>,
    /// The name of a context.
    pub context: Option<&'a str>,
    /// A configuration directory.
    pub config_path: Option<&'a PathBuf>,
}

/// Why no gateway could be determined.
#[derive(Debug, Error)]
pub enum TargetError {
    /// The contexts cannot be read.
    #[error(transparent)]
    Contexts(#[from] ContextError),
    /// There is no context of this name.
    #[error("context \"{0}\" not found")]
    UnknownContext(String),
    /// The transport of the configured gateway has no URL: it is standard input and output.
    #[error("unsupported transport: {0}")]
    NoUrl(&'static str),
    /// `config.yaml` cannot be read.
    #[error("failed to load config: {}: {reason}", .path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// There is no directory for `config.yaml`.
    #[error(transparent)]
    NoHome(#[from] NoHome),
}

impl Target {
    /// The gateway at a URL.
    pub fn at(url: &str) -> Self {
        let transport = if url.ends_with("/sse") {
            GatewayTransport::Sse
        } else {
            GatewayTransport::StreamableHttp
        };
        Self { url: url.to_owned(), transport, origin: Origin::Named, operator: None }
    }

    /// Resolves the gateway. The order of precedence is: the endpoint, the named context,
    /// `MUSTER_CONTEXT`, the current context, the configuration.
    pub fn resolve(options: TargetOptions<'_>) -> Result<Self, TargetError> {
        if let Some(url) = options.endpoint.filter(|url| !url.is_empty()) {
            return Ok(Self::at(url));
        }
        let named = options.context.filter(|name| !name.is_empty()).map(str::to_owned);
        if let Some(name) = named.or_else(|| env_vars::get("MUSTER_CONTEXT")) {
            let contexts = Contexts::load()?;
            let context = contexts.get(&name);
            let context = context.ok_or_else(|| TargetError::UnknownContext(name.clone()))?;
            return Ok(Self::at(&context.endpoint));
        }
        // If the contexts file cannot be read, there is no current context.
        let current = Contexts::load().ok().and_then(|all| all.current().cloned());
        if let Some(context) = current {
            return Ok(Self::at(&context.endpoint));
        }
        let folder = match options.config_path {
            Some(folder) => folder.clone(),
            None => user_dirs::config()?,
        };
        match running(&folder) {
            Some(url) => Ok(Self { origin: Origin::Configured, ..Self::at(&url) }),
            None => Self::configured(&settings(&folder)?),
        }
    }

    /// The gateway of a configuration directory: its address if it is running, else that of its settings.
    pub fn of_directory(folder: &Path) -> Self {
        let configured = || settings(folder).and_then(|settings| Self::configured(&settings)).ok();
        let found = running(folder).map(|url| Self::at(&url)).or_else(configured);
        found.unwrap_or_else(|| Self::at("http://localhost/mcp"))
    }

    fn configured(settings: &Settings) -> Result<Self, TargetError> {
        let aggregator = &settings.aggregator;
        let path = aggregator.transport.path();
        let path = path.ok_or(TargetError::NoUrl(aggregator.transport.as_str()))?;
        let host = match aggregator.host.as_str() {
            "" | "0.0.0.0" | "::" => "localhost",
            host => host,
        };
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let port = if aggregator.port == 0 { 8090 } else { aggregator.port };
        let url = format!("http://{host}:{port}/{path}");
        Ok(Self { origin: Origin::Configured, ..Self::at(&url) })
    }

    /// The target of this gateway over streamable HTTP, if its URL is known. A configured gateway serves both
    /// transports.
    pub fn streamable(&self) -> Option<Self> {
        match (self.transport, self.origin) {
            (GatewayTransport::StreamableHttp, _) => Some(self.clone()),
            (GatewayTransport::Sse, Origin::Named) => None,
            (GatewayTransport::Sse, Origin::Configured) => {
                let base = self.url.strip_suffix("/sse")?;
                let url = format!("{base}/mcp");
                Some(Self { url, transport: GatewayTransport::StreamableHttp, ..self.clone() })
            }
        }
    }

    /// The target with operator credentials, if the gateway runs as this user on this machine. Use it only for commands
    /// of the user, never on behalf of agents.
    #[must_use]
    pub fn as_operator(&self) -> Self {
        let find = || {
            let (host, port) = self.host_and_port()?;
            OperatorCredentials::find(&user_dirs::state().ok()?, host, port?)
        };
        Self { operator: find(), ..self.clone() }
    }

    /// The URL to connect to. With operator credentials, it has the address that the token is for, whatever the host
    /// name resolves to.
    pub(crate) fn connect_url(&self) -> String {
        let Some(operator) = &self.operator else { return self.url.clone() };
        let path = self.url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        format!("http://{}/{}", operator.address, path.map_or("", |(_, path)| path))
    }

    /// Whether the gateway is on this machine.
    pub fn is_local(&self) -> bool {
        let host = self.host_and_port().map_or("", |(host, _)| host);
        ["localhost", "127.0.0.1", "::1"].iter().any(|local| host.eq_ignore_ascii_case(local))
    }

    fn host_and_port(&self) -> Option<(&str, Option<u16>)> {
        let (_, rest) = self.url.split_once("://")?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap_or((rest, "")),
            None => authority.split_once(':').unwrap_or((authority, "")),
        };
        Some((host, port.trim_start_matches(':').parse().ok()))
    }
}

/// The header by which the gateway at an address admits its user's own clients, if this user runs it. These clients
/// serve agents, so they are not operators.
pub fn local_header(address: SocketAddr) -> Option<(HeaderName, HeaderValue)> {
    let token = operator_file::local_token(&user_dirs::state().ok()?, address)?;
    let mut value = HeaderValue::from_str(token.reveal()).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_static(LOCAL_HEADER), value))
}

/// The URL of a configuration directory's gateway, if it is running.
fn running(folder: &Path) -> Option<String> {
    let owner = user_dirs::state_folder(folder, None).ok()?.owner()?;
    owner.record?.endpoint.as_deref().map(local_gateway::local_url)
}

/// The settings of `config.yaml`, or the defaults if there is none.
fn settings(folder: &Path) -> Result<Settings, TargetError> {
    let path = folder.join("config.yaml");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => return Ok(Settings::default()),
        Err(err) => return Err(TargetError::Config { path, reason: err.to_string() }),
    };
    match settings::parse(&text) {
        Ok(loaded) => Ok(loaded.value),
        Err(err) => Err(TargetError::Config { path, reason: err.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use muster_config::settings;

    use super::{GatewayTransport, Target};

    #[test]
    fn local_urls() {
        let local = |url: &str| Target::at(url).is_local();
        for url in
            ["http://localhost:1/mcp", "http://LOCALHOST", "http://127.0.0.1/", "http://[::1]:2/x"]
        {
            assert!(local(url), "{url}");
        }
        for url in
            ["https://a.example/mcp", "http://localhost.example", "http://127.0.0.2", "x", ""]
        {
            assert!(!local(url), "{url}");
        }
        assert_eq!(Target::at("http://h/sse").transport, GatewayTransport::Sse);
        assert_eq!(Target::at("http://h/mcp").transport, GatewayTransport::StreamableHttp);
    }

    #[test]
    fn url_of_the_configured_gateway() {
        let url = |text: &str| {
            let settings = settings::parse(text).unwrap().value;
            Target::configured(&settings).map(|target| target.url).map_err(|err| err.to_string())
        };
        assert_eq!(url("{}").unwrap(), "http://localhost:8090/mcp");
        assert_eq!(url("aggregator: {host: 0.0.0.0, port: 9}").unwrap(), "http://localhost:9/mcp");
        assert_eq!(url("aggregator: {host: '::', port: 0}").unwrap(), "http://localhost:8090/mcp");
        assert_eq!(url("aggregator: {host: 'fd00::1'}").unwrap(), "http://[fd00::1]:8090/mcp");
        assert_eq!(url("aggregator: {transport: sse}").unwrap(), "http://localhost:8090/sse");
        let settings = settings::parse("aggregator: {transport: sse}").unwrap().value;
        let carried = Target::configured(&settings).unwrap().streamable().unwrap();
        assert_eq!(carried.url, "http://localhost:8090/mcp");
        assert_eq!(carried.transport, GatewayTransport::StreamableHttp);
        assert_eq!(Target::at("http://h/sse").streamable(), None);
        assert_eq!(
            url("aggregator: {transport: stdio}").unwrap_err(),
            "unsupported transport: stdio"
        );
    }
}
