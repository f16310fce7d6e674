//! The way back to the client of one request.

use std::sync::Arc;

use muster_core::{
    backend::BoxFuture,
    client::{ClientHandle, InputError, InputMode, InputRequest, Notification},
    json::{Raw, RawObject},
};
use tokio::sync::mpsc;

use crate::{
    level::Level,
    questions::{capability, declares},
    session::Session,
    wire::notification_line,
};

/// Messages waiting for a client that reads slowly. When it is full, answers wait, and what is only
/// told on the way is dropped.
pub(crate) const AHEAD: usize = 1024;

/// The client of one request.
#[derive(Debug)]
pub(crate) struct Back {
    who: Who,
    /// Lines; none when there is no way to say anything before the answer.
    out: Option<mpsc::Sender<Vec<u8>>>,
}

/// What is known of the client.
#[derive(Debug)]
pub(crate) enum Who {
    /// What it settled once.
    Legacy(Arc<Session>),
    /// What it said with the request.
    Modern {
        /// What it can do.
        capabilities: Raw,
        /// The least severe log line it wants; none when it wants no log lines.
        level: Option<Level>,
    },
}

impl Back {
    pub(crate) const fn new(who: Who, out: Option<mpsc::Sender<Vec<u8>>>) -> Self {
        Self { who, out }
    }

    pub(crate) const fn session(&self) -> Option<&Arc<Session>> {
        match &self.who {
            Who::Legacy(session) => Some(session),
            Who::Modern { .. } => None,
        }
    }

    /// Tells the client something that must not be lost; whether it is still there.
    pub(crate) async fn tell(&self, line: Vec<u8>) -> bool {
        match &self.out {
            Some(out) => out.send(line).await.is_ok(),
            None => false,
        }
    }

    fn wants(&self, notice: &Notification) -> bool {
        if notice.method != "notifications/message" {
            return true;
        }
        let least = match &self.who {
            Who::Legacy(session) => Some(session.level()),
            Who::Modern { level, .. } => *level,
        };
        let level = RawObject::parse(&notice.params)
            .and_then(|params| params.get_text("level"))
            .and_then(|name| Level::named(&name));
        // A level that nobody knows is for those who want everything.
        least.is_some_and(|least| level.unwrap_or(Level::LEAST) >= least)
    }
}

impl ClientHandle for Back {
    fn capabilities(&self) -> Raw {
        match &self.who {
            Who::Legacy(session) => session.capabilities(),
            Who::Modern { capabilities, .. } => capabilities.clone(),
        }
    }

    fn input_mode(&self) -> InputMode {
        match &self.who {
            Who::Modern { .. } => InputMode::InResult,
            Who::Legacy(_) if self.out.is_some() => InputMode::Direct,
            Who::Legacy(_) => InputMode::Unsupported,
        }
    }

    fn notify(&self, notice: Notification) {
        let Some(out) = &self.out else { return };
        if !self.wants(&notice) {
            return;
        }
        if out.try_send(notification_line(&notice.method, Some(&notice.params))).is_err() {
            tracing::debug!("{} not delivered", notice.method);
        }
    }

    fn request_input(&self, question: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
        Box::pin(async move {
            let (Who::Legacy(session), Some(out)) = (&self.who, &self.out) else {
                return Err(InputError::Disconnected);
            };
            if let Some(capability) = capability(&question.method)
                && !declares(&session.capabilities(), capability)
            {
                return Err(InputError::NotDeclared { capability: capability.to_owned() });
            }
            session.questions.ask(out, &question.method, &question.params).await
        })
    }
}
