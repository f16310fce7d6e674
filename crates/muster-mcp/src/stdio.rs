//! One client on a pair of pipes: a message a line, both ways.
//!
//! Requests run side by side and are answered as they finish. When the client closes its end, what is
//! still running is answered before we go, but nothing is asked any more; when it no longer listens,
//! what is running is cancelled.

mod ends;
mod lines;

use std::{collections::BTreeMap, io, sync::Arc};

use muster_core::{
    call::Caller,
    client::ClientHandle,
    json::{Raw, RawObject},
    request::ChangeStream,
};
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, Id, JoinError, JoinSet},
};
use tokio_util::sync::CancellationToken;

pub use self::{
    ends::{Input, Output},
    lines::{LIMIT, Line, Lines},
};
use crate::{
    back::AHEAD,
    incoming::{Incoming, Prepared},
    listen,
    model::Method,
    server::{At, Server},
    session::Session,
    wire::{Message, RpcError, code, error_line},
};

/// Serves one client until it leaves.
pub async fn serve(server: Server, input: Input, output: Output) -> io::Result<()> {
    let (out, waiting) = mpsc::channel(AHEAD);
    let over = CancellationToken::new();
    let mut writer = JoinSet::new();
    writer.spawn(write(output, waiting, over.clone()));
    let served = Pump::new(server, out).run(input).await;
    over.cancel();
    let written = writer.join_next().await;
    served?;
    match written {
        Some(Ok(result)) => result,
        Some(Err(_)) | None => Ok(()),
    }
}

/// Writes what there is to say. When all is over, what was said before is still written; what someone
/// still holds a sender for is not waited for.
async fn write(
    mut output: Output,
    mut waiting: mpsc::Receiver<Vec<u8>>,
    over: CancellationToken,
) -> io::Result<()> {
    loop {
        tokio::select! {
            biased;
            line = waiting.recv() => match line {
                Some(line) => output.write_all(&line).await?,
                None => return Ok(()),
            },
            () = over.cancelled(), if !waiting.is_closed() => waiting.close(),
            () = output.closed() => return Ok(()),
        }
    }
}

/// The requests being served.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    /// By task, to find the handle when it ends.
    ids: BTreeMap<Id, Raw>,
    /// By the client's id, for cancellation.
    handles: BTreeMap<String, AbortHandle>,
}

struct Pump {
    server: Server,
    out: mpsc::Sender<Vec<u8>>,
    running: Running,
    /// What the client has settled, should it be a legacy one.
    session: Arc<Session>,
    /// Changes since `initialize`, until the client is ready to hear of them.
    changes: Option<Box<dyn ChangeStream>>,
    announcing: JoinSet<()>,
    leaving: CancellationToken,
}

/// Everything that can happen on the connection.
enum Event {
    Line(Line),
    Ended(Result<(Id, ()), JoinError>),
    ClientGone,
}

impl Pump {
    fn new(server: Server, out: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            server,
            out,
            running: Running::default(),
            session: Arc::new(Session::new()),
            changes: None,
            announcing: JoinSet::new(),
            leaving: CancellationToken::new(),
        }
    }

    async fn run(mut self, input: Input) -> io::Result<()> {
        let mut lines = Lines::new(input);
        let mut reading = true;
        while reading || !self.running.tasks.is_empty() {
            let event = tokio::select! {
                line = lines.next(), if reading => Event::Line(line?),
                Some(ended) = self.running.tasks.join_next_with_id() => Event::Ended(ended),
                () = self.out.closed() => Event::ClientGone,
            };
            match event {
                Event::Line(Line::Text(text)) => self.take(&text).await,
                Event::Line(Line::TooLong) => send(&self.out, long_line()).await,
                Event::Line(Line::End) => {
                    reading = false;
                    self.leaving.cancel();
                    self.session.questions.close();
                }
                Event::Ended(ended) => self.ended(&ended),
                Event::ClientGone => {
                    self.running.tasks.shutdown().await;
                    break;
                }
            }
        }
        self.server.unwatch(&Caller::local(), self.session.unwatch_all());
        self.server.settled().await;
        Ok(())
    }

    async fn take(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match Message::parse(text) {
            Ok(Message::Request { id, method, params }) => {
                let incoming = Incoming { id, method: &method, params, headers: None };
                match incoming.prepare() {
                    Ok(prepared) => self.start(prepared),
                    Err(answer) => send(&self.out, answer.to_line()).await,
                }
            }
            Ok(Message::Notification { method, params }) => self.notice(&method, params),
            Ok(Message::Response { id, outcome }) => {
                if !self.session.questions.answered(id, outcome) {
                    tracing::debug!("answer to no question of ours");
                }
            }
            Err(malformed) => {
                tracing::warn!("{malformed}");
                send(&self.out, error_line(None, &RpcError::from(&malformed))).await;
            }
        }
    }

    fn start(&mut self, mut prepared: Prepared) {
        if prepared.method == Method::Initialize {
            self.changes = Some(self.server.changes());
        }
        let id = prepared.id.clone();
        let back = Arc::new(prepared.back(Some(&self.session), Some(self.out.clone())));
        let (server, out, leaving) = (self.server.clone(), self.out.clone(), self.leaving.clone());
        let handle = self.running.tasks.spawn(async move {
            let client: Arc<dyn ClientHandle> = Arc::<crate::back::Back>::clone(&back);
            let caller = Caller::local();
            let at = At { caller: &caller, back: &back, client: &client, leaving: &leaving };
            let answer = server.answer(at, prepared).await;
            send(&out, answer.to_line()).await;
        });
        self.running.handles.insert(id.get().to_owned(), handle.clone());
        self.running.ids.insert(handle.id(), id);
    }

    fn notice(&mut self, method: &str, params: Option<&RawValue>) {
        match method {
            "notifications/cancelled" => {
                let params = params.and_then(RawObject::parse).unwrap_or_default();
                let Some(id) = params.get("requestId") else { return };
                if let Some(handle) = self.running.handles.get(id.get()) {
                    handle.abort();
                }
            }
            "notifications/initialized" => {
                let Some(changes) = self.changes.take() else { return };
                self.announcing.abort_all();
                let (session, out) = (Arc::clone(&self.session), self.out.clone());
                self.announcing.spawn(announce(changes, session, out));
            }
            _ => (),
        }
    }

    fn ended(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => *task,
            Err(err) => err.id(),
        };
        let Some(id) = self.running.ids.remove(&task) else { return };
        if self.running.handles.get(id.get()).is_some_and(|handle| handle.id() == task) {
            self.running.handles.remove(id.get());
        }
    }
}

fn long_line() -> Vec<u8> {
    let message = format!("Invalid Request: a message may have at most {} bytes", LIMIT);
    error_line(None, &RpcError::new(code::INVALID_REQUEST, message))
}

async fn send(out: &mpsc::Sender<Vec<u8>>, line: Vec<u8>) {
    // A client that left needs no answer.
    drop(out.send(line).await);
}

/// Tells a legacy client of changes.
async fn announce(
    mut changes: Box<dyn ChangeStream>,
    session: Arc<Session>,
    out: mpsc::Sender<Vec<u8>>,
) {
    let owner = Caller::local().owner();
    while let Some(change) = changes.next().await {
        let Some(change) = change.visible_to(&owner) else { continue };
        if session.hears(change) && out.send(listen::line(change)).await.is_err() {
            return;
        }
    }
}
