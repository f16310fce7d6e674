//! Messages of servers, told apart by their keys, and our messages to them. What is inside stays raw.

use std::borrow::Cow;

use muster_core::json::{Raw, RawObject};
use muster_mcp::wire::{RpcError, code};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// What a server says to a request of ours.
pub(super) type Answer = Result<Raw, RpcError>;

/// A message of a server.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// Wants an answer.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Wants none.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Answers a request of ours; without an id it answers something that could not be read.
    Answer { id: Option<u64>, answer: Answer },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Text<'a>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    /// A result may well be `null`.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    /// Reads one message; `None` when it is none.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let envelope: Envelope<'a> = serde_json::from_str(text).ok()?;
        match envelope {
            Envelope { method: Some(Text(method)), id: Some(id), params, .. } => {
                Some(Self::Request { id, method, params })
            }
            Envelope { method: Some(Text(method)), id: None, params, .. } => {
                Some(Self::Notification { method, params })
            }
            Envelope { error: Some(error), id, .. } => {
                Some(Self::Answer { id: id.and_then(number), answer: Err(rpc_error(error)) })
            }
            Envelope { result: Some(result), id, .. } => {
                Some(Self::Answer { id: id.and_then(number), answer: Ok(result.to_owned()) })
            }
            Envelope { .. } => None,
        }
    }
}

/// Whether a text holds several messages, as 2025-03-26 has them.
pub(super) fn is_batch(text: &str) -> bool {
    text.trim_start().starts_with('[')
}

/// The messages of a batch.
pub(super) fn batch(text: &str) -> Vec<&str> {
    let batch: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    batch.into_iter().map(RawValue::get).collect()
}

/// The id of the request that a message answers of which only the first and the last bytes are known.
/// An id stands beside the result, before it or behind it.
pub(super) fn whose(beginning: &[u8], end: &[u8]) -> Option<u64> {
    let (beginning, end) = (String::from_utf8_lossy(beginning), String::from_utf8_lossy(end));
    let before = beginning.trim_start().strip_prefix('{')?;
    let before = before.split("\"result\"").next()?.split('{').next()?;
    let behind = end.trim_end().strip_suffix('}').and_then(|end| end.rsplit(['}', ']']).next());
    if before.contains("\"method\"") {
        return None;
    }
    id_in(before).or_else(|| behind.and_then(id_in))
}

fn id_in(members: &str) -> Option<u64> {
    let (_, value) = members.split_once(r#""id""#)?;
    let value = value.trim_start().strip_prefix(':')?.trim_start().trim_start_matches('"');
    let end = value.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(value.len());
    value.get(..end)?.parse().ok()
}

/// Our ids are numbers; some servers give them back as text.
pub(super) fn number(id: &RawValue) -> Option<u64> {
    id.get().trim_matches('"').parse().ok()
}

/// Reads an error as far as it is one.
fn rpc_error(error: &RawValue) -> RpcError {
    let Some(object) = RawObject::parse(error) else {
        return RpcError::new(code::INTERNAL_ERROR, error.get());
    };
    let number = object.get("code").and_then(|raw| raw.get().parse().ok());
    let data = object.get("data").map(ToOwned::to_owned);
    let message = object.get_text("message").unwrap_or_default();
    RpcError { code: number.unwrap_or(code::INTERNAL_ERROR), message, data }
}

/// A request or notification of ours while it is being written.
#[derive(Debug)]
pub(super) struct Writing {
    bytes: Vec<u8>,
    first: bool,
}

impl Writing {
    /// A request. Methods are words of the protocol and need no escaping.
    pub(super) fn request(id: u64, method: &str) -> Self {
        Self::begin(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"#))
    }

    /// A notification.
    pub(super) fn notification(method: &str) -> Self {
        Self::begin(format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"#))
    }

    fn begin(text: String) -> Self {
        Self { bytes: text.into_bytes(), first: true }
    }

    /// A parameter as it is.
    #[must_use]
    pub(super) fn raw(mut self, key: &str, value: &RawValue) -> Self {
        if !std::mem::take(&mut self.first) {
            self.bytes.push(b',');
        }
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(b"\":");
        self.bytes.extend_from_slice(value.get().as_bytes());
        self
    }

    /// A parameter as it is, if there is one.
    #[must_use]
    pub(super) fn maybe(self, key: &str, value: Option<&RawValue>) -> Self {
        match value {
            Some(value) => self.raw(key, value),
            None => self,
        }
    }

    /// A parameter that is text.
    #[must_use]
    pub(super) fn text(self, key: &str, value: &str) -> Self {
        let value = muster_core::json::raw(value);
        self.raw(key, &value)
    }

    /// The members of an object, except those that `skip` names.
    #[must_use]
    pub(super) fn members(mut self, params: &RawValue, skip: &[&str]) -> Self {
        let Some(object) = RawObject::parse(params) else { return self };
        for (key, value) in object.iter().filter(|(key, _)| !skip.contains(key)) {
            // A key from outside may need escaping; what is written between the quotes is kept.
            let key = muster_core::json::raw(key);
            let key = key.get();
            self = self.raw(key.get(1..key.len() - 1).unwrap_or_default(), value);
        }
        self
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(b"}}");
        self.bytes
    }
}

/// Our answer to a request of a server.
pub(super) fn reply(id: &RawValue, answer: &Answer) -> Vec<u8> {
    let mut line = match answer {
        Ok(result) => muster_mcp::wire::result_line(id, result),
        Err(error) => muster_mcp::wire::error_line(Some(id), error),
    };
    line.pop();
    line
}

/// Takes back a request of ours.
pub(super) fn cancelled(id: u64) -> Vec<u8> {
    Writing::notification("notifications/cancelled")
        .raw("requestId", &muster_core::json::raw(&id))
        .text("reason", "the client no longer waits")
        .finish()
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::value::RawValue;

    use super::{Message, Writing, batch, is_batch, reply, whose};

    #[test]
    fn ids_stand_beside_the_result() {
        let check = |beginning: &str, end: &str, expect: Option<u64>| {
            assert_eq!(whose(beginning.as_bytes(), end.as_bytes()), expect, "{beginning} … {end}");
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

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let shape = match Message::parse(text) {
            Some(Message::Request { id, method, params }) => {
                format!("request {} {method} {}", id.get(), params.map_or("-", RawValue::get))
            }
            Some(Message::Notification { method, .. }) => format!("notification {method}"),
            Some(Message::Answer { id, answer: Ok(result) }) => {
                format!("result {id:?} {}", result.get())
            }
            Some(Message::Answer { id, answer: Err(error) }) => {
                let data = error.data.as_deref().map_or("-", RawValue::get);
                format!("error {id:?} {} {} {data}", error.code, error.message)
            }
            None => "none".to_owned(),
        };
        assert_eq!(shape, expect);
    }

    #[test]
    fn told_apart_by_their_keys() {
        check(r#"{"id":"a","method":"m\u0065","params":{}}"#, r#"request "a" me {}"#);
        check(r#"{"jsonrpc":"2.0","method":"n"}"#, "notification n");
        check(
            r#"{"id":7,"result":{ "big":12345678901234567890 }}"#,
            r#"result Some(7) { "big":12345678901234567890 }"#,
        );
        check(r#"{"id":"7","result":null}"#, "result Some(7) null");
        check(r#"{"id":null,"error":{"code":-32700,"message":"m"}}"#, "error None -32700 m -");
        check(
            r#"{"id":1,"error":{"code":5,"message":"m","data":{"x":[1]}}}"#,
            r#"error Some(1) 5 m {"x":[1]}"#,
        );
        check(r#"{"id":1,"error":"odd"}"#, "error Some(1) -32603 \"odd\" -");
        check("Server listening on stdio", "none");
        check("{}", "none");
    }

    #[test]
    fn batches_come_apart() {
        assert!(is_batch(" []") && !is_batch(r#"{"id":[]}"#));
        assert_eq!(batch(r#" [{"id":1}, {"id":2}]"#), [r#"{"id":1}"#, r#"{"id":2}"#]);
        assert!(batch("[1,").is_empty());
    }

    #[test]
    fn parameters_stay_as_they_were_written() {
        let arguments = RawValue::from_string(r#"{"b":1.0,"a":1e400}"#.to_owned()).unwrap();
        let more = RawValue::from_string(r#"{"x\"y": 1,"_meta":2}"#.to_owned()).unwrap();
        let line = Writing::request(3, "tools/call")
            .text("name", "a\"b")
            .raw("arguments", &arguments)
            .maybe("_meta", None)
            .members(&more, &["_meta"]);
        assert_eq!(
            String::from_utf8(line.finish()).unwrap(),
            r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a\"b","arguments":{"b":1.0,"a":1e400},"x\"y":1}}"#
        );
        let line = reply(&raw("q"), &Ok(raw(&1)));
        assert_eq!(String::from_utf8(line).unwrap(), r#"{"jsonrpc":"2.0","id":"q","result":1}"#);
    }
}
