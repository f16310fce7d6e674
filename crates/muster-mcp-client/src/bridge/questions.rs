//! Questions of the server that the client has not answered.

use std::collections::BTreeSet;

use muster_mcp::wire::{RpcError, code, error_body};
use serde_json::value::RawValue;

use crate::lock::Lock;

/// Questions on their way to the client.
#[derive(Debug, Default)]
pub(super) struct Questions(Lock<Open>);

#[derive(Debug, Default)]
struct Open {
    /// The server's ids, as written.
    ids: BTreeSet<String>,
    /// The client answers no more.
    closed: bool,
}

impl Questions {
    /// A question comes in; when nobody will answer it, the refusal to send back.
    pub(super) fn asked(&self, id: &RawValue) -> Option<String> {
        let mut open = self.0.lock();
        if open.closed {
            return Some(refusal(id));
        }
        open.ids.insert(id.get().to_owned());
        None
    }

    pub(super) fn answered(&self, id: &RawValue) {
        self.0.lock().ids.remove(id.get());
    }

    /// The client left: refusals of what it has not answered.
    pub(super) fn close(&self) -> Vec<String> {
        let mut open = self.0.lock();
        open.closed = true;
        let ids = std::mem::take(&mut open.ids);
        let ids = ids.into_iter().filter_map(|id| RawValue::from_string(id).ok());
        ids.map(|id| refusal(&id)).collect()
    }
}

fn refusal(id: &RawValue) -> String {
    let error = RpcError::new(code::INTERNAL_ERROR, "the client left without an answer");
    String::from_utf8(error_body(Some(id), &error)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::Questions;

    fn id(text: &str) -> Box<RawValue> {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn what_is_not_answered_is_refused_when_the_client_leaves() {
        let questions = Questions::default();
        assert!(questions.asked(&id("1")).is_none());
        assert!(questions.asked(&id("\"b\"")).is_none());
        questions.answered(&id("1"));
        let [refusal] = &questions.close()[..] else { panic!("one question was open") };
        assert!(refusal.contains(r#""id":"b""#), "{refusal}");
        assert!(questions.asked(&id("3")).is_some_and(|refusal| refusal.contains(r#""id":3"#)));
    }
}
