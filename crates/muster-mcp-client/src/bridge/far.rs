//! The server's side of a bridge.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use muster_core::json::RawObject;
use muster_mcp::{
    version::Era,
    wire::{self, Message, RpcError, error_line},
};
use serde_json::value::RawValue;
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info};

use super::{
    Options,
    asked::{self, Asked, Effect, HeadedTools},
    gate::Gate,
    login::{Login, Renewal},
    questions::Questions,
    session::{Name, Session},
    trouble::Trouble,
};
use crate::{
    dial::Sender,
    http::{JSON_OR_EVENTS, VERSION},
    pool::{Pool, Sent},
    response::{Kind, whole},
    sse::Stream,
};

/// How often a request without an effect is sent when its connections break.
const TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a request is sent with another token.
const LOGINS: u32 = 2;
/// How long the end of a stream is waited for once its answer is there.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The server's side.
#[derive(Debug)]
pub(super) struct Far {
    pub(super) pool: Pool,
    pub(super) session: Session,
    pub(super) questions: Questions,
    pub(super) headed: HeadedTools,
    pub(super) login: Arc<dyn Login>,
    pub(super) gate: Gate,
    patience: Duration,
    /// What the client is told.
    pub(super) out: mpsc::Sender<Vec<u8>>,
    /// Held while a lost session is replaced, so that one request does it for all.
    renewing: Mutex<()>,
    /// Held while another token is got, so that one request does it for all.
    logging_in: Mutex<()>,
}

impl Far {
    pub(super) fn new(pool: Pool, options: Options, out: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            pool,
            session: Session::default(),
            questions: Questions::default(),
            headed: HeadedTools::default(),
            login: options.login,
            gate: Gate::new(options.meanwhile),
            patience: options.patience,
            out,
            renewing: Mutex::new(()),
            logging_in: Mutex::new(()),
        }
    }

    /// Carries a request to the server, and all that it says to it back.
    pub(super) async fn carry(&self, asked: &Asked) {
        if let Err(trouble) = self.exchange(asked).await {
            debug!("`{}` has no answer: {trouble}", asked.method);
            // A server lets go of what was taken back without an answer.
            if asked.withdrawn.load(Ordering::Relaxed) {
                return;
            }
            self.say(error_line(Some(&asked.id), &trouble.into_error())).await;
        }
    }

    async fn exchange(&self, asked: &Asked) -> Result<(), Trouble> {
        let (mut renewed, mut logins, mut tries) = (false, 0, 1);
        loop {
            if self.gate.is_shut() {
                let Some(answer) = self.meanwhile(asked).await else { continue };
                self.say(answer.to_line()).await;
                return Ok(());
            }
            let name = match (asked.era, asked.effect) {
                (Era::Modern, _) | (_, Effect::Introduction) => Name::default(),
                (Era::Legacy, _) => self.session.name(),
            };
            match self.attempt(asked, &name).await {
                Err(Trouble::SessionGone) if !renewed => {
                    renewed = true;
                    Box::pin(self.renew(&name)).await?;
                }
                Err(Trouble::Unauthorized { refused, challenge }) if logins < LOGINS => {
                    logins += 1;
                    self.log_in(refused, challenge.as_deref()).await?;
                }
                Err(Trouble::Broke(reason)) if asked.effect.is_repeatable() && tries < TRIES => {
                    debug!("`{}` is sent again: {reason}", asked.method);
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    async fn attempt(&self, asked: &Asked, name: &Name) -> Result<(), Trouble> {
        let request = || {
            let mut request = self.new_request(Method::POST, JSON_OR_EVENTS, asked.body.clone());
            name.put(request.headers_mut());
            request.headers_mut().extend(asked.headers.clone());
            request
        };
        let (response, sender) = self.reach(request).await?;
        if !response.status().is_success() {
            return self.refused((response, sender), Some(&asked.id), name.is_some()).await;
        }
        let (head, mut body) = response.into_parts();
        match Kind::of(&head.headers) {
            Kind::Json => {
                let answer = whole(&mut body).await.map_err(|failure| Trouble::after(&failure))?;
                self.pool.give_back(sender);
                self.learn(asked, &head.headers, &answer);
                self.say(wire::line(answer.into())).await;
                Ok(())
            }
            Kind::Events => self.stream(asked, &head.headers, Stream::new(body), sender).await,
            Kind::Other(kind) => Err(Trouble::NoMessage(kind)),
        }
    }

    /// Passes events on until the answer.
    async fn stream(
        &self,
        asked: &Asked,
        headers: &HeaderMap,
        mut stream: Stream,
        sender: Sender,
    ) -> Result<(), Trouble> {
        loop {
            let event = match stream.next().await {
                Ok(Some(event)) => event,
                Ok(None) => return Err(Trouble::Broke("the answer broke off".to_owned())),
                Err(failure) => return Err(Trouble::after(&failure)),
            };
            if event.data.is_empty() {
                continue;
            }
            if is_answer(&event.data, &asked.id) {
                self.learn(asked, headers, &event.data);
                self.say(wire::line(event.data)).await;
                let mut body = stream.into_body();
                let end = async { while let Some(Ok(_)) = body.frame().await {} };
                if timeout(END_LIMIT, end).await.is_ok() {
                    self.pool.give_back(sender);
                }
                return Ok(());
            }
            self.heard(event.data).await;
        }
    }

    /// Passes on what is no answer.
    pub(super) async fn heard(&self, message: Vec<u8>) {
        let text = String::from_utf8_lossy(&message);
        if let Ok(Message::Request { id, .. }) = Message::parse(&text)
            && let Some(refusal) = self.questions.asked(id)
        {
            return Box::pin(self.tell(refusal, None)).await;
        }
        self.say(wire::line(message)).await;
    }

    /// What an answer says about what comes after it.
    fn learn(&self, asked: &Asked, headers: &HeaderMap, answer: &[u8]) {
        match asked.effect {
            Effect::Introduction => self.session.introduced(&asked.body, headers, answer),
            Effect::Session if is_result(answer) => self.session.settled(asked),
            Effect::None if asked.method == "tools/list" && asked.era == Era::Modern => {
                asked::learn(&self.headed, answer);
            }
            Effect::None | Effect::Session | Effect::Endless | Effect::Unknown => (),
        }
    }

    /// Sends a message that has no answer. What becomes of it is not for the client to know.
    pub(super) async fn tell(&self, text: String, version: Option<String>) {
        if self.gate.is_shut() {
            return debug!("a message is for nobody: the server wants a login first");
        }
        let body = Bytes::from(text);
        let send = async |name: &Name| {
            let request = || {
                let mut request = self.new_request(Method::POST, JSON_OR_EVENTS, body.clone());
                match &version {
                    Some(version) => {
                        request.headers_mut().insert(VERSION, asked::version_header(version));
                    }
                    None => name.put(request.headers_mut()),
                }
                request
            };
            self.deliver(request, name.is_some()).await
        };
        let name = self.session.name();
        let sent = match send(&name).await {
            Err(Trouble::SessionGone) => match Box::pin(self.renew(&name)).await {
                Ok(()) => send(&self.session.name()).await,
                Err(trouble) => Err(trouble),
            },
            sent => sent,
        };
        if let Err(trouble) = sent {
            debug!("a message was not taken: {trouble}");
        }
    }

    async fn deliver(
        &self,
        request: impl Fn() -> Request<Full<Bytes>>,
        in_session: bool,
    ) -> Result<(), Trouble> {
        let (response, sender) = self.reach(request).await?;
        if !response.status().is_success() {
            return self.refused((response, sender), None, in_session).await;
        }
        if whole(&mut response.into_body()).await.is_ok() {
            self.pool.give_back(sender);
        }
        Ok(())
    }

    /// Introduces the client again, and tells it that any list may have changed.
    pub(super) async fn renew(&self, stale: &Name) -> Result<(), Trouble> {
        if self.introduce(stale).await? {
            info!("the server had forgotten the session; the client was introduced again");
            for change in self.session.changes() {
                self.say(change).await;
            }
        }
        Ok(())
    }

    /// Introduces the client in its own words; false where that has been done.
    pub(super) async fn introduce(&self, stale: &Name) -> Result<bool, Trouble> {
        let _turn = self.renewing.lock().await;
        if self.session.name().serial != stale.serial {
            return Ok(false);
        }
        let Some(words) = self.session.introduction() else { return Err(Trouble::SessionGone) };
        let request = || self.new_request(Method::POST, JSON_OR_EVENTS, words.clone());
        let (response, sender) = self.reach(request).await?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            self.refused((response, sender), None, false).await?;
            return Err(Trouble::Status(status));
        }
        let (head, mut body) = response.into_parts();
        let answer = match Kind::of(&head.headers) {
            Kind::Json => {
                let answer = whole(&mut body).await.map_err(|failure| Trouble::after(&failure))?;
                self.pool.give_back(sender);
                answer
            }
            Kind::Events => first(Stream::new(body)).await?,
            Kind::Other(kind) => return Err(Trouble::NoMessage(kind)),
        };
        self.session.introduced(&words, &head.headers, &answer);
        if self.session.name().serial == stale.serial {
            return Err(Trouble::SessionGone);
        }
        let name = self.session.name();
        for words in self.session.rest() {
            let request = || {
                let mut request = self.new_request(Method::POST, JSON_OR_EVENTS, words.clone());
                name.put(request.headers_mut());
                request
            };
            self.deliver(request, false).await?;
        }
        Ok(true)
    }

    /// Gets another token, or shuts the gate until a person has logged in.
    async fn log_in(
        &self,
        refused: Option<String>,
        challenge: Option<&str>,
    ) -> Result<(), Trouble> {
        let _turn = self.logging_in.lock().await;
        if self.gate.is_shut() || self.login.token() != refused {
            return Ok(());
        }
        match self.login.renew(refused.as_deref(), challenge).await {
            Renewal::Done => Ok(()),
            Renewal::Wanted if self.gate.shut(refused) => Ok(()),
            Renewal::Wanted => Err(Trouble::NoLogin("nobody can be asked to log in".to_owned())),
            Renewal::Never(reason) => Err(Trouble::NoLogin(reason)),
        }
    }

    /// Sends a request, again and again as long as nothing of it has been sent.
    async fn reach(
        &self,
        request: impl Fn() -> Request<Full<Bytes>>,
    ) -> Result<(Response<Incoming>, Sender), Trouble> {
        let given_up = Instant::now() + self.patience;
        let mut pause = FIRST_PAUSE;
        loop {
            match self.pool.try_send(request()).await {
                Ok(answered) => return Ok(answered),
                Err((failure, Sent::Maybe)) => return Err(Trouble::after(&failure)),
                Err((failure, Sent::Nothing)) if Instant::now() + pause > given_up => {
                    return Err(Trouble::Unreachable(failure.to_string()));
                }
                Err((_, Sent::Nothing)) => sleep(pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// What an answer without success says. An error that names the request is passed on as it is, and
    /// is an answer.
    pub(super) async fn refused(
        &self,
        (response, sender): (Response<Incoming>, Sender),
        id: Option<&RawValue>,
        in_session: bool,
    ) -> Result<(), Trouble> {
        let (head, mut body) = response.into_parts();
        if head.status == StatusCode::UNAUTHORIZED {
            let challenge = head.headers.get(header::WWW_AUTHENTICATE);
            let challenge = challenge.and_then(|value| value.to_str().ok()).map(str::to_owned);
            return Err(Trouble::Unauthorized { refused: self.login.token(), challenge });
        }
        let body = whole(&mut body).await.unwrap_or_default();
        self.pool.give_back(sender);
        let own = id.is_some_and(|id| is_answer(&body, id));
        let gone = match head.status {
            StatusCode::NOT_FOUND => in_session,
            StatusCode::BAD_REQUEST => in_session && !own,
            _ => false,
        };
        if gone {
            return Err(Trouble::SessionGone);
        }
        if own {
            self.say(wire::line(body.into())).await;
            return Ok(());
        }
        Err(error_of(&body).map_or(Trouble::Status(head.status.as_u16()), Trouble::Refused))
    }

    pub(super) fn new_request(
        &self,
        method: Method,
        accept: &'static str,
        body: Bytes,
    ) -> Request<Full<Bytes>> {
        let mut request = self.pool.request(method, &self.pool.address().path, accept, body);
        let token = self.login.token().map(|token| format!("Bearer {token}"));
        if let Some(Ok(mut value)) = token.map(|token| HeaderValue::from_str(&token)) {
            value.set_sensitive(true);
            request.headers_mut().insert(header::AUTHORIZATION, value);
        }
        request
    }

    pub(super) async fn say(&self, line: Vec<u8>) {
        // A client that left needs no word.
        drop(self.out.send(line).await);
    }

    /// Ends the session, if there is one.
    pub(super) async fn close(&self) {
        let name = self.session.name();
        if !name.is_some() {
            return;
        }
        let mut request = self.new_request(Method::DELETE, JSON_OR_EVENTS, Bytes::new());
        name.put(request.headers_mut());
        if let Err((failure, _)) = self.pool.try_send(request).await {
            debug!("no goodbye: {failure}");
        }
    }
}

/// The first message with a result in a stream.
async fn first(mut stream: Stream) -> Result<Bytes, Trouble> {
    loop {
        match stream.next().await {
            Ok(Some(event)) if is_result(&event.data) => return Ok(event.data.into()),
            Ok(Some(_)) => (),
            Ok(None) => return Err(Trouble::Broke("the answer broke off".to_owned())),
            Err(failure) => return Err(Trouble::after(&failure)),
        }
    }
}

fn is_answer(message: &[u8], id: &RawValue) -> bool {
    let text = String::from_utf8_lossy(message);
    matches!(Message::parse(&text), Ok(Message::Response { id: own, .. }) if own.get() == id.get())
}

fn is_result(message: &[u8]) -> bool {
    let text = String::from_utf8_lossy(message);
    matches!(Message::parse(&text), Ok(Message::Response { outcome: Ok(_), .. }))
}

/// The error in an answer that names no request.
fn error_of(body: &[u8]) -> Option<RpcError> {
    let body: &RawValue = serde_json::from_slice(body).ok()?;
    let body = RawObject::parse(body)?;
    let error = body.get("error").and_then(RawObject::parse)?;
    let code = error.get("code")?.get().parse().ok()?;
    let data = error.get("data").map(ToOwned::to_owned);
    Some(RpcError { code, message: error.get_text("message")?, data })
}
