//! Writing our messages to upstreams, and reading the ids of theirs.

use muster_core::json::{Raw, RawObject, raw};
use muster_mcp::wire::{RpcError, error_body, result_body};
use serde::Serialize;
use serde_json::value::RawValue;

/// A response to a request: ours or an upstream's.
pub(crate) type RpcOutcome = Result<Raw, RpcError>;

/// Whether a text is a batch of messages, as protocol version 2025-03-26 allows.
pub(crate) fn is_batch(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

/// The messages of a batch.
pub(crate) fn batch(text: &str) -> Vec<&str> {
    let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    batch.into_iter().map(RawValue::get).collect()
}

/// The id of the request that a message responds to, of which only the first and the last bytes are
/// known. The id is a sibling of the result, before or after it.
pub(crate) fn response_id(beginning: &[u8], end: &[u8]) -> Option<u64> {
    let (beginning, end) = (String::from_utf8_lossy(beginning), String::from_utf8_lossy(end));
    let before = beginning.trim_start().strip_prefix('{')?;
    let before = before.split("\"result\"").next()?.split('{').next()?;
    let after = end.trim_end().strip_suffix('}').and_then(|end| end.rsplit(['}', ']']).next());
    if before.contains("\"method\"") {
        return None;
    }
    id_in(before).or_else(|| after.and_then(id_in))
}

fn id_in(members: &str) -> Option<u64> {
    let (_, value) = members.split_once(r#""id""#)?;
    let value = value.trim_start().strip_prefix(':')?.trim_start().trim_start_matches('"');
    let end = value.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(value.len());
    value.get(..end)?.parse().ok()
}

/// The number of one of our requests. Our ids are numbers, which some servers return as strings.
pub(crate) fn request_number(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

/// The initial capacity, which suffices for most messages.
const MESSAGE_LENGTH: usize = 512;

/// Writes a request or notification, parameter by parameter.
#[derive(Debug)]
pub(crate) struct MessageWriter {
    bytes: Vec<u8>,
    first: bool,
}

impl MessageWriter {
    /// Begins a request. Methods are words of the protocol and need no escaping.
    pub(crate) fn request(id: u64, method: &str) -> Self {
        let mut bytes = Vec::with_capacity(MESSAGE_LENGTH);
        bytes.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        write_json(&mut bytes, &id);
        bytes.push(b',');
        Self::begin(bytes, method)
    }

    /// Begins a notification.
    pub(crate) fn notification(method: &str) -> Self {
        Self::begin(br#"{"jsonrpc":"2.0","#.to_vec(), method)
    }

    fn begin(mut bytes: Vec<u8>, method: &str) -> Self {
        bytes.extend_from_slice(br#""method":""#);
        bytes.extend_from_slice(method.as_bytes());
        bytes.extend_from_slice(br#"","params":{"#);
        Self { bytes, first: true }
    }

    /// Adds a parameter, its value as written.
    #[must_use]
    pub(crate) fn raw(mut self, key: &str, value: &RawValue) -> Self {
        self.add_key(key);
        self.bytes.extend_from_slice(value.get().as_bytes());
        self
    }

    fn add_key(&mut self, key: &str) {
        if !std::mem::take(&mut self.first) {
            self.bytes.push(b',');
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
    }

    /// Adds a parameter if there is a value.
    #[must_use]
    pub(crate) fn maybe(self, key: &str, value: Option<&RawValue>) -> Self {
        match value {
            Some(value) => self.raw(key, value),
            None => self,
        }
    }

    /// Adds a string parameter.
    #[must_use]
    pub(crate) fn text(mut self, key: &str, value: &str) -> Self {
        self.add_key(key);
        write_json(&mut self.bytes, value);
        self
    }

    /// Adds the members of an object, except those in `skip`.
    #[must_use]
    pub(crate) fn members(mut self, params: &RawValue, skip: &[&str]) -> Self {
        let Some(object) = RawObject::parse(params) else { return self };
        for (key, value) in object.iter().filter(|(key, _)| !skip.contains(key)) {
            // A key of an upstream or client may need escaping.
            let key = raw(key);
            let key = key.get();
            self = self.raw(key.get(1..key.len() - 1).unwrap_or_default(), value);
        }
        self
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"}}");
        self.bytes
    }
}

fn write_json(bytes: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let written = serde_json::to_writer(bytes, value);
    debug_assert!(written.is_ok(), "writing numbers and texts into memory cannot fail");
}

/// Our response to a request of an upstream.
pub(crate) fn response(id: &RawValue, outcome: &RpcOutcome) -> Vec<u8> {
    let mut message = match outcome {
        Ok(result) => result_body(id, result),
        Err(error) => error_body(Some(id), error),
    };
    muster_mcp::wire::replace_newlines(&mut message);
    message
}

/// The notification that cancels one of our requests.
pub(crate) fn cancelled(id: u64) -> Vec<u8> {
    MessageWriter::notification("notifications/cancelled")
        .raw("requestId", &raw(&id))
        .text("reason", "the client no longer waits")
        .finish()
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::value::RawValue;

    use super::{MessageWriter, batch, is_batch, response, response_id};

    #[test]
    fn the_id_is_a_sibling_of_the_result() {
        let check = |beginning: &str, end: &str, expect: Option<u64>| {
            let found = response_id(beginning.as_bytes(), end.as_bytes());
            assert_eq!(found, expect, "{beginning} … {end}");
        };
        check(r#" {"jsonrpc":"2.0", "id" : 12, "result":{"id":3,"#, "x\"}}", Some(12));
        check(r#"{"id":"12","result":"#, "\"}}", Some(12));
        check(r#"{"result":{"id":3,"#, r#"]},"id":12,"jsonrpc":"2.0"}"#, Some(12));
        check(r#"{"result":{"id":3,"#, r#","id":12}}"#, None);
        check(r#"{"id":12,"method":"a","params":{"#, "}}", None);
        check(r#"{"jsonrpc":"2.0","result":{"#, "}}", None);
        check(r#"[{"id":12,"result":{"#, "}}]", None);
        check("", "", None);
    }

    #[test]
    fn batches_are_split() {
        assert!(is_batch(" []") && !is_batch(r#"{"id":[]}"#));
        assert_eq!(batch(r#" [{"id":1}, {"id":2}]"#), [r#"{"id":1}"#, r#"{"id":2}"#]);
        assert!(batch("[1,").is_empty());
    }

    #[test]
    fn parameters_are_written_byte_for_byte() {
        let arguments = RawValue::from_string(r#"{"b":1.0,"a":1e400}"#.to_owned()).unwrap();
        let more = RawValue::from_string(r#"{"x\"y": 1,"_meta":2}"#.to_owned()).unwrap();
        let message = MessageWriter::request(3, "tools/call")
            .text("name", "a\"b")
            .raw("arguments", &arguments)
            .maybe("_meta", None)
            .members(&more, &["_meta"]);
        assert_eq!(
            String::from_utf8(message.finish()).unwrap(),
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a\"b","arguments":{"b":1.0,"a":1e400},"x\"y":1}}"#
        );
        let message = response(&raw("q"), &Ok(raw(&1)));
        assert_eq!(String::from_utf8(message).unwrap(), r#"{"jsonrpc":"2.0","id":"q","result":1}"#);
    }
}
