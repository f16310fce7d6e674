//! What a server says beside its answers, brought to whom it is for.
//!
//! On a stream of its own a message belongs to the request of that stream. On a pipe nothing says
//! whose it is; then it belongs to the only request under way, or to the only caller with requests
//! under way, and to nobody otherwise: a question must never reach the wrong user.

use std::{fmt, sync::Arc};

use muster_core::{
    backend::BoxFuture,
    client::{ClientHandle, InputError, InputRequest, Notification},
    connect::{ConnectionEvent, ConnectionObserver},
    json::{Raw, RawObject},
};
use muster_mcp::{
    version::SUBSCRIPTION_KEY,
    wire::{RpcError, code},
};
use serde_json::value::RawValue;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

use super::{
    calls::{Asker, Calls, Flight, Owner, Settled},
    disk::{Disk, Spill},
    failure::{Failure, LARGEST, too_large},
    message::{self, Answer, Message},
    peer::can,
    sse,
    stored::{Long, Taken},
};

/// How much of a line that is no message is logged.
const SHOWN: usize = 200;

/// The way for messages that nobody waits for: answers to a server, and what is taken back.
pub(super) trait Outlet: fmt::Debug + Send + Sync {
    /// Sends one message.
    fn send(&self, message: Vec<u8>) -> BoxFuture<'_, Result<(), Failure>>;
}

/// Takes in what one server says.
#[derive(Debug)]
pub(super) struct Inbox {
    /// The server's name, for logs.
    pub(super) name: Arc<str>,
    pub(super) calls: Calls,
    pub(super) tasks: TaskTracker,
    pub(super) events: Arc<dyn ConnectionObserver>,
    /// Where what it says is put if that is long.
    pub(super) disk: Arc<Disk>,
}

impl Inbox {
    pub(super) fn new(
        name: &str,
        tasks: TaskTracker,
        disk: Arc<Disk>,
        events: Arc<dyn ConnectionObserver>,
    ) -> Arc<Self> {
        Arc::new(Self { name: name.into(), calls: Calls::default(), tasks, events, disk })
    }

    /// Takes a text that came on the stream of the request `own`, or on no such stream. The answer to
    /// `own` is given back, any other goes to whom waits for it.
    pub(super) fn take(
        self: &Arc<Self>,
        text: &str,
        own: Option<u64>,
        outlet: &Arc<dyn Outlet>,
    ) -> Option<Settled> {
        if !message::is_batch(text) {
            return self.take_one(text, own, outlet);
        }
        let mut found = None;
        for text in message::batch(text) {
            found = self.take_one(text, own, outlet).or(found);
        }
        found
    }

    /// Takes an event of a stream, as [`Inbox::take`] does.
    pub(super) async fn hear(
        self: &Arc<Self>,
        event: sse::Event,
        own: Option<u64>,
        outlet: &Arc<dyn Outlet>,
    ) -> Option<Settled> {
        match event.long {
            Some(spill) => self.take_long(spill, own, outlet).await,
            None => self.take(&String::from_utf8_lossy(&event.data), own, outlet),
        }
    }

    /// Takes a message that is on disk, as [`Inbox::take`] does. An answer stays there.
    pub(super) async fn take_long(
        self: &Arc<Self>,
        spill: Spill,
        own: Option<u64>,
        outlet: &Arc<dyn Outlet>,
    ) -> Option<Settled> {
        let read = tokio::task::spawn_blocking(|| Long::read(spill)).await;
        match read.unwrap_or_else(|error| Err(error.into())) {
            Ok(Long::Answer { id, result }) => self.settle(id, Ok(Taken::Stored(result)), own),
            Ok(Long::Other(text)) => self.take(&text, own, outlet),
            Ok(Long::TooLarge(whose)) => {
                let error = RpcError::new(code::INTERNAL_ERROR, too_large(LARGEST as u64));
                self.settle(whose, Err(error), own)
            }
            Err(error) => {
                warn!(server = &*self.name, "a long message cannot be read: {error}");
                None
            }
        }
    }

    /// A message was too large to be taken. Who waits for it is told so.
    pub(super) fn missed(&self, whose: Option<u64>) {
        let reason = too_large(self.disk.most());
        let error = RpcError::new(code::INTERNAL_ERROR, reason.clone());
        if !whose.is_some_and(|id| self.calls.settle(id, Err(error))) {
            warn!(server = &*self.name, "a message was passed over: {reason}");
        }
    }

    /// Hands an answer to whom waits for it, or back if that is `own`.
    fn settle(&self, id: Option<u64>, answer: Settled, own: Option<u64>) -> Option<Settled> {
        match id {
            _ if own.is_some() && id == own => return Some(answer),
            Some(id) => {
                if !self.calls.settle(id, answer) {
                    debug!(server = &*self.name, "an answer that nobody waits for");
                }
            }
            None => self.answered_nothing(&answer),
        }
        None
    }

    fn take_one(
        self: &Arc<Self>,
        text: &str,
        own: Option<u64>,
        outlet: &Arc<dyn Outlet>,
    ) -> Option<Settled> {
        match Message::parse(text) {
            Some(Message::Answer { id, answer }) => {
                return self.settle(id, answer.map(Taken::Raw), own);
            }
            Some(Message::Notification { method, params }) => self.notified(&method, params, own),
            Some(Message::Request { id, method, params }) => {
                self.asked(id, &method, params, own, outlet);
            }
            None => {
                let shown: String = text.chars().take(SHOWN).collect();
                debug!(server = &*self.name, "not a message: {shown}");
            }
        }
        None
    }

    fn answered_nothing(&self, answer: &Settled) {
        if let Err(error) = answer {
            debug!(server = &*self.name, "it could not read a message: {}", error.message);
        }
    }

    fn notified(&self, method: &str, params: Option<&RawValue>, own: Option<u64>) {
        let empty = RawObject::new().to_raw();
        let raw_params = params.unwrap_or(&empty);
        let params = RawObject::parse(raw_params).unwrap_or_default();
        let meta = params.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        let subscription = meta.get(SUBSCRIPTION_KEY).and_then(message::number);
        if subscription.is_some_and(|id| !self.calls.knows(id)) {
            return debug!(server = &*self.name, "`{method}` is for a subscription that has ended");
        }
        self.events.on_message(method, raw_params);
        match method {
            "notifications/progress" => self.progressed(&params),
            "notifications/tools/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/prompts/list_changed" => {
                self.events.on_event(ConnectionEvent::ListChanged)
            }
            "notifications/resources/updated" => {
                if let Some(uri) = params.get_text("uri") {
                    self.events.on_event(ConnectionEvent::ResourceUpdated { uri });
                }
            }
            "notifications/subscriptions/acknowledged" => {
                if let Some(id) = subscription.or(own) {
                    self.calls.accept(id, raw_params.to_owned());
                }
            }
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId") {
                    self.calls.withdraw(id.get());
                }
            }
            _ => self.relay(method, raw_params, own),
        }
    }

    /// Gives progress its client's own token back.
    fn progressed(&self, params: &RawObject<'_>) {
        let id = params.get("progressToken").and_then(message::number);
        let Some(asker) = id.and_then(|id| self.calls.asker(id)) else { return };
        let Some(token) = asker.token.as_deref() else { return };
        let mut params = params.clone();
        params.set("progressToken", std::borrow::Cow::Borrowed(token));
        let method = "notifications/progress".to_owned();
        asker.client.notify(Notification { method, params: params.to_raw() });
    }

    /// Passes on what is none of our business: to the request it came with, else to the only one.
    fn relay(&self, method: &str, params: &RawValue, own: Option<u64>) {
        let asker = own.and_then(|id| self.calls.asker(id)).or_else(|| self.calls.only());
        let (method, params) = (method.to_owned(), params.to_owned());
        match asker {
            Some(asker) => asker.client.notify(Notification { method, params }),
            None if method == "notifications/message" => {
                self.events.on_event(ConnectionEvent::Log { params });
            }
            None => debug!(server = &*self.name, "`{method}` is for nobody"),
        }
    }

    fn asked(
        self: &Arc<Self>,
        id: &RawValue,
        method: &str,
        params: Option<&RawValue>,
        own: Option<u64>,
        outlet: &Arc<dyn Outlet>,
    ) {
        let (owner, asker) = match self.judge(method, params, own) {
            Ok(owner) => owner,
            Err(answer) => return self.reply(message::reply(id, &answer), outlet),
        };
        let params = params.map_or_else(|| RawObject::new().to_raw(), ToOwned::to_owned);
        let question = InputRequest { method: method.to_owned(), params };
        let (id, outlet, name) = (id.to_owned(), Arc::clone(outlet), Arc::clone(&self.name));
        let key = id.get().to_owned();
        let task = self.tasks.spawn(async move {
            let answer = asker.client.request_input(question).await.map_err(not_answered);
            if let Err(failure) = outlet.send(message::reply(&id, &answer)).await {
                debug!(server = &*name, "an answer did not reach it: {failure}");
            }
        });
        self.calls.asks(owner, key, task.abort_handle());
    }

    /// Who is to be asked, or what is answered at once.
    fn judge(
        &self,
        method: &str,
        params: Option<&RawValue>,
        own: Option<u64>,
    ) -> Result<(u64, Arc<Asker>), Answer> {
        let capability = match method {
            "ping" => return Err(Ok(RawObject::new().to_raw())),
            "sampling/createMessage" => "sampling",
            "elicitation/create" if is_by_url(params) => "elicitation.url",
            "elicitation/create" => "elicitation",
            "roots/list" => "roots",
            _ => {
                let message = format!("Method not found: {method}");
                return Err(Err(RpcError::new(code::METHOD_NOT_FOUND, message)));
            }
        };
        let declares = |asker: &Asker| declares(&*asker.client, capability);
        let own = own.and_then(|id| Some(Owner::One(id, self.calls.asker(id)?)));
        match own.unwrap_or_else(|| self.calls.owner(declares)) {
            Owner::One(id, asker) if declares(&asker) => Ok((id, asker)),
            // A server may want to know the roots whenever it likes; that no call of someone who has
            // none can answer is no reason to end the call.
            Owner::One(..) if capability == "roots" => Err(Ok(no_roots())),
            Owner::One(_, asker) => {
                asker.client.missing_capability(capability);
                let capability = capability.to_owned();
                Err(Err(not_answered(InputError::NotDeclared { capability })))
            }
            // The gateway itself has no roots.
            Owner::Nobody if capability == "roots" => Err(Ok(no_roots())),
            Owner::Nobody => {
                let message = "there is no request that this belongs to";
                Err(Err(RpcError::new(code::INTERNAL_ERROR, message)))
            }
            Owner::Unclear => {
                let message = "cannot tell whose request this belongs to";
                Err(Err(RpcError::new(code::INTERNAL_ERROR, message)))
            }
        }
    }

    fn reply(&self, line: Vec<u8>, outlet: &Arc<dyn Outlet>) {
        let outlet = Arc::clone(outlet);
        self.tasks.spawn(async move { drop(outlet.send(line).await) });
    }
}

/// Whether an elicitation sends the user to a page.
fn is_by_url(params: Option<&RawValue>) -> bool {
    let params = params.and_then(RawObject::parse).unwrap_or_default();
    params.get_text("mode").as_deref() == Some("url")
}

/// Whether a client said that it can do something; a dot leads one level down.
fn declares(client: &dyn ClientHandle, capability: &str) -> bool {
    can(&client.capabilities(), capability)
}

fn no_roots() -> Raw {
    let mut roots = RawObject::new();
    roots.set_value("roots", &[(); 0]);
    roots.to_raw()
}

fn not_answered(error: InputError) -> RpcError {
    match error {
        InputError::Refused { code, message, data } => RpcError { code, message, data },
        InputError::NotDeclared { .. } => RpcError::new(code::METHOD_NOT_FOUND, error.to_string()),
        InputError::Disconnected => RpcError::new(code::INTERNAL_ERROR, error.to_string()),
    }
}

/// A request under way. Dropped before its answer it is taken back.
#[derive(Debug)]
pub(super) struct Ticket {
    pub(super) id: u64,
    inbox: Arc<Inbox>,
    /// How it is taken back, where the end of its stream does not say it.
    cancel: Option<Arc<dyn Outlet>>,
}

impl Ticket {
    pub(super) fn new(
        inbox: &Arc<Inbox>,
        flight: Flight,
        cancel: Option<Arc<dyn Outlet>>,
    ) -> Result<Self, Failure> {
        Ok(Self { id: inbox.calls.begin(flight)?, inbox: Arc::clone(inbox), cancel })
    }

    /// It needs no taking back any more.
    pub(super) fn done(&mut self) {
        self.cancel = None;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.inbox.calls.end(self.id);
        let Some(outlet) = self.cancel.take() else { return };
        if self.inbox.calls.closed().is_some() {
            return;
        }
        // Without a runtime the connection is ending anyway.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let line = message::cancelled(self.id);
        self.inbox.tasks.spawn_on(async move { drop(outlet.send(line).await) }, &runtime);
    }
}
