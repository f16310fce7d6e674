//! The upstream's side of the bridge.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::HeaderValue;
use muster_core::{
    backoff::Backoff,
    json::{Raw, RawObject},
};
use muster_mcp::{
    param_headers::RoutingHeaders,
    version::Era,
    wire::{Message, RpcError, code, error_line, line},
};
use serde_json::value::RawValue;
use tokio::sync::Mutex;
use tracing::{debug, info};

use super::{
    BridgeOptions,
    client_session::ClientSession,
    login::{LoginProvider, TokenRenewal},
    login_gate::LoginGate,
    output::ClientOutput,
    request::{BridgedRequest, RequestKind, ToolHeaders, learn_headers},
    server_requests::ServerRequests,
};
use crate::{
    error::TransportError,
    http::{
        response::RequestId,
        server_stream::{self, ReconnectPolicy, StreamHandler},
        session::{EraHeaders, HttpReply, HttpSession, ReplyBody, SessionId},
    },
    spool::{Payload, SpoolFile},
    spooled_result::Envelope,
};

/// The maximum number of attempts of a repeatable request whose connection breaks.
const MAX_ATTEMPTS: u32 = 3;
/// The maximum number of attempts of a request with another token.
const MAX_LOGINS: u32 = 2;
/// The code that other clients use for a lost connection.
const CONNECTION_CLOSED: i64 = -32000;
/// The standalone stream is reopened for as long as the client is connected: through it, the bridge notices a restart
/// of the gateway while the client is idle.
const UPSTREAM_RECONNECT: ReconnectPolicy = ReconnectPolicy {
    backoff: Backoff { first: Duration::from_millis(100), max: Duration::from_secs(3) },
    max_failures: None,
    retry_unauthorized: true,
};

/// The upstream of a bridge.
#[derive(Debug)]
pub(super) struct Upstream {
    pub(super) http: Arc<HttpSession>,
    pub(super) session: ClientSession,
    pub(super) server_requests: ServerRequests,
    pub(super) tool_headers: ToolHeaders,
    pub(super) login: Arc<dyn LoginProvider>,
    pub(super) gate: LoginGate,
    pub(super) out: ClientOutput,
    /// Held while another token is obtained, so that concurrent requests do so once.
    logging_in: Mutex<()>,
}

/// How a message of the upstream is handled.
enum MessageClass {
    /// The response to the request on whose stream it arrived.
    Response,
    /// A request of the upstream, with its id.
    Request(Raw),
    /// Anything else.
    Other,
}

impl Upstream {
    pub(super) fn new(http: HttpSession, options: BridgeOptions, out: ClientOutput) -> Self {
        Self {
            http: Arc::new(http),
            session: ClientSession::default(),
            server_requests: ServerRequests::default(),
            tool_headers: ToolHeaders::default(),
            login: options.login,
            gate: LoginGate::new(options.until_login),
            out,
            logging_in: Mutex::new(()),
        }
    }

    /// Forwards a request to the upstream, and its response to the client.
    pub(super) async fn forward(&self, request: &BridgedRequest) {
        if let Err(error) = self.exchange(request).await {
            debug!("`{}` failed: {error}", request.method);
            // A cancelled request has no response.
            if !request.cancelled.load(Ordering::Relaxed) {
                self.out.line(error_line(Some(&request.id), &rpc_error(error))).await;
            }
        }
    }

    async fn exchange(&self, request: &BridgedRequest) -> Result<(), TransportError> {
        let (mut renewed, mut logins, mut attempts) = (false, 0, 1);
        loop {
            if self.gate.is_closed() {
                let Some(response) = self.serve_until_login(request).await else { continue };
                self.out.line(response.to_line()).await;
                return Ok(());
            }
            let id = match (request.era, request.kind) {
                (Era::Modern, _) | (_, RequestKind::Initialize) => SessionId::default(),
                (Era::Legacy, _) => self.http.id(),
            };
            match self.attempt(request, &id).await {
                Err(TransportError::SessionGone { .. }) if !renewed => {
                    renewed = true;
                    Box::pin(self.replace_session(&id)).await?;
                }
                Err(TransportError::Unauthorized { challenge }) if logins < MAX_LOGINS => {
                    logins += 1;
                    self.log_in(self.login.token(), challenge.as_deref()).await?;
                }
                Err(TransportError::Lost(reason))
                    if request.kind.is_repeatable() && attempts < MAX_ATTEMPTS =>
                {
                    debug!("`{}` is sent again: {reason}", request.method);
                    attempts += 1;
                }
                done => return done,
            }
        }
    }

    async fn attempt(
        &self,
        request: &BridgedRequest,
        id: &SessionId,
    ) -> Result<(), TransportError> {
        let context = match &request.headers {
            Some(headers) => EraHeaders::Modern(headers),
            None => EraHeaders::Legacy(id),
        };
        let reply = self.http.request(RequestId::Raw(&request.id), &request.body, context).await?;
        let HttpReply { session, body } = reply;
        match body {
            ReplyBody::Message(payload) => self.respond(request, session, payload).await,
            ReplyBody::Failure { message, .. } => {
                self.out.line(line(message.into())).await;
                Ok(())
            }
            ReplyBody::Stream(mut stream) => loop {
                let payload = stream.next().await?;
                let (payload, class) = classify(payload, Some(&request.id)).await?;
                match class {
                    MessageClass::Response => {
                        self.respond(request, session, payload).await?;
                        stream.finish().await;
                        return Ok(());
                    }
                    class => self.pass_on(payload, class).await,
                }
            },
        }
    }

    /// Passes the response on to the client, after recording the parts of it that later requests need.
    async fn respond(
        &self,
        request: &BridgedRequest,
        session: Option<HeaderValue>,
        mut payload: Payload,
    ) -> Result<(), TransportError> {
        let is_tool_list = request.method == "tools/list" && request.era == Era::Modern;
        match request.kind {
            RequestKind::Initialize | RequestKind::SessionState => (),
            RequestKind::ReadOnly if is_tool_list => (),
            RequestKind::ReadOnly | RequestKind::Subscription | RequestKind::Other => {
                self.out.payload(payload).await;
                return Ok(());
            }
        }
        let response = payload.into_memory().await?;
        match request.kind {
            RequestKind::Initialize => {
                self.begin_session(&request.body, session, &response);
            }
            RequestKind::SessionState if is_result(&response) => self.session.apply(request),
            _ => learn_headers(&self.tool_headers, &response),
        }
        payload = Payload::Memory(response);
        self.out.payload(payload).await;
        Ok(())
    }

    /// Passes on a message that is not a response.
    async fn pass_on(&self, payload: Payload, class: MessageClass) {
        if let MessageClass::Request(id) = class
            && let Some(response) = self.server_requests.register(&id)
        {
            return Box::pin(self.notify(response, None)).await;
        }
        self.out.payload(payload).await;
    }

    /// Begins the session that the upstream's response to `initialize` describes; `false` if the
    /// response is an error.
    fn begin_session(&self, initialize: &Bytes, id: Option<HeaderValue>, response: &[u8]) -> bool {
        let Ok(response) = serde_json::from_slice::<&RawValue>(response) else { return false };
        let response = RawObject::parse(response).unwrap_or_default();
        let Some(result) = response.get("result").and_then(RawObject::parse) else { return false };
        self.http.begin(id, result.get_text("protocolVersion").as_deref());
        self.session.begin(initialize, &result);
        true
    }

    /// Sends a message that has no response. Failures are not reported to the client.
    pub(super) async fn notify(&self, text: String, version: Option<String>) {
        if self.gate.is_closed() {
            return debug!("a message was discarded: the upstream requires a login");
        }
        let body = Bytes::from(text);
        let sent = match &version {
            Some(version) => {
                let headers = RoutingHeaders::version(version);
                self.http.notify(&body, EraHeaders::Modern(&headers)).await
            }
            None => self.notify_in_session(&body).await,
        };
        if let Err(error) = sent {
            debug!("a message was not accepted: {error}");
        }
    }

    async fn notify_in_session(&self, body: &Bytes) -> Result<(), TransportError> {
        let id = self.http.id();
        match self.http.notify(body, EraHeaders::Legacy(&id)).await {
            Err(TransportError::SessionGone { .. }) => {
                Box::pin(self.replace_session(&id)).await?;
                self.http.notify(body, EraHeaders::Legacy(&self.http.id())).await
            }
            sent => sent,
        }
    }

    /// Replaces a lost session, and notifies the client that any list may have changed.
    async fn replace_session(&self, stale: &SessionId) -> Result<(), TransportError> {
        if self.initialize_again(stale).await? {
            info!("the upstream had lost the session; it was initialized again");
            for change in self.session.list_changes() {
                self.out.line(change).await;
            }
        }
        Ok(())
    }

    /// Repeats the client's handshake and settings; `false` if a concurrent request has done so.
    pub(super) async fn initialize_again(&self, stale: &SessionId) -> Result<bool, TransportError> {
        let gone = || TransportError::SessionGone { status: 404 };
        let initialize = async || {
            let initialize = self.session.initialize().ok_or_else(gone)?;
            let text = String::from_utf8_lossy(&initialize);
            let Ok(Message::Request { id, .. }) = Message::parse(&text) else {
                return Err(gone());
            };
            let (id, context) = (RequestId::Raw(id), SessionId::default());
            let reply = self.http.request(id, &initialize, EraHeaders::Legacy(&context)).await?;
            let response = match reply.body {
                ReplyBody::Message(payload) => payload.into_memory().await?,
                ReplyBody::Failure { status, message } => return Err(failure(status, &message)),
                ReplyBody::Stream(mut stream) => loop {
                    let payload = stream.next().await?.into_memory().await?;
                    if is_result(&payload) {
                        stream.finish().await;
                        break payload;
                    }
                },
            };
            if !self.begin_session(&initialize, reply.session, &response) {
                return Err(gone());
            }
            for message in self.session.replay() {
                self.http.notify(&message, EraHeaders::Legacy(&self.http.id())).await?;
            }
            Ok(())
        };
        self.http.renew(stale, initialize).await
    }

    /// Obtains another token, or closes the gate until the user has logged in.
    async fn log_in(
        &self,
        rejected: Option<String>,
        challenge: Option<&str>,
    ) -> Result<(), TransportError> {
        let _logging_in = self.logging_in.lock().await;
        if self.gate.is_closed() || self.login.token() != rejected {
            return Ok(());
        }
        match self.login.renew(rejected.as_deref(), challenge).await {
            TokenRenewal::Renewed => Ok(()),
            TokenRenewal::LoginRequired if self.gate.close(rejected) => Ok(()),
            TokenRenewal::LoginRequired => {
                Err(TransportError::LoginFailed("nobody can be asked to log in".to_owned()))
            }
            TokenRenewal::Unavailable(reason) => Err(TransportError::LoginFailed(reason)),
        }
    }

    /// Listens to the standalone stream until the client leaves.
    pub(super) async fn listen(self: Arc<Self>) {
        tokio::select! {
            error = server_stream::listen(&self.http, UPSTREAM_RECONNECT, &*self) => {
                debug!("no standalone stream: {error}");
            }
            () = self.session.left() => (),
        }
    }
}

impl StreamHandler for Upstream {
    async fn ready(&self) {
        self.gate.opened().await;
    }

    async fn message(&self, message: Payload) {
        match classify(message, None).await {
            Ok((message, class)) => self.pass_on(message, class).await,
            Err(error) => debug!("a message was discarded: {error}"),
        }
    }

    async fn renew(&self, stale: &SessionId) -> Result<(), TransportError> {
        Box::pin(self.replace_session(stale)).await
    }
}

async fn classify(
    payload: Payload,
    own: Option<&RawValue>,
) -> Result<(Payload, MessageClass), TransportError> {
    let is_own = |id: &RawValue| own.is_some_and(|own| own.get() == id.get());
    let file = match payload {
        Payload::Memory(bytes) => {
            let class = match Message::parse(&String::from_utf8_lossy(&bytes)) {
                Ok(Message::Response { id, .. }) if is_own(id) => MessageClass::Response,
                Ok(Message::Request { id, .. }) => MessageClass::Request(id.to_owned()),
                Ok(_) | Err(_) => MessageClass::Other,
            };
            return Ok((Payload::Memory(bytes), class));
        }
        Payload::Spooled(file) => file,
    };
    let (file, envelope) = read_envelope(file).await?;
    let class = match envelope.id {
        Some(id) if envelope.has_method => MessageClass::Request(id),
        Some(id) if is_own(&id) => MessageClass::Response,
        Some(_) | None => MessageClass::Other,
    };
    Ok((Payload::Spooled(file), class))
}

async fn read_envelope(file: SpoolFile) -> Result<(SpoolFile, Envelope), TransportError> {
    let read = tokio::task::spawn_blocking(move || {
        // A message that is not JSON is passed on like any other.
        let envelope = Envelope::read(&file).unwrap_or_default();
        (file, envelope)
    });
    read.await
        .map_err(|error| TransportError::Invalid(format!("its answer cannot be read: {error}")))
}

fn is_result(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    matches!(Message::parse(&text), Ok(Message::Response { outcome: Ok(_), .. }))
}

/// The error of a response with a failure status.
fn failure(status: u16, message: &[u8]) -> TransportError {
    match Message::parse_lenient(&String::from_utf8_lossy(message)) {
        Some(Message::Response { outcome: Err(error), .. }) => {
            TransportError::Refused { status: Some(status), error: RpcError::parse(error) }
        }
        Some(_) | None => TransportError::Status { status },
    }
}

/// The error response to the client of a request that failed.
fn rpc_error(error: TransportError) -> RpcError {
    let (code, message) = match error {
        TransportError::Refused { error, .. } => return error,
        TransportError::Unreachable(reason) => {
            (CONNECTION_CLOSED, format!("{reason}; start it with: muster serve"))
        }
        TransportError::Lost(reason) => (
            CONNECTION_CLOSED,
            format!("{reason}; the request may have been carried out, so it was not repeated"),
        ),
        TransportError::SessionGone { .. } => {
            (CONNECTION_CLOSED, "the server does not know the session any more".to_owned())
        }
        TransportError::Unauthorized { .. } => {
            (code::INTERNAL_ERROR, "the server wants a login".to_owned())
        }
        TransportError::LoginFailed(reason) => {
            (code::INTERNAL_ERROR, format!("authentication failed: {reason}"))
        }
        TransportError::Status { status } => {
            (code::INTERNAL_ERROR, format!("the server answered with status {status}"))
        }
        TransportError::Insecure { reason, .. } | TransportError::Invalid(reason) => {
            (code::INTERNAL_ERROR, reason)
        }
    };
    RpcError::new(code, message)
}
