//! Sessions that every replica of the gateway can serve.
//!
//! A session is a record in the shared state. Each request of the session reads it, which takes one round trip. The
//! changes that a request makes are stored before its response is sent. Messages for a request that another replica
//! serves (a cancellation, the response to an input request) are forwarded to that replica.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use http::{Response, StatusCode};
use muster_core::{
    backend::{BoxFuture, boxed},
    call::Caller,
    hex,
    join::join_all,
    json::{Raw, raw},
    shared::{Recipient, ReplicaLink, StoreError},
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use super::{
    App,
    body::Body,
    responses,
    sessions::{HttpSession, log_name},
};
use crate::{
    log_level::LogLevel,
    replica_names::ReplicaNames,
    session::{SessionChange, SharedVersion},
};

/// The topic of messages about sessions.
const TOPIC: &str = "session";

/// The longest session id that is looked up.
const MAX_ID: usize = 64;

/// The largest record of a session: its client's description of itself, and its subscriptions.
const MAX_RECORD: usize = 64 * 1024;

/// The largest response to an input request that is sent to another replica.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// How long a session is stored before its client uses it: a flood of `initialize` must not fill the shared state.
const UNESTABLISHED_TTL: Duration = Duration::from_secs(60);

/// The number of session records that are renewed concurrently.
const KEPT_AT_A_TIME: usize = 16;

/// The maximum number of attempts to apply a change that conflicts with changes by other replicas.
const MAX_ATTEMPTS: usize = 8;

/// The sessions of all replicas.
#[derive(Debug)]
pub(super) struct ReplicaSessions {
    pub(super) link: Arc<dyn ReplicaLink>,
    /// The names that this replica gives to streams and input requests.
    pub(super) names: Arc<ReplicaNames>,
    ttl: Duration,
}

/// Why a change of a session, or a response for it, does not reach other replicas.
#[derive(Debug, Error)]
pub(super) enum ShareError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("the subscriptions of a session may have at most {MAX_RECORD} bytes")]
    TooManySubscriptions,
    #[error("the response to a request of another replica may have at most {MAX_ANSWER} bytes")]
    TooLargeAnswer,
}

/// A session, as replicas share it.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct SessionRecord {
    /// The subject of its caller.
    subject: String,
    /// The name under which a caller without a login owns its private state.
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

    fn encode(&self) -> Result<Vec<u8>, ShareError> {
        let encoded = serde_json::to_vec(self).map_err(|_| StoreError::Unreadable)?;
        let is_small = encoded.len() <= MAX_RECORD;
        is_small.then_some(encoded).ok_or(ShareError::TooManySubscriptions)
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
        let names = ReplicaNames::new(link.id());
        Self { link, names, ttl }
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
        let known = app.sessions.find(id, caller);
        // Read before the record, so that changes made in the meantime count as newer.
        let version = known.as_ref().map(|session| session.state.shared_version());
        match self.read(id).await {
            // It has ended, or its record is unusable: the client must begin another session.
            Ok(None) | Err(StoreError::Unreadable) => app.sessions.end(id),
            Ok(Some(record)) if record.subject == *caller.subject => {
                let adopted = || app.sessions.adopt(id, caller, record.session.as_deref(), address);
                let session = known.unwrap_or_else(adopted);
                load(app, &session, &record, version.unwrap_or(Some(SharedVersion::default())));
            }
            // It belongs to another caller.
            Ok(Some(_)) => (),
            Err(error) => {
                tracing::debug!("session {}: {error}", log_name(id));
                if known.is_none() {
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

    /// Stores the changes that requests made. Changes that cannot be stored now are stored by a later request.
    pub(super) async fn save(
        &self,
        app: &Arc<App>,
        session: &Arc<HttpSession>,
    ) -> Result<(), ShareError> {
        let _one_at_a_time = session.saving.lock().await;
        if !session.state.has_unshared() {
            return Ok(());
        }
        let mut saving = session.state.save_unshared();
        let mut stored = None;
        let saved = self.store(session, &saving.changes, &mut stored).await;
        let mut others = Ok(());
        if matches!(saved, Err(ShareError::TooManySubscriptions)) {
            // The other changes can still be stored.
            saving.changes.retain(|change| !matches!(change, SessionChange::Subscribed(_)));
            others = self.store(session, &saving.changes, &mut stored).await;
        }
        let is_later = |saved| matches!(saved, &Err(ShareError::Store(_)));
        if !is_later(&saved) && !is_later(&others) {
            saving.changes.clear();
        }
        drop(saving);
        if let (Err(_), Some(record)) = (&saved, stored) {
            // Undo the changes that cannot be stored.
            load(app, session, &record, session.state.shared_version());
        }
        saved
    }

    /// Stores changes, and sets `known` to the stored record if it becomes known.
    async fn store(
        &self,
        session: &HttpSession,
        changes: &[SessionChange],
        known: &mut Option<SessionRecord>,
    ) -> Result<(), ShareError> {
        if changes.is_empty() {
            return Ok(());
        }
        let (key, state) = (key(&session.id), self.link.state());
        if changes.contains(&SessionChange::Begun) {
            let mut record = SessionRecord::of(session);
            changes.iter().for_each(|change| record.apply(change));
            let ttl = self.ttl.min(UNESTABLISHED_TTL);
            return Ok(state.put(&key, record.encode()?, ttl).await?);
        }
        let mut attempts = 0;
        loop {
            // The client ended it in the meantime.
            let Some(stored) = state.get(&key).await? else { return Ok(()) };
            let mut record = SessionRecord::decode(&stored)?;
            *known = Some(record.clone());
            changes.iter().for_each(|change| record.apply(change));
            if state.swap(&key, &stored, record.encode()?, self.ttl).await? {
                *known = Some(record);
                break;
            }
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                let reason = "too many changes at once".to_owned();
                return Err(StoreError::Unavailable(reason).into());
            }
        }
        let is_subscription = |change: &SessionChange| {
            matches!(change, SessionChange::Subscribed(_) | SessionChange::Unsubscribed(_))
        };
        if changes.iter().any(is_subscription) {
            let changed = SessionMessage::Changed { session: session.id.clone() };
            if let Err(error) = self.send(Recipient::Others, &changed).await {
                tracing::debug!("session {}: {error}", session.log_name());
            }
        }
        Ok(())
    }

    /// Renews the records of sessions in use, because their clients may only listen, and ends sessions that ended
    /// elsewhere.
    pub(super) async fn keep(&self, app: &App) {
        let in_use = app.sessions.all().into_iter().filter(|session| session.is_in_use());
        let in_use: Vec<_> = in_use.collect();
        for some in in_use.chunks(KEPT_AT_A_TIME) {
            let keep = |session: &Arc<HttpSession>| -> BoxFuture<'_, ()> {
                let session = Arc::clone(session);
                Box::pin(async move {
                    match self.link.state().touch(&key(&session.id), self.ttl).await {
                        Ok(Some(_)) => (),
                        // A new session is not stored before the end of its first request.
                        Ok(None) if session.state.has_unshared() => (),
                        Ok(None) => app.sessions.end(&session.id),
                        Err(error) => tracing::debug!("session {}: {error}", session.log_name()),
                    }
                })
            };
            join_all(some.iter().map(keep).collect()).await;
        }
    }

    /// Ends a session everywhere.
    pub(super) async fn end(&self, id: &str) -> Result<(), ShareError> {
        self.link.state().remove(&key(id)).await?;
        let ended = SessionMessage::Ended { session: id.to_owned() };
        if let Err(error) = self.send(Recipient::Others, &ended).await {
            // Other replicas notice when the session is next used.
            tracing::debug!("session {}: {error}", log_name(id));
        }
        Ok(())
    }

    /// Cancels a request that another replica serves.
    pub(super) async fn cancel(&self, session: &str, request: Raw) -> Result<(), ShareError> {
        let message = SessionMessage::Cancelled { session: session.to_owned(), request };
        self.send(Recipient::Others, &message).await
    }

    /// Sends the response to an input request to the replica that waits for it.
    pub(super) async fn answer(
        &self,
        replica: &str,
        session: &str,
        id: &RawValue,
        outcome: Result<Raw, Raw>,
    ) -> Result<(), ShareError> {
        let (result, error) = match outcome {
            Ok(result) => (Some(result), None),
            Err(error) => (None, Some(error)),
        };
        let (session, id) = (session.to_owned(), id.to_owned());
        let message = SessionMessage::Answered { session, id, result, error };
        self.send(Recipient::Replica(replica), &message).await
    }

    async fn send(&self, to: Recipient<'_>, message: &SessionMessage) -> Result<(), ShareError> {
        let encoded = String::from(Box::<str>::from(raw(message))).into_bytes();
        if encoded.len() > MAX_ANSWER {
            return Err(ShareError::TooLargeAnswer);
        }
        Ok(self.link.send(to, TOPIC, encoded).await?)
    }
}

/// Applies the stored record to a session, unless the session has changed since `version`.
fn load(
    app: &Arc<App>,
    session: &Arc<HttpSession>,
    record: &SessionRecord,
    version: Option<SharedVersion>,
) {
    let level = LogLevel::from_u8(record.level);
    let ended = session.state.load(&record.capabilities, level, &record.subscriptions, version);
    app.server.unsubscribe(&session.caller, ended);
    if record.streamed && !session.was_streamed.swap(true, Ordering::Relaxed) {
        // Its stream at another replica may have missed changes.
        session.is_outdated.store(true, Ordering::Relaxed);
    }
    if *session.streams.borrow() > 0 {
        resubscribe(app, session);
    }
}

/// Subscribes to the resources that the client subscribed to at other replicas, because its stream is here.
pub(super) fn resubscribe(app: &Arc<App>, session: &Arc<HttpSession>) {
    let uris = session.state.subscriptions_elsewhere();
    if uris.is_empty() {
        return;
    }
    let (app, session) = (Arc::clone(app), Arc::clone(session));
    let tasks = app.tasks.clone();
    tasks.spawn(boxed(async move {
        for uri in uris {
            app.server.subscribe_again(&session.caller, &session.state, &uri).await;
        }
    }));
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
            let Some(session) = app.sessions.known(&session) else { return };
            let app = Arc::clone(app);
            let tasks = app.tasks.clone();
            tasks.spawn(boxed(async move {
                let Some(shared) = &app.replica_sessions else { return };
                let version = session.state.shared_version();
                if let Ok(Some(record)) = shared.read(&session.id).await {
                    load(&app, &session, &record, version);
                }
            }));
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

/// The response while the shared state is not available. The session may exist, so the client should not begin another.
fn unavailable() -> Response<Body> {
    let message = "the shared storage is not available; try again";
    responses::busy(StatusCode::SERVICE_UNAVAILABLE, None, message)
}

/// The response to a message that did not reach another replica.
pub(super) fn not_shared(error: &ShareError) -> Response<Body> {
    match error {
        ShareError::Store(_) => unavailable(),
        ShareError::TooManySubscriptions | ShareError::TooLargeAnswer => {
            responses::refuse(StatusCode::PAYLOAD_TOO_LARGE, &error.to_string())
        }
    }
}
