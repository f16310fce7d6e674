//! Where the browser comes back to: a page on this machine, for one visit.

use std::{convert::Infallible, io, net::Ipv4Addr, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::mpsc, task::JoinSet, time::timeout};

use crate::env_vars;

const USUAL_PORT: u16 = 3000;
/// How long the browser may take to fetch its page.
const FAREWELL: Duration = Duration::from_secs(1);

/// A page on this machine.
#[derive(Debug)]
pub(super) struct CallbackServer {
    listener: TcpListener,
    port: u16,
}

/// What the browser brought.
#[derive(Debug, Clone, Default)]
pub(super) struct CallbackParams {
    pub(super) code: Option<String>,
    pub(super) state: Option<String>,
    pub(super) issuer: Option<String>,
    pub(super) error: Option<String>,
}

impl CallbackServer {
    /// Opens the page, at the port that the environment names or at the usual one.
    pub(super) async fn open() -> Result<Self, String> {
        let port = env_vars::get("MUSTER_OAUTH_CALLBACK_PORT").and_then(|port| port.parse().ok());
        let port = port.filter(|port| *port > 0).unwrap_or(USUAL_PORT);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
        let listener = listener.map_err(|err| match err.kind() {
            io::ErrorKind::AddrInUse => format!(
                "callback port {port} is already in use. Please free the port and try again"
            ),
            _ => format!("callback port {port} cannot be opened: {err}"),
        })?;
        Ok(Self { listener, port })
    }

    /// Its address.
    pub(super) fn url(&self) -> String {
        format!("http://localhost:{}/callback", self.port)
    }

    /// Waits for the browser. `judge` decides which page it is shown.
    pub(super) async fn visit(
        &self,
        limit: Duration,
        judge: impl Fn(&CallbackParams) -> Result<(), String>,
    ) -> Result<CallbackParams, String> {
        let late = "callback failed: context deadline exceeded".to_owned();
        let mut connections = JoinSet::new();
        let visit = timeout(limit, self.serve(&mut connections)).await.map_err(|_| late)?;
        let (visit, page) = visit.ok_or("callback failed: nobody came")?;
        let judged = judge(&visit);
        // The browser may be gone already.
        drop(page.send(judged.clone()).await);
        // The page has to be on its way before the command ends.
        drop(timeout(FAREWELL, connections.join_next()).await);
        connections.detach_all();
        judged.map(|()| visit)
    }

    /// Answers until somebody comes to the page itself.
    async fn serve(&self, connections: &mut JoinSet<()>) -> Option<Sent> {
        let (sender, mut visits) = mpsc::channel(1);
        loop {
            tokio::select! {
                Ok((stream, _)) = self.listener.accept() => {
                    let sender = sender.clone();
                    let service = service_fn(move |request| answer(request, sender.clone()));
                    let connection = http1::Builder::new()
                        .keep_alive(false)
                        .serve_connection(TokioIo::new(stream), service);
                    connections.spawn(async move { drop(connection.await) });
                }
                Some(_) = connections.join_next() => (),
                visit = visits.recv() => break visit,
            }
        }
    }
}

type Sent = (CallbackParams, mpsc::Sender<Result<(), String>>);

async fn answer(
    request: Request<Incoming>,
    visits: mpsc::Sender<Sent>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.uri().path() != "/callback" {
        return Ok(page(StatusCode::NOT_FOUND, "Not Found", "There is nothing here."));
    }
    let visit = CallbackParams::read(request.uri().query().unwrap_or_default());
    let (sender, mut judged) = mpsc::channel(1);
    if visits.try_send((visit, sender)).is_err() {
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
        None => page(StatusCode::BAD_REQUEST, "Authentication Failed", "Nobody waits any more."),
    })
}

impl CallbackParams {
    fn read(query: &str) -> Self {
        let mut visit = Self::default();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            let place = match &*key {
                "code" => &mut visit.code,
                "state" => &mut visit.state,
                "iss" => &mut visit.issuer,
                "error_description" => &mut visit.error,
                "error" if visit.error.is_none() => &mut visit.error,
                _ => continue,
            };
            *place = Some(value.into_owned());
        }
        visit
    }
}

fn page(status: StatusCode, title: &str, text: &str) -> Response<Full<Bytes>> {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title></head>\
         <body><h1>{title}</h1><p>{text}</p></body></html>\n"
    );
    let mut response = Response::new(Full::new(Bytes::from(html)));
    *response.status_mut() = status;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::CallbackParams;

    #[test]
    fn what_the_browser_brings() {
        let visit = CallbackParams::read("code=a%2Fb&state=s+t&iss=https%3A%2F%2Fi&x=1");
        assert_eq!(visit.code.as_deref(), Some("a/b"));
        assert_eq!(visit.state.as_deref(), Some("s t"));
        assert_eq!(visit.issuer.as_deref(), Some("https://i"));
        let refused = CallbackParams::read("error=access_denied&error_description=not+today");
        assert_eq!(refused.error.as_deref(), Some("not today"));
        assert_eq!(
            CallbackParams::read("error=access_denied").error.as_deref(),
            Some("access_denied")
        );
    }
}
