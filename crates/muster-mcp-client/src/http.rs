//! A server behind streamable HTTP: every message a request of its own, answered by one document or
//! by a stream of events.
//!
//! A legacy server may keep a session. When it has forgotten it, which it says before it looks at a
//! request, it is introduced to again and the request is sent once more.

mod standing;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use muster_core::{
    backend::BoxFuture,
    connect::ConnectionEvent,
    json::{Raw, RawObject},
};
use muster_mcp::param_headers::Mirrored;
use standing::Place;
use tokio::{
    sync::Mutex,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    calls::Flight,
    dial::Sender,
    failure::Failure,
    handshake,
    inbox::{Inbox, Outlet, Ticket},
    message::Writing,
    peer::Me,
    pool::Pool,
    response::{Document, Kind, refusal, retire, whole},
    sse::Stream,
    stored::Taken,
};
use crate::lock::Lock;

pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(super) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
pub(super) const JSON_OR_EVENTS: &str = "application/json, text/event-stream";
pub(super) const EVENTS: &str = "text/event-stream";
/// How often in a row a stream that breaks off without a word is taken up again.
const RESUMES: u32 = 5;
/// How long the end of a session may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// A server behind streamable HTTP.
#[derive(Debug)]
pub(super) struct Http {
    inbox: Arc<Inbox>,
    pool: Pool,
    me: Arc<Me>,
    session: Lock<Session>,
    /// Held while a lost session is replaced, so that one request does it for all.
    renewing: Mutex<()>,
    /// The resources that a legacy session gives word of.
    watched: Lock<BTreeSet<String>>,
}

/// What a legacy server knows us by.
#[derive(Debug, Clone, Default)]
struct Session {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// Which of our sessions it is.
    serial: u64,
}

impl Session {
    fn put(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
    }
}

/// The first answer to a request, and the session that came with it.
struct Reply {
    result: Taken,
    session: Option<HeaderValue>,
}

impl AsRef<Pool> for Http {
    fn as_ref(&self) -> &Pool {
        &self.pool
    }
}

impl Http {
    pub(super) fn new(pool: Pool, inbox: Arc<Inbox>, me: Arc<Me>) -> Self {
        let (session, renewing) = (Lock::default(), Mutex::new(()));
        Self { inbox, pool, me, session, renewing, watched: Lock::default() }
    }

    /// Sends a request and waits for its answer.
    pub(super) async fn request(
        self: &Arc<Self>,
        id: u64,
        body: Bytes,
        mirrored: Option<&Mirrored>,
    ) -> Result<Taken, Failure> {
        if mirrored.is_some() {
            let reply = self.attempt(id, body, mirrored, &Session::default()).await?;
            return Ok(reply.result);
        }
        let session = self.session.lock().clone();
        match self.attempt(id, body.clone(), None, &session).await {
            Ok(reply) => Ok(reply.result),
            Err(Failure::SessionGone { .. }) => {
                let session = Box::pin(self.renew(&session)).await?;
                Ok(self.attempt(id, body, None, &session).await?.result)
            }
            Err(failure) => Err(failure),
        }
    }

    /// Introduces us to a legacy server, whose words about itself are the answer.
    pub(super) async fn initialize(self: &Arc<Self>) -> Result<Raw, Failure> {
        let ticket = Ticket::new(&self.inbox, Flight::default(), None)?;
        let body = handshake::initialize(ticket.id, &self.me).into();
        let Reply { result, session } =
            self.attempt(ticket.id, body, None, &Session::default()).await?;
        let result = result.load().await?;
        let version =
            RawObject::parse(&result).and_then(|result| result.get_text("protocolVersion"));
        {
            let mut known = self.session.lock();
            let version = version.and_then(|version| HeaderValue::from_str(&version).ok());
            *known = Session { id: session, version, serial: known.serial + 1 };
        }
        self.post(handshake::initialized().into()).await?;
        Ok(result)
    }

    /// Replaces a session that the server has forgotten, unless that has been done.
    async fn renew(self: &Arc<Self>, stale: &Session) -> Result<Session, Failure> {
        let _turn = self.renewing.lock().await;
        if self.session.lock().serial == stale.serial {
            debug!(server = &*self.inbox.name, "its session is gone; introducing ourselves again");
            self.initialize().await?;
            let watched = self.watched.lock().clone();
            for uri in watched {
                let ticket = Ticket::new(&self.inbox, Flight::default(), None)?;
                let body = Writing::request(ticket.id, "resources/subscribe").text("uri", &uri);
                let session = self.session.lock().clone();
                if let Err(failure) =
                    self.attempt(ticket.id, body.finish().into(), None, &session).await
                {
                    debug!(server = &*self.inbox.name, "`{uri}` is no longer watched: {failure}");
                }
            }
            // It may have been restarted with something else on offer.
            self.inbox.events.on_event(ConnectionEvent::ListChanged);
        }
        Ok(self.session.lock().clone())
    }

    async fn attempt(
        self: &Arc<Self>,
        id: u64,
        body: Bytes,
        mirrored: Option<&Mirrored>,
        session: &Session,
    ) -> Result<Reply, Failure> {
        let mut request = self.new_request(Method::POST, JSON_OR_EVENTS, body);
        match mirrored {
            Some(mirrored) => mirrored.put(request.headers_mut()),
            None => session.put(request.headers_mut()),
        }
        let (response, sender) = self.pool.send(request).await?;
        if !response.status().is_success() {
            return Err(
                refusal(&self.pool, (response, sender), Some(id), session.id.is_some()).await
            );
        }
        let given = response.headers().get(SESSION).cloned();
        let result = match Kind::of(response.headers()) {
            Kind::Json => self.document(id, response.into_body(), sender).await,
            Kind::Events => {
                let session = mirrored.is_none().then_some(session);
                Box::pin(self.stream(
                    id,
                    Stream::with_disk(response.into_body(), &self.inbox.disk),
                    sender,
                    session,
                ))
                .await
            }
            Kind::Other(kind) if response.status() == StatusCode::OK => {
                Err(Failure::Broken(format!("it answered with `{kind}` instead of a message")))
            }
            Kind::Other(_) => {
                let status = response.status().as_u16();
                Err(Failure::Broken(format!("it answered a request with status {status} only")))
            }
        };
        Ok(Reply { result: result?, session: given })
    }

    async fn document(
        self: &Arc<Self>,
        id: u64,
        mut body: Incoming,
        sender: Sender,
    ) -> Result<Taken, Failure> {
        let document = Document::read(&mut body, &self.inbox.disk).await?;
        self.pool.give_back(sender);
        let answer = match document {
            Document::Short(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                self.inbox.take(&text, Some(id), &self.outlet())
            }
            Document::Long(spill) => {
                Box::pin(self.inbox.take_long(spill, Some(id), &self.outlet())).await
            }
        };
        match answer {
            Some(answer) => answer.map_err(Failure::refused),
            None => Err(Failure::Broken("its answer is not one to the request".to_owned())),
        }
    }

    /// Reads events until the answer. A legacy server may let go of the stream and be asked for the
    /// rest of it.
    async fn stream(
        self: &Arc<Self>,
        id: u64,
        mut stream: Stream,
        mut sender: Sender,
        session: Option<&Session>,
    ) -> Result<Taken, Failure> {
        let mut place = Place::default();
        let mut in_vain = 0;
        loop {
            let end = loop {
                match stream.next().await {
                    Ok(Some(event)) => {
                        place.note(&event);
                        if event.is_silent() {
                            continue;
                        }
                        in_vain = 0;
                        let answer = self.inbox.hear(event, Some(id), &self.outlet()).await;
                        if let Some(answer) = answer {
                            retire(&self.inbox, self, stream.into_body(), sender).await;
                            return answer.map_err(Failure::refused);
                        }
                    }
                    Ok(None) => {
                        break Failure::Lost("the stream ended before the answer".to_owned());
                    }
                    Err(failure) => break failure,
                }
            };
            let (Some(session), Some(_)) = (session, &place.last) else { return Err(end) };
            in_vain += 1;
            if in_vain > RESUMES {
                return Err(end);
            }
            sleep(place.wait(in_vain - 1)).await;
            (stream, sender) = self.open(session, &place).await?;
        }
    }

    /// Opens the stream of what a legacy server says unasked, or takes up one that broke off.
    async fn open(&self, session: &Session, place: &Place) -> Result<(Stream, Sender), Failure> {
        let mut request = self.new_request(Method::GET, EVENTS, Bytes::new());
        session.put(request.headers_mut());
        if let Some(last) = &place.last {
            request.headers_mut().insert(LAST_EVENT, last.clone());
        }
        let (response, sender) = self.pool.send(request).await?;
        if !response.status().is_success() {
            return Err(refusal(&self.pool, (response, sender), None, session.id.is_some()).await);
        }
        match Kind::of(response.headers()) {
            Kind::Events => Ok((Stream::with_disk(response.into_body(), &self.inbox.disk), sender)),
            Kind::Json | Kind::Other(_) => {
                Err(Failure::Status { status: StatusCode::NOT_ACCEPTABLE.as_u16() })
            }
        }
    }

    /// Sends a message that has no answer.
    async fn post(&self, body: Bytes) -> Result<(), Failure> {
        let session = self.session.lock().clone();
        let mut request = self.new_request(Method::POST, JSON_OR_EVENTS, body);
        session.put(request.headers_mut());
        let (response, sender) = self.pool.send(request).await?;
        if !response.status().is_success() {
            return Err(refusal(&self.pool, (response, sender), None, session.id.is_some()).await);
        }
        whole(&mut response.into_body()).await?;
        self.pool.give_back(sender);
        Ok(())
    }

    /// Remembers which resources the session gives word of.
    pub(super) fn watch(&self, uri: &str) {
        self.watched.lock().insert(uri.to_owned());
    }

    pub(super) fn unwatch(&self, uri: &str) {
        self.watched.lock().remove(uri);
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        let session = std::mem::take(&mut *self.session.lock());
        if session.id.is_none() {
            return;
        }
        let mut request = self.new_request(Method::DELETE, JSON_OR_EVENTS, Bytes::new());
        session.put(request.headers_mut());
        if let Ok(Err(failure)) = timeout(GOODBYE, self.pool.send(request)).await {
            debug!(server = &*self.inbox.name, "no goodbye: {failure}");
        }
    }

    fn new_request(
        &self,
        method: Method,
        accept: &'static str,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        self.pool.request(method, &self.pool.address().path, accept, body)
    }

    fn outlet(self: &Arc<Self>) -> Arc<dyn Outlet> {
        Arc::<Self>::clone(self)
    }
}

impl Outlet for Http {
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), Failure>> {
        Box::pin(self.post(message.into()))
    }
}
