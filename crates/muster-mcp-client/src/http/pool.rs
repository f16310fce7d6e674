//! A connection pool for one upstream.

use std::{
    borrow::Cow,
    net::SocketAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use muster_core::{
    credentials::BearerToken,
    lock::Lock,
    logins::{AccessTokenSource, LoginError},
};
use muster_net::{AddressPolicy, DialError, Dialer, Url};
use tokio::time::{sleep, timeout};

use super::{
    connection::{Exchange, HttpConnection, MAX_KEEP_ALIVE},
    open_connections::OpenConnections,
};
use crate::{
    bridge::{LocateError, LoginProvider, Need, UpstreamLocator},
    error::TransportError,
};

/// Idle connections in the pool; further ones are closed after their request.
const MAX_IDLE: usize = 64;
/// How long a new connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the header of requests to an address, if there is one: a gateway recognizes the clients of its own user by
/// it. It is never sent to another address.
pub type AddressHeader = fn(SocketAddr) -> Option<(HeaderName, HeaderValue)>;

/// How requests are authorized.
#[derive(Debug, Clone)]
pub(crate) enum Authorization {
    /// Not at all, or by a configured header.
    None,
    /// By the token of the user that the connection belongs to. A rejected token is replaced once.
    Access(Arc<dyn AccessTokenSource>),
    /// By the current token of a login. Rejected tokens are handled by the bridge.
    Login(Arc<dyn LoginProvider>),
}

/// The idle connections to one upstream, and the parts that all requests to it share.
#[derive(Debug)]
pub(crate) struct Pool {
    dialer: Dialer,
    url: Url,
    /// Finds the address of each new connection, if it is not that of the URL.
    locator: Option<Arc<dyn UpstreamLocator>>,
    address_header: Option<AddressHeader>,
    /// The value of `Host`; a proxy may expect another value than the URL's.
    host: HeaderValue,
    /// The headers that the user configured.
    headers: HeaderMap,
    authorization: Authorization,
    open: OpenConnections,
    /// A stack, so that surplus connections stay idle until the upstream closes them.
    idle: Arc<IdleConnections>,
}

/// The idle connections of a pool.
#[derive(Debug, Default)]
struct IdleConnections {
    connections: Lock<Vec<HttpConnection>>,
    /// Whether a task closes those that have been idle for too long.
    is_swept: AtomicBool,
}

impl Pool {
    pub(crate) fn new(
        dialer: Dialer,
        url: Url,
        headers: HeaderMap,
        authorization: Authorization,
    ) -> Self {
        let host = url.host_header().clone();
        let (locator, address_header) = (None, None);
        let (open, idle) = (OpenConnections::default(), Arc::default());
        Self { dialer, url, locator, address_header, host, headers, authorization, open, idle }
    }

    /// Counts its connections by `open`.
    #[must_use]
    pub(crate) fn counted_by(self, open: OpenConnections) -> Self {
        Self { open, ..self }
    }

    /// Connects to where `locator` finds the upstream.
    #[must_use]
    pub(crate) fn with_locator(self, locator: Option<Arc<dyn UpstreamLocator>>) -> Self {
        Self { locator, ..self }
    }

    /// Sends the header of each address.
    #[must_use]
    pub(crate) fn with_address_header(self, address_header: Option<AddressHeader>) -> Self {
        Self { address_header, ..self }
    }

    /// Sends `host` instead of the URL's own.
    #[must_use]
    pub(crate) fn with_host(self, host: HeaderValue) -> Self {
        Self { host, ..self }
    }

    pub(crate) const fn url(&self) -> &Url {
        &self.url
    }

    /// A request with the headers that all requests have.
    pub(crate) fn request(
        &self,
        method: Method,
        target: &Uri,
        accept: &'static str,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let has_body = !body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = target.clone();
        let headers = request.headers_mut();
        headers.insert(header::HOST, self.host.clone());
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        if has_body {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Authorization::Login(login) = &self.authorization
            && let Some(token) = login.token()
            && let Some(value) = bearer(&token)
        {
            headers.insert(header::AUTHORIZATION, value);
        }
        request
    }

    /// Sends a request over an idle or a new connection.
    ///
    /// With [`Authorization::Access`], a request whose token is rejected is sent once more with another
    /// token, if there is one: the upstream has not processed it.
    pub(crate) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Exchange, TransportError> {
        match &self.authorization {
            Authorization::Access(access) => {
                Box::pin(self.send_authorized(&**access, request)).await
            }
            Authorization::None | Authorization::Login(_) => self.transmit(request).await,
        }
    }

    async fn send_authorized(
        &self,
        access: &dyn AccessTokenSource,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Exchange, TransportError> {
        let token = access.token().await.map_err(|error| no_token(error, None))?;
        authorize(&mut request, &token)?;
        let mut retry = request.clone();
        let exchange = self.transmit(request).await?;
        let challenge = challenge(exchange.head().headers());
        if !is_token_rejected(exchange.head().status(), challenge.as_deref()) {
            return Ok(exchange);
        }
        drop(exchange.read_in_memory(self).await);
        let another = access.replace_rejected(&token, challenge.as_deref()).await;
        authorize(&mut retry, &another.map_err(|error| no_token(error, challenge))?)?;
        self.transmit(retry).await
    }

    async fn transmit(
        &self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Exchange, TransportError> {
        loop {
            let (mut connection, is_new) = match self.idle.take() {
                Some(connection) => (connection, false),
                None => (Box::pin(self.connect(need(request.method()))).await?, true),
            };
            if connection.ready().await.is_err() && !is_new {
                continue;
            }
            let header = connection.header.clone();
            if let Some((name, value)) = &header {
                request.headers_mut().insert(name, value.clone());
            }
            match connection.send(request).await {
                Ok(response) => {
                    connection.learn(response.headers());
                    return Ok(Exchange { response, connection });
                }
                Err(mut err) => match err.take_message() {
                    // The upstream had closed the idle connection, and nothing was sent.
                    Some(unsent) if !is_new => {
                        request = unsent;
                        // The next connection may be to another address.
                        header.map(|(name, _)| request.headers_mut().remove(name));
                    }
                    unsent => {
                        let err = err.into_error();
                        let reason = format!("the connection broke before an answer: {err}");
                        return Err(match unsent {
                            Some(_) => TransportError::Unreachable(reason),
                            None => TransportError::Lost(reason),
                        });
                    }
                },
            }
        }
    }

    /// The URL to connect to.
    async fn address(&self, need: Need) -> Result<Cow<'_, Url>, TransportError> {
        let Some(locator) = &self.locator else { return Ok(Cow::Borrowed(&self.url)) };
        let found = locator.locate(need).await.map_err(|error| match error {
            LocateError::NotRunning(reason) => TransportError::Unreachable(reason),
            LocateError::Failed(reason) => TransportError::Invalid(reason),
        })?;
        let url = Url::parse(&found);
        Ok(Cow::Owned(url.map_err(|error| TransportError::Invalid(error.to_string()))?))
    }

    async fn connect(&self, need: Need) -> Result<HttpConnection, TransportError> {
        let url = self.address(need).await?;
        let place = format!("{}:{}", url.host(), url.port());
        let connecting = async {
            // Upstreams are configured by the operator, and may be anywhere.
            let stream = self.dialer.connect(&url, AddressPolicy::Unrestricted).await;
            let stream = stream.map_err(|error| dial_error(error, &place))?;
            let address = stream.peer_addr().ok();
            let connection = HttpConnection::handshake(TokioIo::new(stream)).await;
            let mut connection = connection.map_err(|err| {
                TransportError::Unreachable(format!("connection to {place} failed: {err}"))
            })?;
            connection.header =
                self.address_header.zip(address).and_then(|(of, address)| of(address));
            connection.counted = Some(self.open.opened());
            Ok(connection)
        };
        timeout(CONNECT_TIMEOUT, connecting).await.unwrap_or_else(|_| {
            Err(TransportError::Unreachable(format!("connection to {place} timed out")))
        })
    }

    /// Returns a connection to the pool.
    pub(crate) fn release(&self, mut connection: HttpConnection) {
        if connection.is_closed() {
            return;
        }
        connection.rest();
        let mut idle = self.idle.connections.lock();
        if idle.len() >= MAX_IDLE {
            idle.retain_mut(HttpConnection::is_open);
        }
        if idle.len() < MAX_IDLE {
            idle.push(connection);
        }
        drop(idle);
        if !self.idle.is_swept.swap(true, Ordering::Relaxed) {
            #[expect(
                clippy::disallowed_methods,
                reason = "it owns nothing, and a shutdown must not wait for its sleep"
            )]
            drop(tokio::spawn(sweep(Arc::downgrade(&self.idle))));
        }
    }
}

impl IdleConnections {
    /// Takes an open connection, if possible one of this thread. Connections of other threads are used as well, so that
    /// there are never more than the concurrent requests need: an upstream may serve only a few.
    fn take(&self) -> Option<HttpConnection> {
        let here = thread::current().id();
        let mut idle = self.connections.lock();
        loop {
            let own = idle.iter().rposition(|connection| connection.is_of(here));
            let at = own.or(idle.len().checked_sub(1))?;
            let mut connection = idle.remove(at);
            if own.is_none() && !connection.lend() {
                // This thread opens its own connection in place of it.
                return None;
            }
            if !connection.is_expired() && connection.is_open() {
                return Some(connection);
            }
        }
    }
}

/// Closes connections that have been idle for too long, until there are none.
async fn sweep(idle: Weak<IdleConnections>) {
    loop {
        sleep(MAX_KEEP_ALIVE / 2).await;
        let Some(idle) = idle.upgrade() else { return };
        let mut connections = idle.connections.lock();
        connections.retain_mut(|connection| !connection.is_expired() && connection.is_open());
        if connections.is_empty() {
            // Under the lock: a connection that is added after this starts another sweep.
            idle.is_swept.store(false, Ordering::Relaxed);
            return;
        }
    }
}

/// Only messages start an upstream that is not running.
fn need(method: &Method) -> Need {
    if *method == Method::POST { Need::Message } else { Need::Listen }
}

fn dial_error(error: DialError, place: &str) -> TransportError {
    match error {
        DialError::Refused(error) => error.into(),
        DialError::Unreachable { reason, .. } => {
            TransportError::Unreachable(format!("{place} cannot be reached: {reason}"))
        }
        // An untrusted certificate stays untrusted; an interrupted handshake may succeed later.
        DialError::Tls { reason, interrupted, certificate, .. } => {
            let text = format!("no TLS with {place}: {reason}");
            if interrupted {
                TransportError::Unreachable(text)
            } else {
                TransportError::Insecure { reason: text, certificate }
            }
        }
        DialError::TlsConfig(error) => {
            TransportError::Insecure { reason: error.to_string(), certificate: None }
        }
    }
}

fn bearer(token: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

fn authorize(
    request: &mut Request<Full<Bytes>>,
    token: &BearerToken,
) -> Result<(), TransportError> {
    let value = bearer(token.reveal());
    let value = value.ok_or_else(|| TransportError::Invalid("the token cannot be sent".to_owned()));
    request.headers_mut().insert(header::AUTHORIZATION, value?);
    Ok(())
}

/// Whether a request was rejected because of its token.
fn is_token_rejected(status: StatusCode, challenge: Option<&str>) -> bool {
    let lacks_scope = || challenge.is_some_and(|text| text.contains("insufficient_scope"));
    status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN && lacks_scope()
}

/// The `WWW-Authenticate` challenges of a response.
pub(crate) fn challenge(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let challenges: Vec<&str> = all.filter_map(|value| value.to_str().ok()).collect();
    (!challenges.is_empty()).then(|| challenges.join(", "))
}

fn no_token(error: LoginError, challenge: Option<String>) -> TransportError {
    match error {
        LoginError::Required | LoginError::NotConfigured => {
            TransportError::Unauthorized { challenge }
        }
        LoginError::Unavailable(reason) => TransportError::Lost(reason),
        LoginError::UnknownIssuer(_)
        | LoginError::Refused(_)
        | LoginError::InsufficientScope(_) => TransportError::LoginFailed(error.to_string()),
    }
}

/// Parses the headers that the user configured.
pub(crate) fn parse_headers(given: &[(String, String)]) -> Result<HeaderMap, TransportError> {
    let mut headers = HeaderMap::with_capacity(given.len());
    for (name, value) in given {
        let key: HeaderName = name.parse().map_err(|_| {
            TransportError::Invalid(format!("`{name}` cannot be the name of a header"))
        })?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            TransportError::Invalid(format!("the value of header `{name}` cannot be sent"))
        })?;
        value.set_sensitive(true);
        headers.insert(key, value);
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::Ordering};

    use hyper_util::rt::TokioIo;
    use tokio::{
        io::{AsyncReadExt as _, duplex},
        time::Instant,
    };

    use super::{
        super::connection::MAX_LENT, HttpConnection, IdleConnections, MAX_KEEP_ALIVE, sweep,
    };

    #[tokio::test]
    async fn a_thread_uses_its_own_connections_first() {
        let open = || async {
            let (stream, upstream) = duplex(64);
            (HttpConnection::handshake(TokioIo::new(stream)).await.unwrap(), upstream)
        };
        let idle = IdleConnections::default();
        let put = |connection| idle.connections.lock().push(connection);
        let (own, _upstream) = open().await;
        put(own);
        let runtime = tokio::runtime::Handle::current();
        let opened = std::thread::scope(|scope| scope.spawn(|| runtime.block_on(open())).join());
        let (other, mut upstream) = opened.unwrap();
        put(other);
        let own = idle.take().unwrap();
        let here = std::thread::current().id();
        assert!(own.is_of(here));
        for _ in 0..MAX_LENT {
            let other = idle.take().unwrap();
            assert!(!other.is_of(here));
            put(other);
        }
        assert!(idle.take().is_none(), "it is replaced");
        assert_eq!(upstream.read(&mut [0; 8]).await.unwrap(), 0);
        put(own);
        assert!(idle.take().unwrap().is_of(here));
    }

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed() {
        let (stream, mut upstream) = duplex(64);
        let connection = HttpConnection::handshake(TokioIo::new(stream)).await.unwrap();
        let idle = Arc::new(IdleConnections::default());
        idle.is_swept.store(true, Ordering::Relaxed);
        idle.connections.lock().push(connection);
        let began = Instant::now();
        sweep(Arc::downgrade(&idle)).await;
        assert!(began.elapsed() <= 2 * MAX_KEEP_ALIVE, "{:?}", began.elapsed());
        assert_eq!(upstream.read(&mut [0; 8]).await.unwrap(), 0);
        assert!(!idle.is_swept.load(Ordering::Relaxed), "the next one starts another sweep");
    }
}
