//! What we asked a legacy client and have no answer to yet.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use muster_core::{
    client::InputError,
    json::{Raw, RawObject},
};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, oneshot};

use crate::{
    lock::Lock,
    wire::{code, notification_line, request_line},
};

type Answer = Result<Raw, InputError>;

/// The open questions of one client. Closed when the client is gone.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    asked: AtomicU64,
    open: Lock<Open>,
}

#[derive(Debug, Default)]
struct Open {
    closed: bool,
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
}

impl Questions {
    /// Asks over `out` and waits. Dropping the future withdraws the question.
    pub(crate) async fn ask(
        &self,
        out: &mpsc::Sender<Vec<u8>>,
        method: &str,
        params: &RawValue,
    ) -> Answer {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = oneshot::channel();
        {
            let mut open = self.open.lock();
            if open.closed {
                return Err(InputError::Disconnected);
            }
            open.waiting.insert(number, sender);
        }
        let mut withdrawal = Withdrawal { questions: self, out, number, sent: false };
        let line = request_line(&name(number), method, params);
        out.send(line).await.map_err(|_| InputError::Disconnected)?;
        withdrawal.sent = true;
        tokio::select! {
            answer = receiver => answer.unwrap_or(Err(InputError::Disconnected)),
            () = out.closed() => Err(InputError::Disconnected),
        }
    }

    /// Takes an answer; whether it was to a question of ours.
    pub(crate) fn answered(&self, id: &RawValue, outcome: Result<&RawValue, &RawValue>) -> bool {
        let Some(sender) = number(id).and_then(|number| self.open.lock().waiting.remove(&number))
        else {
            return false;
        };
        sender.send(outcome.map(ToOwned::to_owned).map_err(refused)).is_ok()
    }

    /// The client is gone: nobody waits any longer.
    pub(crate) fn close(&self) {
        let mut open = self.open.lock();
        open.closed = true;
        open.waiting.clear();
    }
}

/// Takes a question back that nobody waits for any more.
struct Withdrawal<'a> {
    questions: &'a Questions,
    out: &'a mpsc::Sender<Vec<u8>>,
    number: u64,
    sent: bool,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        let open = self.questions.open.lock().waiting.remove(&self.number).is_some();
        if open && self.sent {
            let mut params = RawObject::new();
            params.set_value("requestId", &name(self.number));
            let line = notification_line("notifications/cancelled", Some(&params.to_raw()));
            // A client that reads so slowly will answer in vain.
            drop(self.out.try_send(line));
        }
    }
}

const PREFIX: &str = "muster-";

fn name(number: u64) -> String {
    format!("{PREFIX}{number}")
}

fn number(id: &RawValue) -> Option<u64> {
    let name: String = serde_json::from_str(id.get()).ok()?;
    name.strip_prefix(PREFIX)?.parse().ok()
}

fn refused(error: &RawValue) -> InputError {
    let members = RawObject::parse(error).unwrap_or_default();
    let code = members.get("code").and_then(|code| code.get().parse().ok());
    InputError::Refused {
        code: code.unwrap_or(code::INTERNAL_ERROR),
        message: members.get_text("message").unwrap_or_else(|| "the client refused".to_owned()),
        data: members.get("data").map(ToOwned::to_owned),
    }
}

/// What a client must have declared to be asked this; none for what nobody declares.
pub(crate) fn capability(method: &str) -> Option<&'static str> {
    match method {
        "sampling/createMessage" => Some("sampling"),
        "elicitation/create" => Some("elicitation"),
        "roots/list" => Some("roots"),
        _ => None,
    }
}

/// Whether `capabilities` has a member of that name that is not `null`.
pub(crate) fn declares(capabilities: &RawValue, capability: &str) -> bool {
    RawObject::parse(capabilities)
        .unwrap_or_default()
        .get(capability)
        .is_some_and(|value| value.get() != "null")
}
