//! What a legacy server knows the client by, and how to say it all again.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use muster_core::json::RawObject;
use muster_mcp::wire::notice_line;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::asked::Asked;
use crate::{
    http::{SESSION, VERSION},
    lock::Lock,
};

/// The kinds of lists whose changes a server may tell of.
const LISTS: [&str; 3] = ["tools", "resources", "prompts"];

/// The session of a legacy client.
#[derive(Debug, Default)]
pub(super) struct Session {
    known: Lock<Known>,
    leaving: CancellationToken,
}

#[derive(Debug, Default)]
struct Known {
    name: Name,
    /// The client's `initialize`.
    introduction: Option<Bytes>,
    /// The client's `notifications/initialized`.
    initialized: Option<Bytes>,
    /// What else the client settled, by what it is about.
    settled: BTreeMap<String, Bytes>,
    /// The lists of which the server said that it tells of changes.
    told: Vec<&'static str>,
}

/// How the server knows the session.
#[derive(Debug, Clone, Default)]
pub(super) struct Name {
    id: Option<HeaderValue>,
    version: Option<HeaderValue>,
    /// Which of our sessions it is.
    pub(super) serial: u64,
}

impl Name {
    pub(super) fn put(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.clone());
        }
        if let Some(version) = &self.version {
            headers.insert(VERSION, version.clone());
        }
    }

    pub(super) const fn is_some(&self) -> bool {
        self.id.is_some()
    }
}

impl Session {
    pub(super) fn name(&self) -> Name {
        self.known.lock().name.clone()
    }

    /// The client introduced itself, and the server has not heard of it yet.
    pub(super) fn introducing(&self, words: &Bytes) {
        let mut known = self.known.lock();
        known.introduction = Some(words.clone());
        known.initialized = None;
        known.settled.clear();
    }

    /// The server answered an introduction; `headers` are those of its answer.
    pub(super) fn introduced(&self, words: &Bytes, headers: &HeaderMap, answer: &[u8]) {
        let Ok(answer) = serde_json::from_slice::<&RawValue>(answer) else { return };
        let answer = RawObject::parse(answer).unwrap_or_default();
        let Some(result) = answer.get("result").and_then(RawObject::parse) else { return };
        let version = result.get_text("protocolVersion");
        let can = result.get("capabilities").and_then(RawObject::parse).unwrap_or_default();
        let tells = |list: &&str| {
            let about = can.get(list).and_then(RawObject::parse).unwrap_or_default();
            about.get("listChanged").is_some_and(|tells| tells.get() == "true")
        };
        let mut known = self.known.lock();
        known.name = Name {
            id: headers.get(SESSION).cloned(),
            version: version.and_then(|version| HeaderValue::from_str(&version).ok()),
            serial: known.name.serial + 1,
        };
        if known.introduction.as_ref() != Some(words) {
            known.initialized = None;
            known.settled.clear();
        }
        known.introduction = Some(words.clone());
        known.told = LISTS.into_iter().filter(tells).collect();
    }

    /// The client is ready.
    pub(super) fn initialized(&self, text: &str) {
        self.known.lock().initialized = Some(Bytes::copy_from_slice(text.as_bytes()));
    }

    /// The client settled something, and the server agreed.
    pub(super) fn settled(&self, asked: &Asked) {
        let mut known = self.known.lock();
        match asked.method.as_str() {
            "resources/unsubscribe" => {
                known.settled.remove(&format!("resources/subscribe {}", asked.about));
            }
            method => {
                known.settled.insert(format!("{method} {}", asked.about), asked.body.clone());
            }
        }
    }

    /// The client's introduction, if it introduced itself.
    pub(super) fn introduction(&self) -> Option<Bytes> {
        self.known.lock().introduction.clone()
    }

    /// What the client said after its introduction, to be said again.
    pub(super) fn rest(&self) -> Vec<Bytes> {
        let known = self.known.lock();
        known.initialized.iter().chain(known.settled.values()).cloned().collect()
    }

    /// Word to the client that any list may have changed, as far as the server tells of that.
    pub(super) fn changes(&self) -> Vec<Vec<u8>> {
        self.known.lock().told.iter().copied().map(change).collect()
    }

    /// The client is about to leave.
    pub(super) fn leave(&self) {
        self.leaving.cancel();
    }

    pub(super) async fn left(&self) {
        self.leaving.cancelled().await;
    }
}

/// Word to a client that every list has changed.
pub(super) fn all_changes() -> impl Iterator<Item = Vec<u8>> {
    LISTS.into_iter().map(change)
}

fn change(list: &str) -> Vec<u8> {
    notice_line(&format!("notifications/{list}/list_changed"), None)
}
