//! The local web server that receives the redirect at the end of a login.

use std::{convert::Infallible, io, net::Ipv4Addr, time::Duration};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use muster_auth::{oauth::CallbackParams, page};
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::timeout};

use muster_core::backend::boxed;

use crate::env_vars;

const DEFAULT_PORT: u16 = 3000;
/// How long to wait for the page to be sent before the process may exit.
const PAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// A web server that receives one callback.
#[derive(Debug)]
pub(super) struct CallbackServer {
    listener: TcpListener,
    port: u16,
}

impl CallbackServer {
    /// Listens on `MUSTER_OAUTH_CALLBACK_PORT`, or on port 3000.
    pub(super) async fn open() -> Result<Self, String> {
        let port = env_vars::get("MUSTER_OAUTH_CALLBACK_PORT").and_then(|port| port.parse().ok());
        let port = port.filter(|port| *port > 0).unwrap_or(DEFAULT_PORT);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|err| match err.kind() {
            io::ErrorKind::AddrInUse => format!(
                "callback port {port} is already in use. Please free the port and try again"
            ),
            _ => format!("callback port {port} cannot be opened: {err}"),
        })?;
        Ok(Self { listener, port })
    }

    /// The redirect URI.
    pub(super) fn url(&self) -> String {
        format!("http://localhost:{}/callback", self.port)
    }

    /// Waits for the callback. `judge` turns its parameters into the result, which also decides which page the
    /// browser shows. The parameters are `None` if one is repeated.
    pub(super) async fn receive(
        &self,
        limit: Duration,
        judge: impl Fn(Option<&CallbackParams>) -> Result<String, String>,
    ) -> Result<String, String> {
        let late = "callback failed: context deadline exceeded".to_owned();
        let mut connections = JoinSet::new();
        let callback = timeout(limit, self.serve(&mut connections)).await.map_err(|_| late)?;
        let (params, page) = callback.ok_or("callback failed: the server has stopped")?;
        let judged = judge(params.as_ref());
        // Ignore an error: the browser may have disconnected.
        drop(page.send(judged.as_ref().map(drop).map_err(Clone::clone)).await);
        // Wait until the page is sent, because the process may exit next.
        drop(timeout(PAGE_TIMEOUT, connections.join_next()).await);
        connections.detach_all();
        judged
    }

    /// Serves requests until one for the callback arrives.
    async fn serve(&self, connections: &mut JoinSet<()>) -> Option<Callback> {
        let (sender, mut callbacks) = mpsc::channel(1);
        loop {
            tokio::select! {
                Ok((stream, _)) = self.listener.accept() => {
                    let sender = sender.clone();
                    let service = service_fn(move |request| answer(request, sender.clone()));
                    let connection = http1::Builder::new()
                        .keep_alive(false)
                        .serve_connection(TokioIo::new(stream), service);
                    connections.spawn(boxed(async move { drop(connection.await) }));
                }
                Some(_) = connections.join_next() => (),
                callback = callbacks.recv() => break callback,
            }
        }
    }
}

/// The parameters of a callback, and where to send its outcome.
type Callback = (Option<CallbackParams>, mpsc::Sender<Result<(), String>>);

async fn answer(
    request: Request<Incoming>,
    callbacks: mpsc::Sender<Callback>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() != "/callback" {
        return Ok(page(StatusCode::NOT_FOUND, "Not Found", "There is no page at this URL."));
    }
    let params = CallbackParams::parse(request.uri().query().unwrap_or_default());
    let (sender, mut judged) = mpsc::channel(1);
    if callbacks.try_send((params, sender)).is_err() {
        let text = "CallbackServer already processed";
        return Ok(page(StatusCode::BAD_REQUEST, "Authentication Failed", text));
    }
    Ok(match judged.recv().await {
        Some(Ok(())) => page(
            StatusCode::OK,
            "Authentication Successful",
            "You are logged in. You can close this window and go back to the terminal.",
        ),
        Some(Err(reason)) => page(StatusCode::BAD_REQUEST, "Authentication Failed", &reason),
        None => page(StatusCode::BAD_REQUEST, "Authentication Failed", "The login has ended."),
    })
}

fn page(status: StatusCode, title: &str, text: &str) -> Response<Full<Bytes>> {
    page::message(status, title, text).map(Full::new)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::{TcpListener, TcpStream},
    };

    use super::{CallbackParams, CallbackServer};

    /// The parameters that `judge` receives for a query, and the status of the page.
    async fn received(query: &str) -> (Option<CallbackParams>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = CallbackServer { listener, port };
        let seen = muster_core::lock::Lock::new(None);
        let judge = |params: Option<&CallbackParams>| {
            *seen.lock() = params.cloned();
            params.map(|_| "code".to_owned()).ok_or_else(|| "<repeated>".to_owned())
        };
        let browser = async {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
            let request = format!("GET /callback?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut page = String::new();
            stream.read_to_string(&mut page).await.unwrap();
            page
        };
        let (_, page) = tokio::join!(server.receive(Duration::from_secs(5), judge), browser);
        let seen = seen.lock().take();
        (seen, page)
    }

    #[tokio::test]
    async fn repeated_parameters_are_refused() {
        let (params, page) = received("code=a%2Fb&state=s").await;
        assert_eq!(params.unwrap().code.as_deref(), Some("a/b"));
        assert!(page.starts_with("HTTP/1.1 200"), "{page}");
        for query in ["code=good&state=s&code=evil", "code=c&state=good&state=evil"] {
            let (params, page) = received(query).await;
            assert_eq!(params, None, "{query}");
            assert!(
                page.starts_with("HTTP/1.1 400") && page.contains("&lt;repeated&gt;"),
                "{page}"
            );
        }
    }
}
