//! A client on a pair of pipes, carried to a server behind streamable HTTP.
//!
//! Messages of both eras pass both ways as they are written; only what HTTP adds is added and taken
//! off here: headers, the session, the stream of what a legacy server says unasked.
//!
//! A server that went away is waited for. A request of which nothing was sent is sent when the server
//! is back, and so is one that cannot have had an effect. Any other is answered with an error that says
//! so: nothing is done twice. A legacy server that does not know the session any more is introduced
//! to with the client's own words.
//!
//! A server that wants a login which only a person can do is not waited for: meanwhile the client is
//! served by whoever offers that login.

mod asked;
mod far;
mod gate;
mod login;
mod questions;
mod session;
mod standing;
mod trouble;

use std::{
    collections::BTreeMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use muster_core::request::RequestHandler;
use muster_mcp::{
    stdio::{Input, LIMIT, Line, Lines, Output},
    version::Era,
    wire::{Message, RpcError, code, error_line},
};
use serde_json::value::RawValue;
use thiserror::Error;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, Id, JoinError, JoinSet},
    time::timeout,
};
use tokio_util::task::TaskTracker;

pub use self::login::{Login, NoLogin, Renewal};
use self::{
    asked::{Asked, Effect},
    far::Far,
};
use super::{address::Address, dial::Dialer, pool::Pool};

/// Messages waiting for a client that reads slowly.
const AHEAD: usize = 1024;
/// How long the end of the session may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where a bridge leads, and how.
#[derive(Debug)]
pub struct Options {
    /// The address of the server.
    pub url: String,
    /// How to show who the client is.
    pub login: Arc<dyn Login>,
    /// Who serves the client while a person has to log in.
    pub meanwhile: Option<Arc<dyn RequestHandler>>,
    /// How long a server that cannot be reached is waited for.
    pub patience: Duration,
}

impl Options {
    /// A bridge to `url` that never logs in.
    pub fn new(url: impl Into<String>) -> Self {
        let login = Arc::new(NoLogin);
        Self { url: url.into(), login, meanwhile: None, patience: Duration::from_secs(15) }
    }
}

/// Why there is no bridge.
#[derive(Debug, Error)]
pub enum BridgeError {
    /// The address is none.
    #[error("`{url}` is no address of a server: {reason}")]
    Address {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The client cannot be read from or written to.
    #[error("the connection to the client failed: {0}")]
    Client(#[from] io::Error),
}

/// Carries one client until it leaves, or until `stop`.
pub async fn serve(
    options: Options,
    input: Input,
    output: Output,
    stop: impl Future<Output = ()>,
) -> Result<(), BridgeError> {
    let address = Address::parse(&options.url).map_err(|failure| BridgeError::Address {
        url: options.url.clone(),
        reason: failure.to_string(),
    })?;
    let (out, waiting) = mpsc::channel(AHEAD);
    let tasks = TaskTracker::new();
    let dialer = Arc::new(Dialer::new(tasks.clone()));
    let pool = Pool::new(dialer, address, http::HeaderMap::new(), None);
    let far = Arc::new(Far::new(pool, options, out.clone()));
    let mut writer = JoinSet::new();
    writer.spawn(write(output, waiting));
    let mut pump = Pump::new(Arc::clone(&far), out);
    let carried = tokio::select! {
        carried = pump.run(input) => carried,
        () = stop => Ok(()),
    };
    pump.end().await;
    // What could not be said in time is not waited for.
    drop(timeout(GOODBYE, far.close()).await);
    drop((pump, far));
    let written = writer.join_next().await;
    carried?;
    match written {
        Some(Ok(result)) => Ok(result?),
        Some(Err(_)) | None => Ok(()),
    }
}

/// Writes what there is to say, until nobody can say more or nobody listens.
async fn write(mut output: Output, mut waiting: mpsc::Receiver<Vec<u8>>) -> io::Result<()> {
    loop {
        tokio::select! {
            biased;
            line = waiting.recv() => match line {
                Some(line) => output.write_all(&line).await?,
                None => return Ok(()),
            },
            () = output.closed() => return Ok(()),
        }
    }
}

/// A request on its way.
struct Flight {
    handle: AbortHandle,
    era: Era,
    effect: Effect,
    withdrawn: Arc<AtomicBool>,
}

/// The client's side.
struct Pump {
    far: Arc<Far>,
    out: mpsc::Sender<Vec<u8>>,
    running: JoinSet<()>,
    /// By task, to find the flight when it ends.
    ids: BTreeMap<Id, String>,
    /// By the client's id, for cancellation.
    flights: BTreeMap<String, Flight>,
    standing: JoinSet<()>,
    keeping_gate: JoinSet<()>,
}

/// Everything that can happen on the client's side.
enum Event {
    Line(Line),
    Ended(Result<(Id, ()), JoinError>),
    ClientGone,
}

impl Pump {
    fn new(far: Arc<Far>, out: mpsc::Sender<Vec<u8>>) -> Self {
        let mut keeping_gate = JoinSet::new();
        keeping_gate.spawn(Arc::clone(&far).keep_gate());
        Self {
            far,
            out,
            running: JoinSet::new(),
            ids: BTreeMap::new(),
            flights: BTreeMap::new(),
            standing: JoinSet::new(),
            keeping_gate,
        }
    }

    async fn run(&mut self, input: Input) -> io::Result<()> {
        let mut lines = Lines::new(input);
        let mut reading = true;
        while reading || !self.running.is_empty() {
            let event = tokio::select! {
                line = lines.next(), if reading => Event::Line(line?),
                Some(ended) = self.running.join_next_with_id() => Event::Ended(ended),
                () = self.out.closed() => Event::ClientGone,
            };
            match event {
                Event::Line(Line::Text(text)) => self.take(text).await,
                Event::Line(Line::TooLong) => {
                    let message =
                        format!("Invalid Request: a message may have at most {LIMIT} bytes");
                    self.refuse(&RpcError::new(code::INVALID_REQUEST, message)).await;
                }
                Event::Line(Line::End) => {
                    reading = false;
                    self.hang_up().await;
                }
                Event::Ended(ended) => self.ended(&ended),
                Event::ClientGone => break,
            }
        }
        Ok(())
    }

    async fn take(&mut self, text: String) {
        if text.trim().is_empty() {
            return;
        }
        match Message::parse(&text) {
            Err(malformed) => self.refuse(&RpcError::from(&malformed)).await,
            Ok(Message::Request { id, method, params }) => {
                let asked = Asked::new(&self.far.headed, (id, &method, params), &text);
                self.start(asked).await;
            }
            Ok(Message::Notification { method, params }) => {
                self.notice(&method, params, &text).await;
            }
            Ok(Message::Response { id, .. }) => {
                self.far.questions.answered(id);
                self.tell(&text, None).await;
            }
        }
    }

    async fn start(&mut self, asked: Asked) {
        if asked.effect == Effect::Introduction {
            // What follows belongs to the session that this begins.
            tokio::select! {
                () = self.far.carry(&asked) => (),
                () = self.out.closed() => (),
            }
            return;
        }
        let (id, era, effect) = (asked.id.get().to_owned(), asked.era, asked.effect);
        let withdrawn = Arc::clone(&asked.withdrawn);
        let far = Arc::clone(&self.far);
        let handle = self.running.spawn(async move { far.carry(&asked).await });
        self.ids.insert(handle.id(), id.clone());
        self.flights.insert(id, Flight { handle, era, effect, withdrawn });
    }

    async fn notice(&mut self, method: &str, params: Option<&RawValue>, text: &str) {
        if let Some(id) = asked::cancelled(method, params) {
            let flight = self.flights.get(&id);
            let flight = flight.inspect(|flight| flight.withdrawn.store(true, Ordering::Relaxed));
            let flight = flight.map(|flight| (flight.handle.clone(), flight.era));
            // In the modern era a request is taken back by closing its connection.
            if !matches!(flight, Some((_, Era::Modern))) {
                self.tell(text, None).await;
            }
            if let Some((handle, _)) = flight {
                handle.abort();
            }
            return;
        }
        self.tell(text, asked::version_of(params)).await;
        if method == "notifications/initialized" {
            self.far.session.initialized(text);
            self.standing.abort_all();
            self.standing.spawn(Arc::clone(&self.far).stand());
        }
    }

    /// Sends what has no answer, before anything that comes after it.
    async fn tell(&self, text: &str, version: Option<String>) {
        tokio::select! {
            () = self.far.tell(text.to_owned(), version) => (),
            () = self.out.closed() => (),
        }
    }

    async fn refuse(&self, error: &RpcError) {
        // A client that left needs no answer.
        drop(self.out.send(error_line(None, error)).await);
    }

    /// The client says nothing more: what waits for its word, or would go on for ever, ends.
    async fn hang_up(&self) {
        self.far.session.leave();
        for flight in self.flights.values().filter(|flight| flight.effect == Effect::Endless) {
            flight.handle.abort();
        }
        for refusal in self.far.questions.close() {
            self.far.tell(refusal, None).await;
        }
    }

    fn ended(&mut self, ended: &Result<(Id, ()), JoinError>) {
        let task = match ended {
            Ok((task, ())) => *task,
            Err(err) => err.id(),
        };
        let Some(id) = self.ids.remove(&task) else { return };
        if self.flights.get(&id).is_some_and(|flight| flight.handle.id() == task) {
            self.flights.remove(&id);
        }
    }

    /// Lets go of all that still runs.
    async fn end(&mut self) {
        self.running.shutdown().await;
        self.standing.shutdown().await;
        self.keeping_gate.shutdown().await;
    }
}
