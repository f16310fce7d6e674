//! One client on a pair of pipes: a message a line, both ways.
//!
//! Requests run side by side and are answered as they finish. When the client closes its end, what is
//! still running is answered before we go; when it no longer listens, what is running is cancelled.

mod ends;
mod lines;

use std::{collections::BTreeMap, io, sync::Arc};

use muster_core::{call::Caller, json::Object};
use serde_json::value::RawValue;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, Id, JoinError, JoinSet},
};

pub use self::ends::{Input, Output};
use self::lines::{Line, Lines};
use crate::{
    server::Server,
    wire::{Message, RpcError, code, error_line},
};

/// Answers waiting for a client that reads slowly. When it is full, finished calls wait with their
/// answers and the client's further requests are still read.
const ANSWERS_AHEAD: usize = 64;

/// Serves one client until it leaves.
pub async fn serve(server: Server, input: Input, output: Output) -> io::Result<()> {
    let (answers, waiting) = mpsc::channel(ANSWERS_AHEAD);
    let mut writer = JoinSet::new();
    writer.spawn(write(output, waiting));
    Pump { server: Arc::new(server), answers, running: Running::default() }.run(input).await?;
    match writer.join_next().await {
        Some(Ok(result)) => result,
        Some(Err(_)) | None => Ok(()),
    }
}

async fn write(mut output: Output, mut answers: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    loop {
        tokio::select! {
            biased;
            answer = answers.recv() => match answer {
                Some(answer) => output.write_all(&answer).await?,
                None => return Ok(()),
            },
            () = output.closed() => return Ok(()),
        }
    }
}

/// The requests being served.
#[derive(Default)]
struct Running {
    tasks: JoinSet<()>,
    /// By task, so that a panic can still be answered.
    ids: BTreeMap<Id, Box<RawValue>>,
    /// By the client's id, for cancellation.
    handles: BTreeMap<String, AbortHandle>,
}

struct Pump {
    server: Arc<Server>,
    answers: mpsc::Sender<Vec<u8>>,
    running: Running,
}

/// Everything that can happen on the connection.
enum Event {
    Line(Line),
    Ended(Result<(Id, ()), JoinError>),
    ClientGone,
}

impl Pump {
    async fn run(mut self, input: Input) -> io::Result<()> {
        let mut lines = Lines::new(input);
        let mut reading = true;
        while reading || !self.running.tasks.is_empty() {
            let event = tokio::select! {
                line = lines.next(), if reading => Event::Line(line?),
                Some(ended) = self.running.tasks.join_next_with_id() => Event::Ended(ended),
                () = self.answers.closed() => Event::ClientGone,
            };
            match event {
                Event::Line(Line::Text(text)) => self.take(&text).await,
                Event::Line(Line::TooLong) => self.refuse_long_line().await,
                Event::Line(Line::End) => reading = false,
                Event::Ended(ended) => self.ended(ended).await,
                Event::ClientGone => {
                    self.running.tasks.shutdown().await;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    async fn take(&mut self, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match Message::parse(text) {
            Ok(Message::Request { id, method, params }) => self.start(id, &method, params),
            Ok(Message::Notification { method, params }) => self.notice(&method, params),
            Ok(Message::Response) => tracing::debug!("answer to no question of ours"),
            Err(malformed) => {
                tracing::warn!("{malformed}");
                self.send(error_line(None, &RpcError::from(&malformed))).await;
            }
        }
    }

    fn start(&mut self, id: &RawValue, method: &str, params: Option<&RawValue>) {
        let (server, answers) = (Arc::clone(&self.server), self.answers.clone());
        let (method, params) = (method.to_owned(), params.map(ToOwned::to_owned));
        let request_id = id.to_owned();
        let handle = self.running.tasks.spawn(async move {
            let caller = Caller::local();
            let answer = server.answer(&caller, &request_id, &method, params.as_deref()).await;
            // A client that left needs no answer.
            drop(answers.send(answer).await);
        });
        self.running.ids.insert(handle.id(), id.to_owned());
        self.running.handles.insert(id.get().to_owned(), handle);
    }

    fn notice(&mut self, method: &str, params: Option<&RawValue>) {
        if method != "notifications/cancelled" {
            return;
        }
        let params = params.and_then(Object::parse).unwrap_or_default();
        let Some(id) = params.get("requestId") else { return };
        if let Some(handle) = self.running.handles.get(id.get()) {
            handle.abort();
        }
    }

    async fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (task, panicked) = match &ended {
            Ok((task, ())) => (*task, false),
            Err(err) => (err.id(), err.is_panic()),
        };
        let Some(id) = self.running.ids.remove(&task) else { return };
        if self.running.handles.get(id.get()).is_some_and(|handle| handle.id() == task) {
            self.running.handles.remove(id.get());
        }
        if panicked {
            let error = RpcError::new(code::INTERNAL_ERROR, "Internal error: the request crashed");
            self.send(error_line(Some(&id), &error)).await;
        }
    }

    async fn refuse_long_line(&self) {
        let message = format!("Invalid Request: a message may have at most {} bytes", lines::LIMIT);
        self.send(error_line(None, &RpcError::new(code::INVALID_REQUEST, message))).await;
    }

    async fn send(&self, line: Vec<u8>) {
        // A client that left needs no answer.
        drop(self.answers.send(line).await);
    }
}
