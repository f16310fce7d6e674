//! Sessions that every replica of the gateway can serve.
//!
//! A session is a record in the shared state, which each request in it reads: one round trip. What a request changes is
//! stored before its response is sent. Messages that belong to a request which another replica serves (a cancellation,
//! the response to an input request) are sent there.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{Response, StatusCode};
use muster_core::{
    call::Caller,
    hex,
    json::{Raw, raw},
    shared::{Recipient, ReplicaLink, StoreError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{App, body::Body, responses, sessions::HttpSession};
use crate::{log_level::LogLevel, session::SessionChange};

/// The topic of messages about sessions.
const TOPIC: &str = "session";

/// The longest session id that is looked up.
const MAX_ID: usize = 64;

/// The largest record of a session: what its client says about itself, and its subscriptions.
const MAX_RECORD: usize = 64 * 1024;

/// The largest response to an input request that is sent to another replica.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// How often a change is applied again because another replica was faster.
const MAX_ATTEMPTS: usize = 8;

/// The sessions of all replicas.
#[derive(Debug)]
pub(super) struct ReplicaSessions {
    pub(super) link: Arc<dyn ReplicaLink>,
    ttl: Duration,
}

/// A session, as replicas share it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionRecord {
    /// The subject of its caller.
    subject: String,
    /// The name by which a caller without a login owns what is private to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    capabilities: Raw,
    level: u8,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    subscriptions: BTreeSet<String>,
    /// Whether its client has opened a standalone stream.
    #[serde(default)]
    streamed: bool,
}

impl SessionRecord {
    fn of(session: &HttpSession) -> Self {
        Self {
            subject: session.caller.subject.to_string(),
            session: session.caller.session.as_deref().map(str::to_owned),
            capabilities: session.state.capabilities(),
            level: session.state.log_level().to_u8(),
            subscriptions: BTreeSet::new(),
            streamed: false,
        }
    }

    fn apply(&mut self, change: &SessionChange) {
        match change {
            SessionChange::Begun => (),
            SessionChange::Level(level) => self.level = level.to_u8(),
            SessionChange::Subscribed(uri) => drop(self.subscriptions.insert(uri.clone())),
            SessionChange::Unsubscribed(uri) => drop(self.subscriptions.remove(uri)),
            SessionChange::Streamed => self.streamed = true,
        }
    }

    fn encode(&self) -> Result<Vec<u8>, StoreError> {
        let encoded = serde_json::to_vec(self).map_err(|_| StoreError::Unreadable)?;
        if encoded.len() > MAX_RECORD {
            return Err(StoreError::Unavailable("the session is too large".to_owned()));
        }
        Ok(encoded)
    }

    fn decode(stored: &[u8]) -> Result<Self, StoreError> {
        serde_json::from_slice(stored).map_err(|_| StoreError::Unreadable)
    }
}

/// A message to other replicas.
#[derive(Debug, Serialize, Deserialize)]
enum SessionMessage {
    /// The client cancelled a request.
    Cancelled { session: String, request: Raw },
    /// The client responded to an input request.
    Answered { session: String, id: Raw, result: Option<Raw>, error: Option<Raw> },
    /// The subscriptions of the session changed.
    Changed { session: String },
    /// The client ended the session.
    Ended { session: String },
}

impl ReplicaSessions {
    pub(super) fn new(link: Arc<dyn ReplicaLink>, ttl: Duration) -> Self {
        Self { link, ttl }
    }

    /// Handles the messages of other replicas about sessions.
    pub(super) fn listen(&self, app: &Arc<App>) {
        let app = Arc::downgrade(app);
        let received = move |message: Vec<u8>| {
            let Some(app) = app.upgrade() else { return };
            match serde_json::from_slice(&message) {
                Ok(message) => receive(&app, message),
                Err(_) => tracing::debug!("a message of another version of the gateway is ignored"),
            }
        };
        self.link.listen(TOPIC, Arc::new(received));
    }

    /// Looks up the session of a request, and takes it over if another replica began it. A session that is known here is
    /// served even while the shared state is not available.
    pub(super) async fn refresh(
        &self,
        app: &Arc<App>,
        id: &str,
        caller: &Caller,
        address: IpAddr,
    ) -> Result<(), Box<Response<Body>>> {
        if id.len() > MAX_ID || !id.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Ok(());
        }
        match self.read(id).await {
            // It is not known any more, or belongs to somebody else.
            Ok(None) => app.sessions.end(id),
            Ok(Some(record)) if record.subject == *caller.subject => {
                let adopted = || app.sessions.adopt(id, caller, record.session.as_deref(), address);
                let session = app.sessions.find(id, caller).unwrap_or_else(adopted);
                load(app, &session, &record);
            }
            Ok(Some(_)) => (),
            Err(error) => {
                tracing::debug!("session {id}: {error}");
                if app.sessions.find(id, caller).is_none() {
                    return Err(Box::new(unavailable()));
                }
            }
        }
        Ok(())
    }

    async fn read(&self, id: &str) -> Result<Option<SessionRecord>, StoreError> {
        let stored = self.link.state().touch(&key(id), self.ttl).await?;
        stored.map(|stored| SessionRecord::decode(&stored)).transpose()
    }

    /// Stores what a request changed.
    pub(super) async fn save(&self, session: &HttpSession) -> Result<(), StoreError> {
        let changes = session.state.take_unshared();
        if changes.is_empty() {
            return Ok(());
        }
        let (key, state) = (key(&session.id), self.link.state());
        if changes.contains(&SessionChange::Begun) {
            let mut record = SessionRecord::of(session);
            changes.iter().for_each(|change| record.apply(change));
            return state.put(&key, record.encode()?, self.ttl).await;
        }
        let mut attempts = 0;
        loop {
            // The client ended it meanwhile.
            let Some(stored) = state.get(&key).await? else { return Ok(()) };
            let mut record = SessionRecord::decode(&stored)?;
            changes.iter().for_each(|change| record.apply(change));
            if state.swap(&key, &stored, record.encode()?, self.ttl).await? {
                break;
            }
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                return Err(StoreError::Unavailable("too many changes at once".to_owned()));
            }
        }
        let is_subscription = |change: &SessionChange| {
            matches!(change, SessionChange::Subscribed(_) | SessionChange::Unsubscribed(_))
        };
        if changes.iter().any(is_subscription) {
            let changed = SessionMessage::Changed { session: session.id.clone() };
            self.send(Recipient::Others, &changed).await;
        }
        Ok(())
    }

    /// Keeps a session that has an open stream.
    pub(super) async fn keep(&self, session: &HttpSession) {
        if let Err(error) = self.link.state().touch(&key(&session.id), self.ttl).await {
            tracing::debug!("session {}: {error}", session.id);
        }
    }

    /// Ends a session everywhere.
    pub(super) async fn end(&self, id: &str) {
        if let Err(error) = self.link.state().remove(&key(id)).await {
            tracing::warn!("session {id} is ended at this replica only: {error}");
        }
        self.send(Recipient::Others, &SessionMessage::Ended { session: id.to_owned() }).await;
    }

    /// Cancels a request that another replica serves.
    pub(super) async fn cancel(&self, session: &str, request: Raw) {
        let message = SessionMessage::Cancelled { session: session.to_owned(), request };
        self.send(Recipient::Others, &message).await;
    }

    /// Sends the response to an input request to the replica that waits for it.
    pub(super) async fn answer(
        &self,
        replica: &str,
        session: &str,
        id: &RawValue,
        outcome: Result<Raw, Raw>,
    ) {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        let (session, id) = (session.to_owned(), id.to_owned());
        let message = SessionMessage::Answered { session, id, result, error };
        self.send(Recipient::Replica(replica), &message).await;
    }

    async fn send(&self, to: Recipient<'_>, message: &SessionMessage) {
        let encoded = String::from(Box::<str>::from(raw(message))).into_bytes();
        if encoded.len() > MAX_ANSWER {
            tracing::warn!("a response of a client is too large for another replica");
            return;
        }
        if let Err(error) = self.link.send(to, TOPIC, encoded).await {
            tracing::warn!("a message to another replica is lost: {error}");
        }
    }
}

/// Applies what other replicas know about a session.
fn load(app: &Arc<App>, session: &Arc<HttpSession>, record: &SessionRecord) {
    let level = LogLevel::from_u8(record.level);
    let ended = session.state.load(&record.capabilities, level, &record.subscriptions);
    app.server.unsubscribe(&session.caller, ended);
    if record.streamed && !session.was_streamed.swap(true, Ordering::Relaxed) {
        // Its stream at another replica may have missed changes.
        session.is_outdated.store(true, Ordering::Relaxed);
    }
    if *session.streams.borrow() > 0 {
        resubscribe(app, session);
    }
}

/// Subscribes to resources that the client subscribed to at other replicas: its stream is here.
pub(super) fn resubscribe(app: &Arc<App>, session: &Arc<HttpSession>) {
    let uris = session.state.subscriptions_elsewhere();
    if uris.is_empty() {
        return;
    }
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    let tasks = app.tasks.clone();
    tasks.spawn(async move {
        for uri in uris {
            app.server.subscribe_again(&session.caller, &session.state, &uri).await;
        }
    });
}

fn receive(app: &Arc<App>, message: SessionMessage) {
    match message {
        SessionMessage::Cancelled { session, request } => {
            if let Some(session) = app.sessions.known(&session) {
                session.cancel(&request);
            }
        }
        SessionMessage::Answered { session, id, result, error } => {
            let Some(session) = app.sessions.known(&session) else { return };
            let outcome = match (&result, &error) {
                (_, Some(error)) => Err(&**error),
                (Some(result), None) => Ok(&**result),
                (None, None) => return,
            };
            if !session.state.input_requests.complete(&id, outcome) {
                tracing::debug!("a response to no pending input request");
            }
        }
        SessionMessage::Changed { session } => {
            let known = app.sessions.known(&session);
            let Some(session) = known.filter(|session| *session.streams.borrow() > 0) else {
                return;
            };
            let app = Arc::clone(app);
            let tasks = app.tasks.clone();
            tasks.spawn(async move {
                let Some(shared) = &app.replica_sessions else { return };
                if let Ok(Some(record)) = shared.read(&session.id).await {
                    load(&app, &session, &record);
                }
            });
        }
        SessionMessage::Ended { session } => app.sessions.end(&session),
    }
}

/// The key of a session. Its id is a secret of its client.
fn key(id: &str) -> String {
    format!("session:{}", digest(id))
}

/// The digest of a session id.
pub(super) fn digest(id: &str) -> String {
    hex::encode(&Sha256::digest(id))
}

/// The session may exist: the client should not begin another.
fn unavailable() -> Response<Body> {
    let message = "the shared storage is not available; try again";
    responses::busy(StatusCode::SERVICE_UNAVAILABLE, None, message)
}
