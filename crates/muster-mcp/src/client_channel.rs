//! The channel to the client of one request: notifications, and input requests of the legacy era.

use std::{
    borrow::Cow,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use muster_core::{
    backend::BoxFuture,
    client::{
        CallCounter, ClientHandle, ClientSession, InputError, InputMode, InputRequest, Notification,
    },
    connect::ProtocolEra,
    json::{Raw, RawObject},
    lock::Lock,
    protocol_request::{Network, ProtocolRequest, id_text},
};
use tokio::sync::mpsc;

use crate::{
    input_requests::{is_declared, required_capability},
    log_level::LogLevel,
    session::LegacySession,
    wire::notification_line,
};

/// The capacity of the queue to a client. When it is full, responses wait and notifications are dropped.
pub(crate) const QUEUE: usize = 1024;

/// The client of one request.
#[derive(Debug)]
pub(crate) struct ClientChannel {
    client: ClientState,
    outbox: Outbox,
    envelope: Envelope,
    /// Counts further calls of the request, if calls are limited.
    calls: Option<Arc<dyn CallCounter>>,
}

/// What a request says about itself, apart from its method and parameters.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// Its id.
    pub(crate) id: Raw,
    /// The protocol version that it names; `None` for that of the session.
    pub(crate) version: Option<&'static str>,
    /// The connection that it arrived on.
    pub(crate) network: Network,
}

/// The state of the client.
#[derive(Debug)]
pub(crate) enum ClientState {
    /// The session of a legacy client.
    Legacy(Arc<LegacySession>),
    /// The state that the request of a modern client carries.
    Modern {
        /// Its capabilities.
        capabilities: Raw,
        /// The least severe log message it wants; `None` if it wants none.
        log_level: Option<LogLevel>,
    },
}

/// The destination of messages that precede the response, as lines.
#[derive(Debug)]
pub(crate) enum Outbox {
    /// Nowhere: the client accepts only the response.
    None,
    /// To the queue of the client's connection.
    Shared(mpsc::Sender<Vec<u8>>),
    /// To a queue of this request. Most requests send nothing before their response, so the queue is
    /// created by the first message.
    Lazy(Lock<LazyQueue>),
}

#[derive(Debug)]
pub(crate) enum LazyQueue {
    /// No message yet: the task to wake for the first one.
    Unopened(Option<Waker>),
    Open {
        sender: mpsc::Sender<Vec<u8>>,
        /// Until the [`Mailbox`] takes it.
        receiver: Option<mpsc::Receiver<Vec<u8>>>,
    },
    /// The client is gone.
    Closed,
}

impl Outbox {
    /// A queue that the first message creates.
    pub(crate) const fn lazy() -> Self {
        Self::Lazy(Lock::new(LazyQueue::Unopened(None)))
    }

    /// The queue, created if necessary; `None` if the client cannot be reached.
    fn sender(&self) -> Option<mpsc::Sender<Vec<u8>>> {
        let queue = match self {
            Self::None => return None,
            Self::Shared(sender) => return Some(sender.clone()),
            Self::Lazy(queue) => queue,
        };
        let mut queue = queue.lock();
        match &mut *queue {
            LazyQueue::Closed => None,
            LazyQueue::Open { sender, .. } => Some(sender.clone()),
            LazyQueue::Unopened(waker) => {
                let waker = waker.take();
                let (sender, receiver) = mpsc::channel(QUEUE);
                *queue = LazyQueue::Open { sender: sender.clone(), receiver: Some(receiver) };
                drop(queue);
                if let Some(waker) = waker {
                    waker.wake();
                }
                Some(sender)
            }
        }
    }
}

impl ClientChannel {
    pub(crate) const fn new(client: ClientState, outbox: Outbox, envelope: Envelope) -> Self {
        Self { client, outbox, envelope, calls: None }
    }

    /// Sets the counter of a request whose calls are limited.
    pub(crate) fn counting(mut self, calls: Option<Arc<dyn CallCounter>>) -> Self {
        self.calls = calls;
        self
    }

    pub(crate) const fn session(&self) -> Option<&Arc<LegacySession>> {
        match &self.client {
            ClientState::Legacy(session) => Some(session),
            ClientState::Modern { .. } => None,
        }
    }

    /// Sends a line that must not be lost; `false` if the client is gone.
    pub(crate) async fn send(&self, line: Vec<u8>) -> bool {
        match self.outbox.sender() {
            Some(sender) => sender.send(line).await.is_ok(),
            None => false,
        }
    }

    /// Whether the client wants a notification: log messages only at its level or above.
    fn wants(&self, notification: &Notification) -> bool {
        if notification.method != "notifications/message" {
            return true;
        }
        let threshold = match &self.client {
            ClientState::Legacy(session) => Some(session.log_level()),
            ClientState::Modern { log_level, .. } => *log_level,
        };
        let level = RawObject::parse(&notification.params)
            .and_then(|params| params.get_text("level"))
            .and_then(|name| LogLevel::from_name(&name));
        // An unknown level counts as the least severe.
        threshold.is_some_and(|threshold| level.unwrap_or(LogLevel::DEBUG) >= threshold)
    }
}

impl ClientHandle for ClientChannel {
    fn capabilities(&self) -> Raw {
        match &self.client {
            ClientState::Legacy(session) => session.capabilities(),
            ClientState::Modern { capabilities, .. } => capabilities.clone(),
        }
    }

    fn input_mode(&self) -> InputMode {
        match (&self.client, &self.outbox) {
            (ClientState::Modern { .. }, _) => InputMode::InResult,
            (ClientState::Legacy(_), Outbox::None) => InputMode::Unsupported,
            (ClientState::Legacy(_), Outbox::Shared(_) | Outbox::Lazy(_)) => InputMode::Direct,
        }
    }

    fn era(&self) -> Option<ProtocolEra> {
        Some(match &self.client {
            ClientState::Legacy(_) => ProtocolEra::Legacy,
            ClientState::Modern { .. } => ProtocolEra::Modern,
        })
    }

    fn protocol_request(&self) -> Option<ProtocolRequest> {
        let Envelope { id, version, network } = &self.envelope;
        let of_session = || self.session().and_then(|session| session.version());
        Some(ProtocolRequest {
            id: id_text(id),
            version: version.or_else(of_session).map(Cow::Borrowed),
            network: *network,
            server: None,
        })
    }

    fn client_session(&self) -> Option<Arc<dyn ClientSession>> {
        let session = self.session().filter(|session| session.has_queue())?;
        Some(Arc::clone(session) as Arc<dyn ClientSession>)
    }

    fn notify(&self, notification: Notification) {
        if !self.wants(&notification) {
            return;
        }
        let Some(sender) = self.outbox.sender() else { return };
        let line = notification_line(&notification.method, Some(&notification.params));
        if sender.try_send(line).is_err() {
            tracing::debug!("{} was dropped", notification.method);
        }
    }

    fn call_counter(&self) -> Option<Arc<dyn CallCounter>> {
        self.calls.clone()
    }

    fn request_input(&self, request: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(async move {
            let ClientState::Legacy(session) = &self.client else {
                return Err(InputError::Disconnected);
            };
            if let Some(capability) = required_capability(&request.method)
                && !is_declared(&session.capabilities(), capability)
            {
                return Err(InputError::NotDeclared { capability: capability.to_owned() });
            }
            let sender = self.outbox.sender().ok_or(InputError::Disconnected)?;
            session.input_requests.send(&sender, &request.method, &request.params).await
        })
    }
}

/// The receiving end of a lazy queue. Once it is dropped, senders see that the client is gone.
#[derive(Debug)]
pub(crate) struct Mailbox {
    channel: Arc<ClientChannel>,
    receiver: Option<mpsc::Receiver<Vec<u8>>>,
}

impl Mailbox {
    pub(crate) const fn new(channel: Arc<ClientChannel>) -> Self {
        Self { channel, receiver: None }
    }

    /// The next line. Never ends by itself.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        match self.receiver(Some(cx)) {
            Some(receiver) => receiver.poll_recv(cx),
            None => Poll::Pending,
        }
    }

    /// The next line, if it has arrived.
    pub(crate) fn try_next(&mut self) -> Option<Vec<u8>> {
        self.receiver(None)?.try_recv().ok()
    }

    /// Returns the queue, once a message has created it. Until then, the task of `cx` is registered to be woken.
    fn receiver(&mut self, cx: Option<&Context<'_>>) -> Option<&mut mpsc::Receiver<Vec<u8>>> {
        if self.receiver.is_none()
            && let Outbox::Lazy(queue) = &self.channel.outbox
        {
            match (&mut *queue.lock(), cx) {
                (LazyQueue::Open { receiver, .. }, _) => self.receiver = receiver.take(),
                (LazyQueue::Unopened(Some(waker)), Some(cx)) => waker.clone_from(cx.waker()),
                (LazyQueue::Unopened(waker), Some(cx)) => *waker = Some(cx.waker().clone()),
                (LazyQueue::Unopened(_), None) | (LazyQueue::Closed, _) => (),
            }
        }
        self.receiver.as_mut()
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if let Outbox::Lazy(queue) = &self.channel.outbox {
            *queue.lock() = LazyQueue::Closed;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        task::{Context, Poll, Waker},
    };

    use muster_core::{
        client::{ClientHandle as _, Notification},
        json::{RawObject, raw},
        protocol_request::Network,
    };

    use super::{ClientChannel, ClientState, Envelope, LazyQueue, Mailbox, Outbox};

    fn channel() -> Arc<ClientChannel> {
        let capabilities = RawObject::new().to_raw();
        let client = ClientState::Modern { capabilities, log_level: None };
        let envelope = Envelope { id: raw(&1), version: None, network: Network::Http };
        Arc::new(ClientChannel::new(client, Outbox::lazy(), envelope))
    }

    fn notification(method: &str) -> Notification {
        Notification { method: method.to_owned(), params: RawObject::new().to_raw() }
    }

    fn is_unopened(channel: &ClientChannel) -> bool {
        let Outbox::Lazy(queue) = &channel.outbox else { return false };
        matches!(*queue.lock(), LazyQueue::Unopened(_))
    }

    #[test]
    fn the_first_message_creates_the_queue() {
        let channel = channel();
        let mut mailbox = Mailbox::new(Arc::clone(&channel));
        let cx = &mut Context::from_waker(Waker::noop());
        assert!(mailbox.poll_next(cx).is_pending());
        // Log messages were not requested, and do not create it either.
        channel.notify(notification("notifications/message"));
        assert!(is_unopened(&channel));
        channel.notify(notification("notifications/progress"));
        channel.notify(notification("notifications/progress"));
        let Poll::Ready(Some(line)) = mailbox.poll_next(cx) else { panic!("a line has arrived") };
        assert!(String::from_utf8(line).unwrap().contains("notifications/progress"));
        assert!(mailbox.try_next().is_some());
        assert!(mailbox.try_next().is_none() && mailbox.poll_next(cx).is_pending());
    }

    #[tokio::test]
    async fn nothing_is_sent_to_a_client_that_is_gone() {
        let channel = channel();
        drop(Mailbox::new(Arc::clone(&channel)));
        assert!(!channel.send(b"{}\n".to_vec()).await);
    }
}
