//! JSON-RPC messages: told apart by the keys they have, everything inside left raw.

use std::{borrow::Cow, fmt};

use muster_core::json::Raw;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use thiserror::Error;

/// A message as it came in.
#[derive(Debug)]
pub enum Message<'a> {
    /// Wants an answer.
    Request {
        /// The sender's id, to be given back as it is.
        id: &'a RawValue,
        /// What is asked.
        method: Cow<'a, str>,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// Wants none.
    Notification {
        /// What happened.
        method: Cow<'a, str>,
        /// With what.
        params: Option<&'a RawValue>,
    },
    /// Answers a request of ours.
    Response {
        /// The id we gave the request.
        id: &'a RawValue,
        /// The result, or the error object.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Why a message cannot be served at all.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum Malformed {
    /// Not JSON.
    #[error("Parse error: the message is not valid JSON")]
    NotJson,
    /// JSON, but not one JSON-RPC message.
    #[error("Invalid Request: {0}")]
    NotAMessage(&'static str),
}

impl Malformed {
    /// The JSON-RPC code.
    pub const fn code(&self) -> i64 {
        match self {
            Self::NotJson => code::PARSE_ERROR,
            Self::NotAMessage(_) => code::INVALID_REQUEST,
        }
    }
}

/// The codes of JSON-RPC and MCP that are sent.
pub mod code {
    /// Not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Not a message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// Our fault.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// No such resource, in the legacy era.
    pub const NO_RESOURCE: i64 = -32002;
    /// A header does not repeat what the body says.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare what the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// A protocol version that is not spoken here.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

impl<'a> Message<'a> {
    /// Reads one message.
    pub fn parse(text: &'a str) -> Result<Self, Malformed> {
        if text.trim_start().starts_with('[') {
            return Err(Malformed::NotAMessage(
                "batches are not supported, send one message a line",
            ));
        }
        let envelope: Envelope<'a> =
            serde_json::from_str(text).map_err(|err| match err.classify() {
                serde_json::error::Category::Data => {
                    Malformed::NotAMessage("not a JSON-RPC object")
                }
                _ => Malformed::NotJson,
            })?;
        match envelope {
            Envelope { method: Some(method), id: None, params, .. } => {
                Ok(Self::Notification { method, params })
            }
            Envelope { method: Some(method), id: Some(id), params, .. } => {
                if !is_id(id) {
                    return Err(Malformed::NotAMessage("`id` must be a string or an integer"));
                }
                Ok(Self::Request { id, method, params })
            }
            Envelope { id: Some(id), result: Some(result), error, .. }
                if error.is_none_or(|error| error.get() == "null") =>
            {
                Ok(Self::Response { id, outcome: Ok(result) })
            }
            Envelope { id: Some(id), error: Some(error), .. } => {
                Ok(Self::Response { id, outcome: Err(error) })
            }
            Envelope { method: None, .. } => Err(Malformed::NotAMessage("`method` is missing")),
        }
    }
}

fn is_id(id: &RawValue) -> bool {
    let text = id.get();
    match text.as_bytes().first() {
        Some(b'"') => true,
        Some(b'-' | b'0'..=b'9') => !text.contains(['.', 'e', 'E']),
        _ => false,
    }
}

#[derive(Default)]
struct Envelope<'a> {
    id: Option<&'a RawValue>,
    method: Option<Cow<'a, str>>,
    params: Option<&'a RawValue>,
    result: Option<&'a RawValue>,
    error: Option<&'a RawValue>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Envelope<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Envelope<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON-RPC object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut envelope = Envelope::default();
                while let Some(key) = map.next_key::<Key>()? {
                    match key {
                        Key::Id => envelope.id = Some(map.next_value()?),
                        Key::Method => envelope.method = Some(map.next_value::<Text<'de>>()?.0),
                        Key::Params => envelope.params = Some(map.next_value()?),
                        Key::Result => envelope.result = Some(map.next_value()?),
                        Key::Error => envelope.error = Some(map.next_value()?),
                        Key::Other => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(envelope)
            }
        }

        deserializer.deserialize_map(Members)
    }
}

#[derive(Deserialize)]
enum Key {
    #[serde(rename = "id")]
    Id,
    #[serde(rename = "method")]
    Method,
    #[serde(rename = "params")]
    Params,
    #[serde(rename = "result")]
    Result,
    #[serde(rename = "error")]
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Serialize)]
struct ResultMessage<'a> {
    jsonrpc: &'static str,
    id: &'a RawValue,
    result: &'a RawValue,
}

#[derive(Serialize)]
struct ErrorMessage<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    error: &'a RpcError,
}

#[derive(Serialize)]
struct Told<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

/// Writes a successful answer as one line.
pub fn result_line(id: &RawValue, result: &RawValue) -> Vec<u8> {
    line(message(&ResultMessage { jsonrpc: "2.0", id, result }))
}

/// Writes a successful answer as a document of its own.
pub fn result_body(id: &RawValue, result: &RawValue) -> Vec<u8> {
    message(&ResultMessage { jsonrpc: "2.0", id, result })
}

/// Writes an error answer as one line; without an id it answers something unreadable.
pub fn error_line(id: Option<&RawValue>, error: &RpcError) -> Vec<u8> {
    line(error_body(id, error))
}

/// Writes an error answer as a document of its own.
pub fn error_body(id: Option<&RawValue>, error: &RpcError) -> Vec<u8> {
    message(&ErrorMessage { jsonrpc: "2.0", id, error })
}

/// Writes a notification as one line.
pub fn notice_line(method: &str, params: Option<&RawValue>) -> Vec<u8> {
    line(message(&Told { jsonrpc: "2.0", id: None, method, params }))
}

/// Writes a request of ours as one line.
pub fn question_line(id: &str, method: &str, params: &RawValue) -> Vec<u8> {
    line(message(&Told { jsonrpc: "2.0", id: Some(id), method, params: Some(params) }))
}

fn message(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}

/// A message as one line.
pub fn line(mut line: Vec<u8>) -> Vec<u8> {
    // A raw value may span lines: newlines between JSON tokens are white space, and inside strings
    // they are escaped, so a blank keeps both the framing and the meaning.
    for byte in &mut line {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
    line.push(b'\n');
    line
}

/// A JSON-RPC error.
#[derive(Debug, Serialize)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// One sentence.
    pub message: String,
    /// What a program may want to know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }
}

impl From<&Malformed> for RpcError {
    fn from(malformed: &Malformed) -> Self {
        Self::new(malformed.code(), malformed.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Malformed, Message, result_line};

    fn shape(text: &str) -> String {
        match Message::parse(text) {
            Ok(Message::Request { id, method, params }) => {
                format!("request {} {method} {}", id.get(), params.map_or("-", |raw| raw.get()))
            }
            Ok(Message::Notification { method, .. }) => format!("notification {method}"),
            Ok(Message::Response { id, outcome: Ok(raw) }) => format!("result {id} {raw}"),
            Ok(Message::Response { id, outcome: Err(raw) }) => format!("error {id} {raw}"),
            Err(err) => err.to_string(),
        }
    }

    #[track_caller]
    fn check(text: &str, expect: &str) {
        assert_eq!(shape(text), expect);
    }

    #[test]
    fn told_apart_by_their_keys() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "request 1 ping -");
        check(
            r#"{"id":"a\u0062","method":"p\u0069ng","params":{}}"#,
            r#"request "a\u0062" ping {}"#,
        );
        check(
            r#"{"id":123456789012345678901234567890,"method":"m"}"#,
            "request 123456789012345678901234567890 m -",
        );
        check(
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            "notification notifications/initialized",
        );
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "result 1 {}");
        check(r#"{"jsonrpc":"2.0","id":"a","error":{"code":1}}"#, r#"error "a" {"code":1}"#);
        check(r#"{"id":1,"error":null,"result":null}"#, "result 1 null");
    }

    #[test]
    fn what_is_no_message_is_named() {
        check("nope", "Parse error: the message is not valid JSON");
        check("[]", "Invalid Request: batches are not supported, send one message a line");
        check("5", "Invalid Request: not a JSON-RPC object");
        check(r#"{"id":1}"#, "Invalid Request: `method` is missing");
        check(
            r#"{"id":null,"method":"m"}"#,
            "Invalid Request: `id` must be a string or an integer",
        );
        check(r#"{"id":1.5,"method":"m"}"#, "Invalid Request: `id` must be a string or an integer");
        assert_eq!(Malformed::NotJson.code(), -32700);
    }

    #[test]
    fn an_answer_is_always_one_line() {
        let raw =
            serde_json::value::RawValue::from_string("{\n\"a\":\n\"x\\ny\"}".to_owned()).unwrap();
        let id = serde_json::value::RawValue::from_string("1".to_owned()).unwrap();
        let line = String::from_utf8(result_line(&id, &raw)).unwrap();
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{ \"a\": \"x\\ny\"}}\n");
    }

    proptest! {
        #[test]
        fn no_input_panics(text in ".*") {
            drop(Message::parse(&text));
        }
    }
}
