//! One request in, one answer out, whatever carried it.

use std::{
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use muster_core::{
    backend::ResourceOperation,
    call::Caller,
    client::{ClientHandle, Continuation, NoClient},
    json::Raw,
    request::{
        self, ChangeStream, Request, RequestError, RequestHandler, Response, ServerCapabilities,
    },
};
use serde_json::value::RawValue;
use tokio::{sync::mpsc, time::timeout};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    back::Back,
    incoming::{Incoming, Prepared},
    level::Level,
    listen::listen,
    model::{self, Asked, Method},
    session::Session,
    version::Era,
    watched::Watched,
    wire::{Message, RpcError, code, error_body, error_line, result_body, result_line},
};

/// How long whoever leaves waits for what is still to be said behind.
const SETTLING: Duration = Duration::from_secs(2);

/// Serves requests of either era. What legacy clients settle for all their requests is kept by the
/// transports; here nothing is kept but which resources are watched.
#[derive(Debug, Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    serve: Arc<dyn RequestHandler>,
    watched: Watched,
    /// What goes on after a request is gone: unsubscribing.
    aftermath: TaskTracker,
}

/// Around a request while it is served.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) back: &'a Arc<Back>,
    /// The same, for the server behind.
    pub(crate) client: &'a Arc<dyn ClientHandle>,
    /// Ends what would otherwise go on for ever.
    pub(crate) leaving: &'a CancellationToken,
}

/// The session of the one client of a transport outside this crate.
#[derive(Debug)]
pub struct LocalSession {
    session: Arc<Session>,
    leaving: CancellationToken,
}

impl LocalSession {
    /// A client that has not been introduced yet.
    #[expect(clippy::new_without_default, reason = "a session is begun, not defaulted")]
    pub fn new() -> Self {
        Self { session: Arc::new(Session::new()), leaving: CancellationToken::new() }
    }
}

/// An answer, for a transport to write.
#[derive(Debug)]
pub struct Answer {
    /// The era of the request.
    pub era: Era,
    id: Option<Raw>,
    outcome: Result<Raw, RpcError>,
}

impl Answer {
    /// An error that answers `id`; none answers something unreadable.
    pub(crate) fn error(era: Era, id: Option<&RawValue>, error: RpcError) -> Self {
        Self { era, id: id.map(ToOwned::to_owned), outcome: Err(error) }
    }

    /// The id it answers.
    pub(crate) fn id(&self) -> Option<&RawValue> {
        self.id.as_deref()
    }

    /// The code, if it is an error.
    pub fn code(&self) -> Option<i64> {
        self.outcome.as_ref().err().map(|error| error.code)
    }

    /// As one line.
    pub fn to_line(&self) -> Vec<u8> {
        match (&self.outcome, &self.id) {
            (Ok(result), Some(id)) => result_line(id, result),
            (Ok(result), None) => result_line(RawValue::NULL, result),
            (Err(error), id) => error_line(id.as_deref(), error),
        }
    }

    /// As a document of its own.
    pub fn to_body(&self) -> Vec<u8> {
        match (&self.outcome, &self.id) {
            (Ok(result), Some(id)) => result_body(id, result),
            (Ok(result), None) => result_body(RawValue::NULL, result),
            (Err(error), id) => error_body(id.as_deref(), error),
        }
    }
}

impl Server {
    /// A server in front of `serve`.
    pub fn new(serve: Arc<dyn RequestHandler>) -> Self {
        let (watched, aftermath) = (Watched::default(), TaskTracker::new());
        Self { inner: Arc::new(Inner { serve, watched, aftermath }) }
    }

    /// Answers the request in `text` of the local caller; `None` if it is not a request. What is said
    /// before the answer goes to `out` as lines.
    pub async fn answer_line(
        &self,
        local: &LocalSession,
        text: &str,
        out: &mpsc::Sender<Vec<u8>>,
    ) -> Option<Answer> {
        let Ok(Message::Request { id, method, params }) = Message::parse(text) else {
            return None;
        };
        let incoming = Incoming { id, method: &method, params, headers: None };
        let mut prepared = match incoming.prepare() {
            Ok(prepared) => prepared,
            Err(answer) => return Some(answer),
        };
        let back = Arc::new(prepared.back(Some(&local.session), Some(out.clone())));
        let client: Arc<dyn ClientHandle> = Arc::<Back>::clone(&back);
        let caller = Caller::local();
        let at = At { caller: &caller, back: &back, client: &client, leaving: &local.leaving };
        Some(self.answer(at, prepared).await)
    }

    /// Answers one request. Dropping the future cancels the work behind it; a panic behind it is
    /// answered too.
    pub(crate) async fn answer(&self, at: At<'_>, prepared: Prepared) -> Answer {
        let Prepared { id, era, method, asked, .. } = prepared;
        let outcome = {
            let mut work = pin!(self.outcome(at, &id, era, method, asked));
            poll_fn(|cx| {
                catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx))).unwrap_or_else(|_| {
                    let message = "Internal error: the request crashed";
                    Poll::Ready(Err(RpcError::new(code::INTERNAL_ERROR, message)))
                })
            })
            .await
        };
        Answer { era, id: Some(id), outcome }
    }

    async fn outcome(
        &self,
        at: At<'_>,
        id: &RawValue,
        era: Era,
        method: Method,
        asked: Asked,
    ) -> Result<Raw, RpcError> {
        let identity = self.inner.serve.server_info();
        let reply = match asked {
            Asked::Initialize { version, capabilities } => {
                if let Some(session) = at.back.session() {
                    session.begin(capabilities);
                }
                return Ok(model::initialized(identity, self.offers(), &version));
            }
            Asked::Ping => return Ok(model::empty()),
            Asked::Discover => model::discovered(identity, self.offers()),
            Asked::Listen(filter) => {
                Response::Done { result: listen(self, &at, id, filter).await?, cache: None }
            }
            Asked::Served(asked) => {
                self.served(&at, asked).await.map_err(|fault| model::fault(era, fault))?
            }
        };
        model::result(era, method, identity, reply)
    }

    /// Asks the server behind, and keeps what a legacy client settles by it.
    async fn served(
        &self,
        at: &At<'_>,
        asked: request::ClientRequest,
    ) -> Result<Response, RequestError> {
        let Some(session) = at.back.session() else { return self.ask(at, asked).await };
        match &asked.request {
            Request::SetLogLevel { level } => {
                let level = Level::named(level);
                let reply = self.ask(at, asked).await?;
                level.into_iter().for_each(|level| session.set_level(level));
                Ok(reply)
            }
            Request::Resource(ResourceOperation::Subscribe { uri }) => {
                let uri = uri.clone();
                let reply = self.ask(at, asked).await?;
                if session.watch(&uri) {
                    self.inner.watched.add(&uri);
                }
                Ok(reply)
            }
            Request::Resource(ResourceOperation::Unsubscribe { uri }) => {
                // Others may still want word of it, also where this client never asked for it.
                if !session.unwatch(uri) || !self.inner.watched.remove(uri) {
                    return Ok(Response::Done { result: model::empty(), cache: None });
                }
                self.ask(at, asked).await
            }
            _ => self.ask(at, asked).await,
        }
    }

    pub(crate) async fn ask(
        &self,
        at: &At<'_>,
        asked: request::ClientRequest,
    ) -> Result<Response, RequestError> {
        self.inner.serve.handle(at.caller, at.client, asked).await
    }

    pub(crate) fn changes(&self) -> Box<dyn ChangeStream> {
        self.inner.serve.changes()
    }

    /// The schema of a tool's arguments, if it is shown as its server describes it.
    pub(crate) fn schema(&self, caller: &Caller, tool: &str) -> Option<Arc<RawValue>> {
        self.inner.serve.schema(caller, tool)
    }

    pub(crate) fn offers(&self) -> ServerCapabilities {
        self.inner.serve.capabilities()
    }

    pub(crate) fn watched(&self) -> &Watched {
        &self.inner.watched
    }

    /// Ends the watch of resources for someone who is gone.
    pub(crate) fn unwatch(&self, caller: &Caller, uris: impl IntoIterator<Item = String>) {
        let uris: Vec<_> = uris.into_iter().filter(|uri| self.inner.watched.remove(uri)).collect();
        if uris.is_empty() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let (serve, caller) = (Arc::clone(&self.inner.serve), caller.clone());
        self.inner.aftermath.spawn(async move {
            let nobody = NoClient::shared();
            for uri in uris {
                let request = Request::Resource(ResourceOperation::Unsubscribe { uri });
                let asked = request::ClientRequest {
                    request,
                    meta: None,
                    continuation: Continuation::default(),
                };
                if let Err(fault) = serve.handle(&caller, &nobody, asked).await {
                    tracing::debug!("unsubscribing: {fault}");
                }
            }
        });
    }

    /// Waits for what goes on after requests are gone, though not long.
    pub(crate) async fn settled(&self) {
        self.inner.aftermath.close();
        drop(timeout(SETTLING, self.inner.aftermath.wait()).await);
        self.inner.aftermath.reopen();
    }
}
