//! The time while a person has to log in: the client is served by someone else than the server.
//!
//! The gate is shut when the server refuses an answer and nobody but a person can help. While it is
//! shut nothing is sent. When there is a token the client is introduced to the server in its own words,
//! the gate is opened, and the client is told that every list has changed.

use std::{fmt, sync::Arc, time::Duration};

use muster_core::request::RequestHandler;
use muster_mcp::server::{Answer, LocalSession, Server};
use tokio::{sync::watch, time::sleep};
use tracing::{debug, info};

use super::{
    asked::{Asked, Effect},
    far::Far,
    session,
    trouble::Trouble,
};

/// How long to wait before a server that is away is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// Whether the server can be reached, and who serves the client if not.
#[derive(Debug)]
pub(super) struct Gate {
    server: Option<Server>,
    /// What a legacy client settled here.
    session: LocalSession,
    state: watch::Sender<State>,
}

#[derive(Clone, PartialEq, Eq)]
enum State {
    Open,
    /// The token that the server did not take.
    Shut(Option<String>),
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "Open",
            Self::Shut(_) => "Shut",
        })
    }
}

impl Gate {
    pub(super) fn new(meanwhile: Option<Arc<dyn RequestHandler>>) -> Self {
        Self {
            server: meanwhile.map(Server::new),
            session: LocalSession::new(),
            state: watch::Sender::new(State::Open),
        }
    }

    pub(super) fn is_shut(&self) -> bool {
        *self.state.borrow() != State::Open
    }

    /// Shuts it; whether somebody serves meanwhile.
    pub(super) fn shut(&self, refused: Option<String>) -> bool {
        if self.server.is_some() {
            info!("the server wants a login, and a person has to do it");
            self.state.send_replace(State::Shut(refused));
        }
        self.server.is_some()
    }

    /// Waits until it is open.
    pub(super) async fn opened(&self) {
        let mut state = self.state.subscribe();
        // The sender is here.
        drop(state.wait_for(|state| *state == State::Open).await);
    }

    /// Waits until it is shut; the token that the server did not take.
    async fn refused(&self) -> Option<String> {
        let mut state = self.state.subscribe();
        match state.wait_for(|state| *state != State::Open).await.as_deref() {
            Ok(State::Shut(refused)) => refused.clone(),
            Ok(State::Open) | Err(_) => None,
        }
    }
}

impl Far {
    /// Answers a request while the gate is shut. None where the gate was opened meanwhile, and the
    /// server is to be asked.
    pub(super) async fn meanwhile(&self, asked: &Asked) -> Option<Answer> {
        let server = self.gate.server.as_ref()?;
        if asked.effect == Effect::Introduction {
            self.session.introducing(&asked.body);
        }
        let text = String::from_utf8_lossy(&asked.body);
        let answer = server.answer_line(&self.gate.session, &text, &self.out).await?;
        // Who listens to changes has been told of this one, and listens to the server next.
        let goes_on = asked.effect == Effect::Endless && !self.gate.is_shut();
        (!goes_on).then_some(answer)
    }

    /// Opens the gate whenever there is a token, for as long as the client is there.
    pub(super) async fn keep_gate(self: Arc<Self>) {
        loop {
            let refused = self.gate.refused().await;
            self.login.changed(refused.as_deref()).await;
            match self.enter().await {
                Err(Trouble::Unauthorized { refused, .. }) => {
                    self.gate.shut(refused);
                    continue;
                }
                Err(trouble @ (Trouble::Unreachable(_) | Trouble::Broke(_))) => {
                    debug!("the server cannot be entered yet: {trouble}");
                    sleep(PAUSE).await;
                    continue;
                }
                // What else is wrong the server says to the client itself.
                Err(trouble) => debug!("the server could not be entered: {trouble}"),
                Ok(()) => (),
            }
            info!("logged in; the client is carried to the server");
            self.gate.state.send_replace(State::Open);
            self.login.accepted();
            if self.session.introduction().is_some() {
                for line in session::all_changes() {
                    self.say(line).await;
                }
            }
        }
    }

    /// Introduces a legacy client that the server has never seen.
    async fn enter(&self) -> Result<(), Trouble> {
        let name = self.session.name();
        let is_new = name.serial == 0 && self.session.introduction().is_some();
        if is_new { self.introduce(&name).await.map(drop) } else { Ok(()) }
    }
}
