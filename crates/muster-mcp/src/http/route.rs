//! From an HTTP request to its response.

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming as Arriving;
use muster_core::{
    call::Caller,
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::{
    App, Local,
    accept::{Accepts, accepts, is_json},
    body::{Body, Events},
    cors::Origin,
    exchange::Exchange,
    guard, params, reply,
    sessions::HttpSession,
    sse,
    standing::Standing,
    tick::Due,
    work::Work,
};
use crate::{
    back::AHEAD,
    headers::Headers,
    incoming::{Incoming, Prepared},
    model,
    param_headers::{METHOD, NAME, VERSION},
    server::Answer,
    version::{Era, LEGACY},
    wire::{Malformed, Message, RpcError, code},
};

/// A session that a client names by itself, and how long that name is.
const OWN_SESSION: HeaderName = HeaderName::from_static("x-muster-session-id");
const OWN_SESSION_LENGTH: std::ops::RangeInclusive<usize> = 16..=256;

/// Pages take forms, and are there for everybody.
const MAX_PAGE_BODY: usize = 64 * 1024;
const PAGE_LIMIT: Duration = Duration::from_secs(30);

/// A response in the place of something else.
type Refusal = Box<Response<Body>>;

/// A request that arrived.
pub(super) struct Arrival {
    pub(super) app: Arc<App>,
    pub(super) local: Local,
    pub(super) peer: IpAddr,
}

/// What is at a path.
enum Place {
    Endpoint,
    Stream,
    Messages,
    Health,
    Nothing,
}

/// What becomes of a message.
enum Step {
    Respond(Response<Body>),
    Run(Exchange, Option<Arc<HttpSession>>),
}

impl Arrival {
    pub(super) async fn answer(self, request: Request<Arriving>) -> Response<Body> {
        let _counted = self.app.under_way.count();
        let (head, body) = request.into_parts();
        let options = &self.app.options;
        let place = self.place(head.uri.path());
        if let Place::Health = place {
            return reply::health((options.health)());
        }
        let origin = Origin::of(&head.headers, &options.origins);
        if !guard::is_welcome(&head.headers, self.local, &options.hosts, origin.as_ref()) {
            let message = "Forbidden: this server is not known by that Host or Origin";
            return reply::refuse(StatusCode::FORBIDDEN, message);
        }
        let Some(origin) = origin else { return self.serve(place, head, body).await };
        match origin.preflight(&head) {
            Some(response) => response,
            None => origin.allow(self.serve(place, head, body).await),
        }
    }

    async fn serve(&self, place: Place, head: request::Parts, body: Arriving) -> Response<Body> {
        let options = &self.app.options;
        if let Some(pages) = options.pages.iter().find(|pages| pages.serves(head.uri.path())) {
            let limits = (options.max_body.min(MAX_PAGE_BODY), options.body_limit.min(PAGE_LIMIT));
            return match read(body, limits).await {
                Ok(body) => {
                    let request = Request::from_parts(head, body);
                    reply::ready(pages.respond(request, self.peer).await)
                }
                Err(refusal) => *refusal,
            };
        }
        if let Place::Nothing = place {
            return reply::not_found(options.paths.first().map_or("/", String::as_str));
        }
        let caller = match &options.guard {
            None => claimed(&head.headers),
            Some(guard) => match guard.authenticate(&head.headers).await {
                Ok(principal) => Caller::authenticated(principal),
                Err(refusal) => return reply::ready(refusal),
            },
        };
        match (place, &head.method) {
            (Place::Endpoint, &Method::POST) => self.post(&head, body, caller).await,
            (Place::Endpoint, &Method::GET) => self.get(&head.headers, &caller),
            (Place::Endpoint, &Method::DELETE) => self.delete(&head.headers, &caller),
            (Place::Endpoint, _) => reply::not_allowed("POST, GET, DELETE"),
            (Place::Stream, &Method::GET) => sse::open(&self.app, &head.headers, &caller),
            (Place::Stream, _) => reply::not_allowed("GET"),
            (Place::Messages, &Method::POST) => self.message(&head, body, caller).await,
            (Place::Messages, _) => reply::not_allowed("POST"),
            (Place::Health | Place::Nothing, _) => reply::not_found("/"),
        }
    }

    fn place(&self, path: &str) -> Place {
        let path = path.trim_end_matches('/');
        if self.app.options.paths.iter().any(|known| known.trim_end_matches('/') == path) {
            return Place::Endpoint;
        }
        match path {
            "/health" => Place::Health,
            "/sse" => Place::Stream,
            sse::MESSAGE_PATH => Place::Messages,
            _ => Place::Nothing,
        }
    }

    async fn post(&self, head: &request::Parts, body: Arriving, caller: Caller) -> Response<Body> {
        if !is_json(&head.headers) {
            let message = "Content-Type must be application/json";
            return reply::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
        }
        let accepts = accepts(&head.headers);
        if !accepts.json && !accepts.events {
            let message = "Accept must name application/json and text/event-stream";
            return reply::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        let step = match read(body, self.app.body_limits()).await {
            Ok(body) => self.step(&head.headers, accepts, &body, caller),
            Err(refusal) => return *refusal,
        };
        match step {
            Step::Respond(response) => response,
            Step::Run(exchange, None) => exchange.respond().await,
            Step::Run(exchange, Some(session)) => reply::named(exchange.respond().await, &session),
        }
    }

    fn step(&self, headers: &HeaderMap, accepts: Accepts, body: &[u8], caller: Caller) -> Step {
        let text = std::str::from_utf8(body).unwrap_or_default();
        match Message::parse(text) {
            Err(malformed) => Step::Respond(refuse_message(&malformed)),
            Ok(Message::Request { id, method, params }) => {
                let said = said(headers);
                let incoming = Incoming { id, method: &method, params, headers: Some(&said) };
                let prepared = incoming.prepare();
                match prepared.and_then(|prepared| self.repeats(headers, &caller, prepared)) {
                    Ok(prepared) => self.start(headers, accepts, caller, prepared),
                    Err(answer) => Step::Respond(self.untried(headers, &caller, &answer)),
                }
            }
            Ok(Message::Notification { method, params }) => {
                Step::Respond(self.told(headers, &caller, |session| {
                    if let Some(id) = cancelled_id(&method, params) {
                        session.cancel(&id);
                    }
                }))
            }
            Ok(Message::Response { id, outcome }) => {
                if is_modern(headers) {
                    let error = RpcError::new(code::INVALID_REQUEST, "There is nothing to answer");
                    return Step::Respond(reply::refusal(StatusCode::BAD_REQUEST, None, &error));
                }
                Step::Respond(self.told(headers, &caller, |session| {
                    if !session.state.questions.answered(id, outcome) {
                        tracing::debug!("answer to no question of ours");
                    }
                }))
            }
        }
    }

    /// A modern call, if headers repeat of its arguments what the tool wants repeated.
    fn repeats(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        prepared: Prepared,
    ) -> Result<Prepared, Answer> {
        if prepared.era == Era::Modern
            && let Some((tool, arguments)) = prepared.asked.called()
            && let Some(schema) = self.app.server.schema(caller, tool)
            && let Err(error) = params::check(&schema, arguments, headers)
        {
            return Err(Answer::error(prepared.era, Some(&prepared.id), error));
        }
        Ok(prepared)
    }

    fn start(
        &self,
        headers: &HeaderMap,
        accepts: Accepts,
        caller: Caller,
        prepared: Prepared,
    ) -> Step {
        let silence = self.app.options.keep_alive;
        if prepared.method == model::Method::Listen && !accepts.events {
            let message = "Accept must name text/event-stream";
            return Step::Respond(reply::refuse(StatusCode::NOT_ACCEPTABLE, message));
        }
        let (out, mail) = accepts.events.then(|| mpsc::channel(AHEAD)).unzip();
        let app = &self.app;
        let (work, session) = match prepared.era {
            Era::Modern => (Work::modern(Arc::clone(app), caller, prepared, out), None),
            Era::Legacy => {
                let session = if prepared.method == model::Method::Initialize {
                    app.sessions.mint(&caller).ok_or_else(no_randomness)
                } else {
                    self.session(headers, &caller, Some(&prepared.id))
                };
                let session = match session {
                    Ok(session) => session,
                    Err(refusal) => return Step::Respond(*refusal),
                };
                (Work::legacy(app, &session, caller, prepared, out), Some(session))
            }
        };
        Step::Run(Exchange { work, mail, accepts, silence }, session)
    }

    /// A request that cannot be served; a session that is gone matters more.
    fn untried(&self, headers: &HeaderMap, caller: &Caller, answer: &Answer) -> Response<Body> {
        match answer.era {
            Era::Modern => reply::untried(answer),
            Era::Legacy => match self.session(headers, caller, answer.id()) {
                Ok(session) => reply::named(reply::untried(answer), &session),
                Err(refusal) => *refusal,
            },
        }
    }

    /// A message that wants no answer. In the modern era there is none that means something here.
    fn told(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        take: impl FnOnce(&HttpSession),
    ) -> Response<Body> {
        if is_modern(headers) {
            return reply::accepted();
        }
        match self.session(headers, caller, None) {
            Ok(session) => {
                take(&session);
                reply::accepted()
            }
            Err(refusal) => *refusal,
        }
    }

    fn get(&self, headers: &HeaderMap, caller: &Caller) -> Response<Body> {
        let session = match self.session_of_stream(headers, caller) {
            Ok(session) => session,
            Err(refusal) => return *refusal,
        };
        if !accepts(headers).events {
            let message = "Accept must name text/event-stream";
            return reply::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        let standing = Standing::new(Arc::clone(&session), self.app.draining.clone());
        let events = Events::new(Box::new(standing), self.app.options.keep_alive);
        reply::named(reply::events(events), &session)
    }

    fn delete(&self, headers: &HeaderMap, caller: &Caller) -> Response<Body> {
        match self.session_of_stream(headers, caller) {
            Ok(session) => {
                self.app.sessions.end(&session.id);
                reply::bare(StatusCode::OK)
            }
            Err(refusal) => *refusal,
        }
    }

    /// GET and DELETE are there for legacy sessions only.
    fn session_of_stream(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
    ) -> Result<Arc<HttpSession>, Refusal> {
        if is_modern(headers) || !headers.contains_key(&reply::SESSION) {
            return Err(Box::new(reply::not_allowed("POST")));
        }
        self.session(headers, caller, None)
    }

    fn session(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        id: Option<&RawValue>,
    ) -> Result<Arc<HttpSession>, Refusal> {
        let name = headers.get(&reply::SESSION).map(|name| name.to_str().unwrap_or_default());
        name.and_then(|name| self.app.sessions.find(name, caller))
            .ok_or_else(|| Box::new(reply::no_session(name.is_some(), id)))
    }

    async fn message(
        &self,
        head: &request::Parts,
        body: Arriving,
        caller: Caller,
    ) -> Response<Body> {
        let Some(session) = sse::session(&self.app, head, &caller) else {
            return reply::no_session(true, None);
        };
        match read(body, self.app.body_limits()).await {
            Ok(body) => sse::take(&self.app, &session, caller, &body).await,
            Err(refusal) => *refusal,
        }
    }
}

/// Reads a body of at most so many bytes within so much time: nobody holds a connection by saying nothing.
async fn read(body: Arriving, (size, time): (usize, Duration)) -> Result<Bytes, Refusal> {
    let read = tokio::select! {
        biased;
        read = Limited::new(body, size).collect() => read,
        () = Due::after(time) => {
            let message = "the body did not arrive in time";
            return Err(Box::new(reply::refuse(StatusCode::REQUEST_TIMEOUT, message)));
        }
    };
    match read {
        Ok(body) => Ok(body.to_bytes()),
        Err(err) if err.is::<LengthLimitError>() => {
            let message = format!("a body may have at most {size} bytes");
            Err(Box::new(reply::refuse(StatusCode::PAYLOAD_TOO_LARGE, &message)))
        }
        Err(_) => Err(Box::new(reply::refuse(StatusCode::BAD_REQUEST, "the body is not complete"))),
    }
}

fn no_randomness() -> Refusal {
    let message = "no randomness for a session";
    Box::new(reply::refuse(StatusCode::INTERNAL_SERVER_ERROR, message))
}

/// Clients that keep no session may name one of their own. It counts only where nobody logs in, and only
/// if it cannot be guessed: whoever knows it is taken for its owner.
fn claimed(headers: &HeaderMap) -> Caller {
    let name = headers.get(&OWN_SESSION).and_then(|name| name.to_str().ok());
    let name = name.filter(|name| OWN_SESSION_LENGTH.contains(&name.len()));
    Caller { session: name.map(|name| format!("client/{name}").into()), ..Caller::local() }
}

/// What the headers repeat of the body.
fn said(headers: &HeaderMap) -> Headers<'_> {
    // One that is there twice says nothing: who reads the first and who reads the last would differ.
    let only = |name: HeaderName| {
        let mut given = headers.get_all(&name).iter();
        given.next().map(|value| given.next().map_or(Ok(value), |_| Err(())))
    };
    let bytes = |name| only(name).map(|value| value.map_or(&[][..], http::HeaderValue::as_bytes));
    Headers {
        version: only(VERSION).and_then(|value| value.ok()?.to_str().ok()),
        method: bytes(METHOD),
        name: bytes(NAME),
    }
}

/// Whether the headers name a version without sessions.
fn is_modern(headers: &HeaderMap) -> bool {
    said(headers).version.is_some_and(|version| !LEGACY.contains(&version))
}

/// The request that a notification takes back.
pub(super) fn cancelled_id(method: &str, params: Option<&RawValue>) -> Option<Raw> {
    if method != "notifications/cancelled" {
        return None;
    }
    params.and_then(RawObject::parse)?.get("requestId").map(ToOwned::to_owned)
}

pub(super) fn refuse_message(malformed: &Malformed) -> Response<Body> {
    reply::refusal(StatusCode::BAD_REQUEST, None, &RpcError::from(malformed))
}
