//! Routes HTTP requests.

mod across_replicas;
mod limits;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode, request};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming as Arriving;
use muster_core::{
    call::Caller,
    credentials::{Admission, Peer},
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;

use self::across_replicas::{Forwarded, complete};
use super::{
    App, Local,
    accept::{Accepts, accepts, is_json, is_plain_get},
    body::{Body, EventStream},
    caller_limits::CallerKey,
    coarse_timer::within,
    connections::Busy,
    cors::AllowedOrigin,
    event_log::EventLog,
    exchange::Exchange,
    options::HealthCheck,
    origin_check, param_check,
    replica_sessions::not_shared,
    request_headers::{
        MAX_TOOLSET_LENGTH, TOOLSET, client_session, first, is_modern, is_primed, routing_headers,
    },
    responses,
    serving::Serving,
    session_stream::SessionStream,
    sessions::HttpSession,
    sse,
};
use crate::{
    client_channel::{ClientChannel, Mailbox, Outbox},
    incoming::{IncomingRequest, ValidRequest},
    model,
    server::RpcResponse,
    version::Era,
    wire::{Malformed, Message, RpcError, code},
};

/// How long a web page waits for the body of a request.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// The message for clients beyond the limit of connections.
const BUSY: &str = "Too many connections: close some, or try again later";

/// The response to a request that is not served.
type Refusal = Box<Response<Body>>;

/// Routes the requests of one connection.
pub(super) struct Router {
    pub(super) app: Arc<App>,
    pub(super) local: Local,
    pub(super) peer: Arc<Peer>,
    pub(super) busy: Busy,
}

/// The resource at a path.
enum Route {
    Endpoint,
    Stream,
    Messages,
    Health,
    Ready,
    Nothing,
}

/// How a message is processed.
enum Step {
    Respond(Response<Body>),
    /// A call is counted for its caller.
    Serve(Exchange, Option<Arc<HttpSession>>, Option<CallerKey>),
    /// The message belongs to another replica.
    Forward(Arc<HttpSession>, Forwarded),
}

impl Router {
    pub(super) async fn respond(self, request: Request<Arriving>) -> Response<Body> {
        let _in_flight = self.app.in_flight.enter();
        let (head, body) = request.into_parts();
        let options = &self.app.options;
        let route = self.route(head.uri.path());
        if let Some(check) = self.probe(&route) {
            return responses::health(check());
        }
        let origin = AllowedOrigin::of(&head.headers, &options.origins);
        if !origin_check::is_allowed(&head.headers, self.local, &options.hosts, origin.as_ref()) {
            let message = "Forbidden: this server is not known by that Host or Origin";
            return responses::refuse(StatusCode::FORBIDDEN, message);
        }
        let Some(origin) = origin else { return self.serve(route, head, body).await };
        match origin.preflight(&head) {
            Some(response) => response,
            None => origin.allow(self.serve(route, head, body).await),
        }
    }

    /// Answers a connection beyond the limit.
    pub(super) fn respond_if_health(self, request: &Request<Arriving>) -> Response<Body> {
        match self.probe(&self.route(request.uri().path())) {
            Some(check) => responses::health(check()),
            None => responses::busy(StatusCode::SERVICE_UNAVAILABLE, None, BUSY),
        }
    }

    /// The health check that responds to a probe. Probes need neither a host name of this server nor a token.
    fn probe(&self, route: &Route) -> Option<&HealthCheck> {
        match route {
            Route::Health => Some(&self.app.options.health),
            Route::Ready => Some(&self.app.options.ready),
            _ => None,
        }
    }

    async fn serve(&self, route: Route, head: request::Parts, body: Arriving) -> Response<Body> {
        let options = &self.app.options;
        if let Some(pages) = options.pages.iter().find(|pages| pages.serves(head.uri.path())) {
            let max_body = pages.max_body(&head, &self.peer).await;
            let limits = (options.max_body.min(max_body), options.body_limit.min(PAGE_TIMEOUT));
            return match self.read_body(body, limits).await {
                Ok(body) => {
                    let request = Request::from_parts(head, body);
                    responses::from_bytes(pages.respond(request, &self.peer).await)
                }
                Err(refusal) => *refusal,
            };
        }
        if let Route::Nothing = route {
            return responses::not_found(options.paths.first().map_or("/", String::as_str));
        }
        let caller = match self.admit(&head).await {
            Ok(caller) => caller,
            Err(refusal) => return *refusal,
        };
        if let (Route::Endpoint, Some(shared)) = (&route, &self.app.replica_sessions)
            && !is_modern(&head.headers)
            && let Some(id) = first(&head.headers, responses::SESSION)
            && let Err(refusal) = shared.refresh(&self.app, id, &caller, self.peer.ip()).await
        {
            return *refusal;
        }
        match (route, &head.method) {
            (Route::Endpoint, &Method::POST) => self.post(&head, body, caller).await,
            (Route::Endpoint, &Method::GET) if is_plain_get(&head.headers) => responses::greeting(),
            (Route::Endpoint, &Method::GET) => self.get(&head.headers, &caller).await,
            (Route::Endpoint, &Method::DELETE) => self.delete(&head.headers, &caller).await,
            (Route::Endpoint, _) => responses::not_allowed("POST, GET, DELETE"),
            (Route::Stream, &Method::GET) => {
                sse::open(&self.app, &head.headers, &caller, &self.peer)
            }
            (Route::Stream, _) => responses::not_allowed("GET"),
            (Route::Messages, &Method::POST) => self.message(&head, body, caller).await,
            (Route::Messages, _) => responses::not_allowed("POST"),
            (Route::Health | Route::Ready | Route::Nothing, _) => responses::not_found("/"),
        }
    }

    /// The caller of a request, limited to the toolset that it names.
    async fn admit(&self, head: &request::Parts) -> Result<Caller, Refusal> {
        let admission = match &self.app.options.guard {
            None => Admission::default(),
            Some(guard) => guard
                .authenticate(&head.headers, &self.peer)
                .await
                .map_err(|refusal| Box::new(responses::refusal(refusal)))?,
        };
        let by_path = self.toolset_of(head.uri.path().trim_end_matches('/'));
        let by_header = first(&head.headers, TOOLSET);
        let is_valid = |name: &str| {
            let graphic = name.bytes().all(|byte| byte.is_ascii_graphic());
            graphic && !name.is_empty() && name.len() <= MAX_TOOLSET_LENGTH
        };
        let requested = match (by_path, by_header) {
            (Some(path), Some(header)) if path != header => {
                let message = "the path and the Muster-Toolset header name different toolsets";
                return Err(Box::new(responses::refuse(StatusCode::BAD_REQUEST, message)));
            }
            (path, header) => path.or(header),
        };
        if !requested.is_none_or(is_valid) {
            let message = "the name of the toolset is not valid";
            return Err(Box::new(responses::refuse(StatusCode::BAD_REQUEST, message)));
        }
        let admission = admission.limited_to(requested).map_err(|mismatch| {
            let message = format!(
                "this token is for the toolset `{}` and cannot choose another",
                mismatch.bound
            );
            Box::new(responses::refuse(StatusCode::FORBIDDEN, &message))
        })?;
        Ok(admission.caller(client_session(&head.headers)))
    }

    /// The toolset in a path: one more segment below the first path of the endpoint.
    fn toolset_of<'a>(&self, path: &'a str) -> Option<&'a str> {
        let endpoint = self.app.options.paths.first()?.trim_end_matches('/');
        let name = path.strip_prefix(endpoint)?.strip_prefix('/')?;
        (!endpoint.is_empty() && !name.contains('/')).then_some(name)
    }

    fn route(&self, path: &str) -> Route {
        let path = path.trim_end_matches('/');
        if self.app.options.paths.iter().any(|known| known.trim_end_matches('/') == path)
            || self.toolset_of(path).is_some()
        {
            return Route::Endpoint;
        }
        match path {
            "/health" => Route::Health,
            "/ready" => Route::Ready,
            "/sse" => Route::Stream,
            sse::MESSAGE_PATH => Route::Messages,
            _ => Route::Nothing,
        }
    }

    async fn post(&self, head: &request::Parts, body: Arriving, caller: Caller) -> Response<Body> {
        if !is_json(&head.headers) {
            let message = "Content-Type must be application/json";
            return responses::refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
        }
        let accepts = accepts(&head.headers);
        if !accepts.json && !accepts.events {
            let message = "Accept must name application/json and text/event-stream";
            return responses::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        let step = match self.read_body(body, self.app.body_limits()).await {
            Ok(body) => self.process(&head.headers, accepts, &body, caller),
            Err(refusal) => return *refusal,
        };
        match step {
            Step::Respond(response) => response,
            Step::Forward(session, message) => self.forward(&session, message).await,
            Step::Serve(exchange, session, caller) => {
                if let (Some(caller), Some(limits)) = (caller, &self.app.shared_limits)
                    && let Err(too_many) = limits.begin(&caller).await
                {
                    return exchange.refuse(&too_many);
                }
                let response = exchange.respond().await;
                match session {
                    None => response,
                    Some(session) => responses::with_session(response, &session),
                }
            }
        }
    }

    fn process(&self, headers: &HeaderMap, accepts: Accepts, body: &[u8], caller: Caller) -> Step {
        let text = std::str::from_utf8(body).unwrap_or_default();
        match Message::parse(text) {
            Err(malformed) => Step::Respond(malformed_message(&malformed)),
            Ok(Message::Request { id, method, params }) => {
                let routing = routing_headers(headers);
                let incoming =
                    IncomingRequest { id, method: &method, params, headers: Some(&routing) };
                let valid = incoming.validate();
                match valid.and_then(|request| self.check_params(headers, &caller, request)) {
                    Ok(request) => self.start(headers, accepts, caller, request),
                    Err(response) => Step::Respond(self.invalid(headers, &caller, &response)),
                }
            }
            Ok(Message::Notification { method, params }) => {
                self.notified(headers, &caller, |session| match cancelled_id(&method, params) {
                    Some(id) => self.cancel(session, id),
                    None => Step::Respond(responses::accepted()),
                })
            }
            Ok(Message::Response { id, outcome }) => {
                if is_modern(headers) {
                    let error = RpcError::new(code::INVALID_REQUEST, "There is nothing to answer");
                    return Step::Respond(responses::error(StatusCode::BAD_REQUEST, None, &error));
                }
                self.notified(headers, &caller, |session| complete(session, id, outcome))
            }
        }
    }

    /// Checks that a modern tool call repeats the annotated arguments in headers.
    fn check_params(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        request: ValidRequest,
    ) -> Result<ValidRequest, RpcResponse> {
        if request.era == Era::Modern
            && let Some((tool, arguments)) = request.request.tool_call()
            && let Some(schema) = self.app.server.schema(caller, tool)
            && let Err(error) = param_check::check(&schema, arguments, headers)
        {
            return Err(RpcResponse::error(request.era, Some(&request.id), error));
        }
        Ok(request)
    }

    fn start(
        &self,
        headers: &HeaderMap,
        accepts: Accepts,
        caller: Caller,
        mut request: ValidRequest,
    ) -> Step {
        if request.method == model::Method::Listen && !accepts.events {
            let message = "Accept must name text/event-stream";
            return Step::Respond(responses::refuse(StatusCode::NOT_ACCEPTABLE, message));
        }
        let app = &self.app;
        let session = match (request.era, request.method) {
            (Era::Modern, _) => Ok(None),
            (Era::Legacy, model::Method::Initialize) => {
                app.sessions.create(&caller, self.peer.ip()).ok_or_else(no_randomness).map(Some)
            }
            (Era::Legacy, _) => self.session(headers, &caller, Some(&request.id)).map(Some),
        };
        let session = match session {
            Ok(session) => session,
            Err(refusal) => return Step::Respond(*refusal),
        };
        let call = match self.begin_call(&caller, &request) {
            Ok(call) => call,
            Err(refusal) => return Step::Respond(*refusal),
        };
        let counted = (app.shared_limits.is_some() && request.request.tool_call().is_some())
            .then(|| self.key_of(&caller));
        let outbox = if accepts.events { Outbox::lazy() } else { Outbox::None };
        let state = session.as_ref().map(|session| &session.state);
        let counter = call.as_ref().map(|place| place.counter(app.shared_limits.as_ref()));
        let channel = Arc::new(request.channel(state, outbox).counting(counter));
        let mailbox = accepts.events.then(|| Mailbox::new(Arc::<ClientChannel>::clone(&channel)));
        let log = session
            .as_ref()
            .filter(|_| accepts.events && app.replica_sessions.is_some())
            .and_then(|session| EventLog::of(app, session, &request.id, is_primed(headers)));
        let serving = match &session {
            None => Serving::modern(Arc::clone(app), caller, channel, request),
            Some(session) => Serving::legacy(app, session, caller, channel, request),
        };
        let serving = serving.holding(call);
        let keep_alive = app.options.keep_alive;
        Step::Serve(Exchange { serving, mailbox, accepts, keep_alive, log }, session, counted)
    }

    /// The response to an invalid request; an unknown session takes precedence.
    fn invalid(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        response: &RpcResponse,
    ) -> Response<Body> {
        match response.era {
            Era::Modern => responses::invalid(response),
            Era::Legacy => match self.session(headers, caller, response.id()) {
                Ok(session) => responses::with_session(responses::invalid(response), &session),
                Err(refusal) => *refusal,
            },
        }
    }

    /// Handles a message that has no response. Messages of the modern era are accepted and ignored.
    fn notified(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        handle: impl FnOnce(&Arc<HttpSession>) -> Step,
    ) -> Step {
        if is_modern(headers) {
            return Step::Respond(responses::accepted());
        }
        match self.session(headers, caller, None) {
            Ok(session) => handle(&session),
            Err(refusal) => Step::Respond(*refusal),
        }
    }

    async fn get(&self, headers: &HeaderMap, caller: &Caller) -> Response<Body> {
        let session = match self.session_of_stream(headers, caller) {
            Ok(session) => session,
            Err(refusal) => return *refusal,
        };
        if !accepts(headers).events {
            let message = "Accept must name text/event-stream";
            return responses::refuse(StatusCode::NOT_ACCEPTABLE, message);
        }
        let resumed = match self.resume(headers, &session).await {
            Ok(resumed) => resumed,
            Err(refusal) => return *refusal,
        };
        let source = resumed.unwrap_or_else(|| {
            self.note_stream(&session);
            Box::new(SessionStream::new(Arc::clone(&session), self.app.draining.clone()))
        });
        let events = EventStream::new(source, self.app.options.keep_alive);
        responses::with_session(responses::events(events), &session)
    }

    async fn delete(&self, headers: &HeaderMap, caller: &Caller) -> Response<Body> {
        match self.session_of_stream(headers, caller) {
            Ok(session) => {
                self.app.sessions.end(&session.id);
                if let Some(shared) = &self.app.replica_sessions
                    && let Err(error) = shared.end(&session.id).await
                {
                    return not_shared(&error);
                }
                responses::bare(StatusCode::OK)
            }
            Err(refusal) => *refusal,
        }
    }

    /// The session of `GET` and `DELETE`, which only legacy sessions have.
    fn session_of_stream(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
    ) -> Result<Arc<HttpSession>, Refusal> {
        if is_modern(headers) || !headers.contains_key(&responses::SESSION) {
            return Err(Box::new(responses::not_allowed("POST")));
        }
        self.session(headers, caller, None)
    }

    fn session(
        &self,
        headers: &HeaderMap,
        caller: &Caller,
        id: Option<&RawValue>,
    ) -> Result<Arc<HttpSession>, Refusal> {
        let name = first(headers, responses::SESSION);
        name.and_then(|name| self.app.sessions.find(name, caller))
            .ok_or_else(|| Box::new(responses::no_session(name.is_some(), id)))
    }

    async fn message(
        &self,
        head: &request::Parts,
        body: Arriving,
        caller: Caller,
    ) -> Response<Body> {
        let Some(session) = sse::session(&self.app, head, &caller) else {
            return responses::no_session(true, None);
        };
        match self.read_body(body, self.app.body_limits()).await {
            Ok(body) => sse::handle(&self.app, &session, caller, self.peer.ip(), &body).await,
            Err(refusal) => *refusal,
        }
    }

    /// Reads a body with a size limit and a timeout: a silent client must not hold a connection.
    async fn read_body(
        &self,
        body: Arriving,
        (size, time): (usize, Duration),
    ) -> Result<Bytes, Refusal> {
        let _receiving = self.busy.receive();
        let refuse = |status, message: &str| Err(Box::new(responses::refuse(status, message)));
        match within(time, Limited::new(body, size).collect()).await {
            None => refuse(StatusCode::REQUEST_TIMEOUT, "the body did not arrive in time"),
            Some(Ok(body)) => Ok(body.to_bytes()),
            Some(Err(err)) if err.is::<LengthLimitError>() => {
                let message = format!("a body may have at most {size} bytes");
                refuse(StatusCode::PAYLOAD_TOO_LARGE, &message)
            }
            Some(Err(_)) => refuse(StatusCode::BAD_REQUEST, "the body is not complete"),
        }
    }
}

fn no_randomness() -> Refusal {
    let message = "no randomness for a session";
    Box::new(responses::refuse(StatusCode::INTERNAL_SERVER_ERROR, message))
}

/// The id of the request that a notification cancels.
pub(super) fn cancelled_id(method: &str, params: Option<&RawValue>) -> Option<Raw> {
    if method != "notifications/cancelled" {
        return None;
    }
    params.and_then(RawObject::parse)?.get("requestId").map(ToOwned::to_owned)
}

pub(super) fn malformed_message(malformed: &Malformed) -> Response<Body> {
    responses::error(StatusCode::BAD_REQUEST, None, &RpcError::from(malformed))
}
