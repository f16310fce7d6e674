//! A mock provider over HTTP.

use std::{
    fmt,
    future::pending,
    io,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

use muster_core::backend::boxed;

use super::{
    authorize::{AuthorizationRequest, AuthorizeError},
    certificate_authority::CertificateAuthority,
    config::{Feature, MockProviderConfig},
    provider_state::ProviderState,
    records::{ProviderEndpoint, ProviderRecords, UserIdentity},
    resource_guard,
    responses::{OAuthError, bare, object, page, redirect},
    token_endpoint::FormFields,
};
use crate::mock::fault::FaultKind;

/// A mock provider on a port of its own, stopped when dropped.
pub struct Provider {
    state: Arc<ProviderState>,
    tls: Option<Arc<ServerConfig>>,
    port: u16,
    /// Listeners and connections; `None` when killed.
    running: Option<JoinSet<()>>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Provider {
    /// Starts on a free port.
    pub async fn start(
        config: &MockProviderConfig,
        authority: Option<&CertificateAuthority>,
    ) -> io::Result<Self> {
        let tls = match (config.uses_tls(), authority) {
            (true, Some(authority)) => Some(authority.server()?),
            (true, None) => return Err(io::Error::other("TLS needs an authority")),
            (false, _) => None,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(ProviderState::new(config, port)?);
        let mut provider = Self { state, tls, port, running: None };
        provider.listen(listener).await;
        Ok(provider)
    }

    /// The provider behind the transport.
    pub const fn state(&self) -> &Arc<ProviderState> {
        &self.state
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Closes the port and every connection; issued tokens stay valid. Returns whether it was running.
    pub fn kill(&mut self) -> bool {
        self.running.take().is_some()
    }

    /// Opens the same port again.
    pub async fn revive(&mut self) -> io::Result<()> {
        if self.running.is_none() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await?;
            self.listen(listener).await;
        }
        Ok(())
    }

    async fn listen(&mut self, listener: TcpListener) {
        let mut running = JoinSet::new();
        running.spawn(boxed(accept(listener, Arc::clone(&self.state), self.tls.clone())));
        // `localhost` may resolve to IPv4 or IPv6; machines without IPv6 have only the former.
        if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, self.port)).await {
            running.spawn(boxed(accept(listener, Arc::clone(&self.state), self.tls.clone())));
        }
        self.running = Some(running);
    }
}

async fn accept(listener: TcpListener, state: Arc<ProviderState>, tls: Option<Arc<ServerConfig>>) {
    // Dropping this set with the listener closes the connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(boxed(serve_connection(stream, Arc::clone(&state), tls.clone())));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve_connection(
    stream: TcpStream,
    state: Arc<ProviderState>,
    tls: Option<Arc<ServerConfig>>,
) {
    let _nodelay = stream.set_nodelay(true);
    match tls {
        None => serve(stream, state).await,
        Some(tls) => {
            // Fails if the client does not trust the certificate.
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                serve(stream, state).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, state: Arc<ProviderState>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move {
            respond(&state, request).await.map(|answer| answer.map(Bytes::from).map(Full::new))
        }
    });
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(
    state: &ProviderState,
    request: Request<Incoming>,
) -> io::Result<Response<String>> {
    let path = request.uri().path().to_owned();
    if let Some(wrong) = inject_fault(state, &path).await? {
        return Ok(wrong);
    }
    if request.method() == Method::GET && state.is_metadata(&path) {
        state.count_request("metadata");
        return Ok(object(StatusCode::OK, &state.metadata()));
    }
    let Some(path) = path.strip_prefix(&state.config().path) else {
        return Ok(bare(StatusCode::NOT_FOUND));
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = authorization.as_deref();
    Ok(match (request.method().clone(), path) {
        (Method::GET, "/authorize") if state.config().has(Feature::AutoApprove) => {
            approve(state, &query).await
        }
        (Method::GET, "/authorize") => page(format!(
            "<!doctype html><title>Mock login</title><form method=\"post\" action=\"?{}\"><button>Allow</button></form>",
            query.replace('&', "&amp;").replace('"', "%22")
        )),
        (Method::POST, "/authorize") => approve(state, &query).await,
        (Method::POST, "/token") => {
            let form = FormFields::read(&read_body(request).await?);
            to_response(state.token(&form, authorization), StatusCode::OK)
        }
        (Method::POST, "/register") => {
            state.count_request("register");
            let registration: Value =
                serde_json::from_str(&read_body(request).await?).unwrap_or_default();
            to_response(
                state.record_rejection("register", state.register(&registration)),
                StatusCode::CREATED,
            )
        }
        (Method::POST, "/revoke") => {
            state.count_request("revoke");
            let form = FormFields::read(&read_body(request).await?);
            let token = form.get("token").unwrap_or_default();
            state.update(|records: &mut ProviderRecords| records.revoke(token));
            bare(StatusCode::OK)
        }
        (Method::GET | Method::POST, "/userinfo") => {
            state.count_request("userinfo");
            let identity = state.userinfo(authorization.and_then(resource_guard::bearer));
            to_response(state.record_rejection("userinfo", identity), StatusCode::OK)
        }
        (Method::GET, "/jwks") => {
            state.count_request("jwks");
            object(StatusCode::OK, &state.keys())
        }
        (Method::GET, "/callback") => page("<!doctype html><title>Done</title>".to_owned()),
        (_, "/authorize" | "/token" | "/register" | "/revoke" | "/userinfo" | "/jwks") => {
            bare(StatusCode::METHOD_NOT_ALLOWED)
        }
        _ => bare(StatusCode::NOT_FOUND),
    })
}

/// The faulty response, if a fault is set. An error closes the connection.
async fn inject_fault(state: &ProviderState, path: &str) -> io::Result<Option<Response<String>>> {
    let below = path.strip_prefix(&state.config().path).and_then(|path| path.strip_prefix('/'));
    let endpoint = match state.is_metadata(path) {
        true => Some(ProviderEndpoint::Metadata),
        false => below.and_then(ProviderEndpoint::named),
    };
    let Some(endpoint) = endpoint else { return Ok(None) };
    let kind = state.update(|records: &mut ProviderRecords| records.next_fault(endpoint)).flatten();
    Ok(match kind {
        None => None,
        Some(FaultKind::Delay(by)) => {
            sleep(by).await;
            None
        }
        Some(FaultKind::Hang) => pending().await,
        Some(FaultKind::Garbage) => Some(page("<html>%PDF</html>".to_owned())),
        Some(FaultKind::Status(status)) => {
            let failed = StatusCode::INTERNAL_SERVER_ERROR;
            Some(bare(StatusCode::from_u16(status).unwrap_or(failed)))
        }
        Some(FaultKind::Reset | FaultKind::Half) => {
            return Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut on purpose"));
        }
    })
}

async fn approve(state: &ProviderState, query: &str) -> Response<String> {
    match state.authorize(&AuthorizationRequest::read(query), &UserIdentity::default()).await {
        Ok(back) | Err(AuthorizeError::Redirected(_, back)) => redirect(&back),
        Err(AuthorizeError::Displayed(refusal)) => refusal.response(),
    }
}

fn to_response(done: Result<Value, OAuthError>, good: StatusCode) -> Response<String> {
    match done {
        Ok(value) => object(good, &value),
        Err(refusal) => refusal.response(),
    }
}

async fn read_body(request: Request<Incoming>) -> io::Result<String> {
    let body = request.into_body().collect().await.map_err(io::Error::other)?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}
