//! The stdio transport: one client on a pair of pipes, one message per line.
//!
//! Requests run concurrently, and each response is sent when its request finishes. When the client closes its input,
//! pending requests still get their responses, but no input is requested any more; when it closes its output, they are
//! cancelled. At a shutdown of the gateway, it finishes pending requests, cuts off the rest, and answers each of them with an
//! error.

mod lines;
mod standard_streams;

use std::{collections::BTreeMap, io, sync::Arc};

use muster_core::{
    backend::boxed,
    call::{Caller, Owner},
    json::RawObject,
    request::ChangeStream,
};
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    lines::{LIMIT, Line, LineReader},
    standard_streams::{Input, Output},
};
use crate::{
    change_notifications,
    client_channel::{Outbox, QUEUE},
    http::{ANSWER_TIMEOUT, DrainOutcome},
    incoming::{IncomingRequest, ValidRequest},
    model::Method,
    reply_to::ReplyTo,
    server::Server,
    session::LegacySession,
    wire::{Message, RpcError, code, error_line},
};

/// The shutdown of the gateway, as the connection observes it.
#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// Cancelled when draining begins: no more messages are read, and pending requests may finish.
    pub drain: CancellationToken,
    /// Cancelled when the requests that are still pending are to be cut off.
    pub cut_off: CancellationToken,
}

/// Serves one client until it leaves. All its requests are those of `caller`.
pub async fn serve(server: Server, caller: Caller, input: Input, output: Output) -> io::Result<()> {
    serve_until(server, caller, (input, output), Shutdown::default()).await.map(drop)
}

/// Serves one client until it leaves or the gateway is shut down. All its requests are those of `caller`.
pub async fn serve_until(
    server: Server,
    caller: Caller,
    (input, output): (Input, Output),
    shutdown: Shutdown,
) -> io::Result<DrainOutcome> {
    let (out, lines) = mpsc::channel(QUEUE);
    let finished = CancellationToken::new();
    let mut writer = JoinSet::new();
    writer.spawn(boxed(write(output, lines, finished.clone())));
    let served = StdioSession::new(server, caller, out, shutdown.clone()).run(input).await;
    finished.cancel();
    // A client that does not read must not delay a shutdown.
    let unread = async {
        shutdown.drain.cancelled().await;
        sleep(ANSWER_TIMEOUT).await;
    };
    let written = tokio::select! {
        written = writer.join_next() => written,
        () = unread => None,
    };
    let outcome = served?;
    match written {
        Some(Ok(result)) => result.map(|()| outcome),
        Some(Err(_)) | None => Ok(outcome),
    }
}

/// Writes queued lines until the client is gone. Once `finished`, it writes the queued lines and stops, even if there
/// are senders left.
async fn write(
    mut output: Output,
    mut lines: mpsc::Receiver<Vec<u8>>,
    finished: CancellationToken,
) -> io::Result<()> {
    loop {
        tokio::select! {
            biased;
            line = lines.recv() => match line {
                Some(line) => output.write_all(&line).await?,
                None => return Ok(()),
            },
            () = finished.cancelled(), if !lines.is_closed() => lines.close(),
            () = output.closed() => return Ok(()),
        }
    }
}

/// The pending requests.
#[derive(Default)]
struct PendingRequests {
    tasks: JoinSet<()>,
    /// By task, to find a request when its task ends.
    by_task: BTreeMap<Id, ReplyTo>,
    /// By the client's id, for cancellation.
    handles: BTreeMap<String, AbortHandle>,
}

/// The connection to one client.
struct StdioSession {
    server: Server,
    caller: Arc<Caller>,
    out: mpsc::Sender<Vec<u8>>,
    requests: PendingRequests,
    /// The session, if the client is a legacy one.
    session: Arc<LegacySession>,
    /// Changes since `initialize`, until the client is initialized.
    changes: Option<Box<dyn ChangeStream>>,
    notifier: JoinSet<()>,
    /// Cancelled when no more messages are read: requests that have no end of their own end.
    input_ended: CancellationToken,
    shutdown: Shutdown,
}

/// An event of the connection.
enum Event {
    Line(Line),
    RequestEnded(Result<(Id, ()), JoinError>),
    ClientGone,
    Drain,
    CutOff,
}

impl StdioSession {
    fn new(server: Server, caller: Caller, out: mpsc::Sender<Vec<u8>>, shutdown: Shutdown) -> Self {
        Self {
            server,
            caller: Arc::new(caller),
            session: Arc::new(LegacySession::with_queue(&out)),
            out,
            requests: PendingRequests::default(),
            changes: None,
            notifier: JoinSet::new(),
            input_ended: CancellationToken::new(),
            shutdown,
        }
    }

    async fn run(mut self, input: Input) -> io::Result<DrainOutcome> {
        let Shutdown { drain, cut_off } = self.shutdown.clone();
        let mut lines = LineReader::new(input);
        let (mut reading, mut outcome) = (true, DrainOutcome::Finished);
        while reading || !self.requests.tasks.is_empty() {
            let event = tokio::select! {
                line = lines.next(), if reading => Event::Line(line?),
                Some(ended) = self.requests.tasks.join_next_with_id() => Event::RequestEnded(ended),
                () = self.out.closed() => Event::ClientGone,
                () = drain.cancelled(), if reading => Event::Drain,
                () = cut_off.cancelled() => Event::CutOff,
            };
            match event {
                Event::Line(Line::Text(text)) => self.handle(&text).await,
                Event::Line(Line::TooLong) => send(&self.out, oversized_line()).await,
                // While draining, the responses to input requests are not read any more either.
                Event::Line(Line::End) | Event::Drain => {
                    reading = false;
                    self.input_ended.cancel();
                    self.session.input_requests.close();
                }
                Event::RequestEnded(ended) => drop(self.request_ended(&ended)),
                Event::ClientGone => {
                    self.requests.tasks.shutdown().await;
                    break;
                }
                Event::CutOff => {
                    outcome = DrainOutcome::CutOff;
                    drop(timeout(ANSWER_TIMEOUT, self.cut_off_requests()).await);
                    break;
                }
            }
        }
        self.server.unsubscribe(&self.caller, self.session.unsubscribe_all());
        self.server.unsubscribed().await;
        Ok(outcome)
    }

    /// Aborts the pending requests, and answers each with an error.
    async fn cut_off_requests(&mut self) {
        tracing::warn!("some requests did not finish in time and are cut off");
        self.requests.tasks.abort_all();
        while let Some(ended) = self.requests.tasks.join_next_with_id().await {
            if let Some(reply_to) = self.request_ended(&ended)
                && ended.is_err()
            {
                send(&self.out, reply_to.cut_off().to_line()).await;
            }
        }
    }

    async fn handle(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match Message::parse(text) {
            Ok(Message::Request { id, method, params }) => {
                let incoming = IncomingRequest { id, method: &method, params, headers: None };
                match incoming.validate() {
                    Ok(request) => self.start(request),
                    Err(response) => send(&self.out, response.to_line()).await,
                }
            }
            Ok(Message::Notification { method, params }) => self.notified(&method, params),
            Ok(Message::Response { id, outcome }) => {
                if !self.session.input_requests.complete(id, outcome) {
                    tracing::debug!("a response to no pending input request");
                }
            }
            Err(malformed) => {
                tracing::warn!("{malformed}");
                send(&self.out, error_line(None, &RpcError::from(&malformed))).await;
            }
        }
    }

    fn start(&mut self, mut request: ValidRequest) {
        if request.method == Method::Initialize {
            self.changes = Some(self.server.changes());
        }
        let reply_to = ReplyTo::of(&request);
        let outbox = Outbox::Shared(self.out.clone());
        let channel = Arc::new(request.channel(Some(&self.session), outbox));
        let (server, caller) = (self.server.clone(), Arc::clone(&self.caller));
        let (out, input_ended) = (self.out.clone(), self.input_ended.clone());
        let handle = self.requests.tasks.spawn(async move {
            let response = server.serve(&caller, channel, &input_ended, request).await;
            send(&out, response.to_line()).await;
        });
        self.requests.handles.insert(reply_to.id.get().to_owned(), handle.clone());
        self.requests.by_task.insert(handle.id(), reply_to);
    }

    fn notified(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => {
                let params = params.and_then(RawObject::parse).unwrap_or_default();
                let Some(id) = params.get("requestId") else { return };
                if let Some(handle) = self.requests.handles.get(id.get()) {
                    handle.abort();
                }
            }
            "notifications/initialized" => {
                let Some(changes) = self.changes.take() else { return };
                self.notifier.abort_all();
                let (session, out) = (Arc::clone(&self.session), self.out.clone());
                let owner = self.caller.owner();
                self.notifier.spawn(boxed(notify_changes(changes, owner, session, out)));
            }
            _ => (),
        }
    }

    /// Forgets a request whose task has ended, and returns it.
    fn request_ended(&mut self, ended: &Result<(Id, ()), JoinError>) -> Option<ReplyTo> {
        let task = match ended {
            Ok((task, ())) => *task,
            Err(err) => err.id(),
        };
        let request = self.requests.by_task.remove(&task)?;
        let id = request.id.get();
        if self.requests.handles.get(id).is_some_and(|handle| handle.id() == task) {
            self.requests.handles.remove(id);
        }
        Some(request)
    }
}

fn oversized_line() -> Vec<u8> {
    let message = format!("Invalid Request: a message may have at most {LIMIT} bytes");
    error_line(None, &RpcError::new(code::INVALID_REQUEST, message))
}

async fn send(out: &mpsc::Sender<Vec<u8>>, line: Vec<u8>) {
    // The client may be gone.
    drop(out.send(line).await);
}

/// Notifies a legacy client of changes.
async fn notify_changes(
    mut changes: Box<dyn ChangeStream>,
    owner: Owner,
    session: Arc<LegacySession>,
    out: mpsc::Sender<Vec<u8>>,
) {
    while let Some(change) = changes.next().await {
        let Some(change) = change.visible_to(&owner) else { continue };
        if session.is_notified_of(change)
            && out.send(change_notifications::line(change)).await.is_err()
        {
            return;
        }
    }
}
