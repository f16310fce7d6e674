//! A mock provider on a port of its own.

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

use super::{
    authority::Authority,
    authorize::{Asked, Denied},
    book::{Book, Endpoint, Person},
    config::{Feature, ProviderConfig},
    core::Core,
    door,
    grant::Form,
    reply::{Refusal, bare, object, page, redirect},
};
use crate::mock::fault::FaultKind;

/// A mock provider. It ends when dropped.
pub struct Provider {
    core: Arc<Core>,
    tls: Option<Arc<ServerConfig>>,
    port: u16,
    /// Listeners and connections, unless it was killed.
    running: Option<JoinSet<()>>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Provider {
    /// Starts on a free port.
    pub async fn start(config: &ProviderConfig, authority: Option<&Authority>) -> io::Result<Self> {
        let tls = match (config.uses_tls(), authority) {
            (true, Some(authority)) => Some(authority.server()?),
            (true, None) => return Err(io::Error::other("TLS needs an authority")),
            (false, _) => None,
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let core = Arc::new(Core::new(config, port)?);
        let mut provider = Self { core, tls, port, running: None };
        provider.listen(listener).await;
        Ok(provider)
    }

    /// What it does.
    pub const fn core(&self) -> &Arc<Core> {
        &self.core
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Closes the port and cuts every connection; what it gave out stays good. Whether it was running.
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
        running.spawn(accept(listener, Arc::clone(&self.core), self.tls.clone()));
        // `localhost` may mean either family. Where there is only one, one is enough.
        if let Ok(listener) = TcpListener::bind((Ipv6Addr::LOCALHOST, self.port)).await {
            running.spawn(accept(listener, Arc::clone(&self.core), self.tls.clone()));
        }
        self.running = Some(running);
    }
}

async fn accept(listener: TcpListener, core: Arc<Core>, tls: Option<Arc<ServerConfig>>) {
    // Connections end with the listener, because they are in a set of its own.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, Arc::clone(&core), tls.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, core: Arc<Core>, tls: Option<Arc<ServerConfig>>) {
    let _prompt = stream.set_nodelay(true);
    match tls {
        None => serve(stream, core).await,
        Some(tls) => {
            // A client that does not trust the certificate goes away here.
            if let Ok(stream) = TlsAcceptor::from(tls).accept(stream).await {
                serve(stream, core).await;
            }
        }
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, core: Arc<Core>) {
    let service = service_fn(move |request| {
        let core = Arc::clone(&core);
        async move { respond(&core, request).await.map(|answer| answer.map(Bytes::from).map(Full::new)) }
    });
    let _ended = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(core: &Core, request: Request<Incoming>) -> io::Result<Response<String>> {
    let path = request.uri().path().to_owned();
    if let Some(wrong) = suffer(core, &path).await? {
        return Ok(wrong);
    }
    if request.method() == Method::GET && core.is_metadata(&path) {
        core.asked("metadata");
        return Ok(object(StatusCode::OK, &core.metadata()));
    }
    let Some(path) = path.strip_prefix(&core.config().path) else {
        return Ok(bare(StatusCode::NOT_FOUND));
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok()).map(str::to_owned);
    let authorization = authorization.as_deref();
    Ok(match (request.method().clone(), path) {
        (Method::GET, "/authorize") if core.config().has(Feature::AutoApprove) => {
            agree(core, &query).await
        }
        (Method::GET, "/authorize") => page(format!(
            "<!doctype html><title>Mock login</title><form method=\"post\" action=\"?{}\"><button>Allow</button></form>",
            query.replace('&', "&amp;").replace('"', "%22")
        )),
        (Method::POST, "/authorize") => agree(core, &query).await,
        (Method::POST, "/token") => {
            let form = Form::read(&text_of(request).await?);
            answered(core.token(&form, authorization), StatusCode::OK)
        }
        (Method::POST, "/register") => {
            core.asked("register");
            let wish: Value = serde_json::from_str(&text_of(request).await?).unwrap_or_default();
            answered(core.refuse("register", core.register(&wish)), StatusCode::CREATED)
        }
        (Method::POST, "/revoke") => {
            core.asked("revoke");
            let form = Form::read(&text_of(request).await?);
            let token = form.get("token").unwrap_or_default();
            core.write(|book: &mut Book| book.revoke(token));
            bare(StatusCode::OK)
        }
        (Method::GET | Method::POST, "/userinfo") => {
            core.asked("userinfo");
            let person = core.userinfo(authorization.and_then(door::bearer));
            answered(core.refuse("userinfo", person), StatusCode::OK)
        }
        (Method::GET, "/jwks") => {
            core.asked("jwks");
            object(StatusCode::OK, &core.keys())
        }
        (Method::GET, "/callback") => page("<!doctype html><title>Done</title>".to_owned()),
        (_, "/authorize" | "/token" | "/register" | "/revoke" | "/userinfo" | "/jwks") => {
            bare(StatusCode::METHOD_NOT_ALLOWED)
        }
        _ => bare(StatusCode::NOT_FOUND),
    })
}

/// What is answered in the place of an answer, if this one goes wrong. An error cuts the connection.
async fn suffer(core: &Core, path: &str) -> io::Result<Option<Response<String>>> {
    let below = path.strip_prefix(&core.config().path).and_then(|path| path.strip_prefix('/'));
    let endpoint = match core.is_metadata(path) {
        true => Some(Endpoint::Metadata),
        false => below.and_then(Endpoint::named),
    };
    let Some(endpoint) = endpoint else { return Ok(None) };
    let kind = core.write(|book: &mut Book| book.strike(endpoint)).flatten();
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

async fn agree(core: &Core, query: &str) -> Response<String> {
    match core.authorize(&Asked::read(query), &Person::default()).await {
        Ok(back) | Err(Denied::Told(_, back)) => redirect(&back),
        Err(Denied::Shown(refusal)) => refusal.response(),
    }
}

fn answered(done: Result<Value, Refusal>, good: StatusCode) -> Response<String> {
    match done {
        Ok(value) => object(good, &value),
        Err(refusal) => refusal.response(),
    }
}

async fn text_of(request: Request<Incoming>) -> io::Result<String> {
    let body = request.into_body().collect().await.map_err(io::Error::other)?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}
