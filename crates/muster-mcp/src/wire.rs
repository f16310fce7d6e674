//! JSON-RPC messages, classified by their keys. Everything inside stays raw.

use std::{borrow::Cow, fmt};

use muster_core::json::{Raw, RawObject};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{IgnoredAny, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use thiserror::Error;

/// A received message.
#[derive(Debug)]
pub enum Message<'a> {
    /// Expects a response.
    Request {
        /// The sender's id, which the response repeats as written.
        id: &'a RawValue,
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// Expects no response.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// Its parameters.
        params: Option<&'a RawValue>,
    },
    /// Responds to one of our requests.
    Response {
        /// The id of the request; `null` if the peer could not read it.
        id: &'a RawValue,
        /// The result, or the error object.
        outcome: Result<&'a RawValue, &'a RawValue>,
    },
}

/// Why a text is not a message.
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

/// The error codes of JSON-RPC and MCP.
pub mod code {
    /// Not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Not a message.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The parameters do not fit.
    pub const INVALID_PARAMS: i64 = -32602;
    /// A fault of the server.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// No such resource, in the legacy era.
    pub const NO_RESOURCE: i64 = -32002;
    /// A header differs from the body that it repeats.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// The client did not declare a capability that the request needs.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The protocol version is not supported.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
}

impl<'a> Message<'a> {
    /// Parses a message of a client.
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

    /// Parses a message of an upstream, tolerating common mistakes of servers in the wild: an id of `null` counts as
    /// absent, an id may have any type, and a response may lack one.
    pub fn parse_lenient(text: &'a str) -> Option<Self> {
        let Envelope { id, method, params, result, error } = serde_json::from_str(text).ok()?;
        let is_present = |value: &&RawValue| value.get() != "null";
        let id = id.filter(is_present);
        let params = params.filter(is_present);
        Some(match (method, id, error.filter(is_present), result) {
            (Some(method), Some(id), ..) => Self::Request { id, method, params },
            (Some(method), None, ..) => Self::Notification { method, params },
            (None, id, Some(error), _) => {
                Self::Response { id: id.unwrap_or(RawValue::NULL), outcome: Err(error) }
            }
            (None, id, None, Some(result)) => {
                Self::Response { id: id.unwrap_or(RawValue::NULL), outcome: Ok(result) }
            }
            (None, _, None, None) => return None,
        })
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
struct ErrorMessage<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    error: &'a RpcError,
}

#[derive(Serialize)]
struct CallMessage<'a> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a RawValue>,
}

/// Serializes a result response as one line.
pub fn result_line(id: &RawValue, result: &RawValue) -> Vec<u8> {
    line(result_body(id, result))
}

/// Serializes a result response without a line end.
pub fn result_body(id: &RawValue, result: &RawValue) -> Vec<u8> {
    let (id, result) = (id.get(), result.get());
    let parts = [r#"{"jsonrpc":"2.0","id":"#, id, r#","result":"#, result, "}"];
    parts.concat().into_bytes()
}

/// Serializes an error response as one line; without an id it responds to an unreadable message.
pub fn error_line(id: Option<&RawValue>, error: &RpcError) -> Vec<u8> {
    line(error_body(id, error))
}

/// Serializes an error response without a line end.
pub fn error_body(id: Option<&RawValue>, error: &RpcError) -> Vec<u8> {
    serialize(&ErrorMessage { jsonrpc: "2.0", id, error })
}

/// Serializes a notification as one line.
pub fn notification_line(method: &str, params: Option<&RawValue>) -> Vec<u8> {
    line(serialize(&CallMessage { jsonrpc: "2.0", id: None, method, params }))
}

/// Serializes a request as one line.
pub fn request_line(id: &str, method: &str, params: &RawValue) -> Vec<u8> {
    line(serialize(&CallMessage { jsonrpc: "2.0", id: Some(id), method, params: Some(params) }))
}

fn serialize(message: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(message).unwrap_or_default()
}

/// Frames a message as one line.
pub fn line(mut message: Vec<u8>) -> Vec<u8> {
    replace_newlines(&mut message);
    message.push(b'\n');
    message
}

/// Replaces newlines in a message by blanks. A raw value may span lines: newlines between JSON tokens
/// are white space, and inside strings they are escaped, so a blank changes nothing but the framing.
pub fn replace_newlines(message: &mut [u8]) {
    for byte in message {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// A JSON-RPC error.
#[derive(Debug, Serialize)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// One sentence for a person.
    pub message: String,
    /// Details for a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Raw>,
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Reads an error object as far as it is valid.
    pub fn parse(error: &RawValue) -> Self {
        let Some(object) = RawObject::parse(error) else {
            return Self::new(code::INTERNAL_ERROR, error.get());
        };
        let number = object.get("code").and_then(|raw| raw.get().parse().ok());
        Self {
            code: number.unwrap_or(code::INTERNAL_ERROR),
            message: object.get_text("message").unwrap_or_default(),
            data: object.get("data").map(ToOwned::to_owned),
        }
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

    use super::{Malformed, Message, RpcError, result_line};

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
    fn messages_are_classified_by_their_keys() {
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
    fn malformed_messages_are_explained() {
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
    fn a_response_is_always_one_line() {
        let raw =
            serde_json::value::RawValue::from_string("{\n\"a\":\n\"x\\ny\"}".to_owned()).unwrap();
        let id = serde_json::value::RawValue::from_string("1".to_owned()).unwrap();
        let line = String::from_utf8(result_line(&id, &raw)).unwrap();
        assert_eq!(line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{ \"a\": \"x\\ny\"}}\n");
    }

    #[test]
    fn messages_of_servers_are_parsed_leniently() {
        let shape = |text: &str| match Message::parse_lenient(text) {
            Some(Message::Request { id, method, .. }) => format!("request {id} {method}"),
            Some(Message::Notification { method, .. }) => format!("notification {method}"),
            Some(Message::Response { id, outcome: Ok(result) }) => format!("result {id} {result}"),
            Some(Message::Response { id, outcome: Err(error) }) => {
                let RpcError { code, message, data } = RpcError::parse(error);
                format!("error {id} {code} {message} {data:?}")
            }
            None => "none".to_owned(),
        };
        for (text, expect) in [
            (r#"{"id":"a","method":"m\u0065","params":{}}"#, r#"request "a" me"#),
            (r#"{"id":1.5,"method":"m"}"#, "request 1.5 m"),
            (r#"{"id":null,"method":"n"}"#, "notification n"),
            (
                r#"{"id":7,"result":{ "big":12345678901234567890 }}"#,
                r#"result 7 { "big":12345678901234567890 }"#,
            ),
            (r#"{"id":"7","result":null}"#, r#"result "7" null"#),
            (r#"{"error":{"code":-32700,"message":"m"}}"#, "error null -32700 m None"),
            (
                r#"{"id":1,"error":{"code":5,"message":"m","data":{"x":[1]}}}"#,
                r#"error 1 5 m Some(RawValue({"x":[1]}))"#,
            ),
            (r#"{"id":1,"error":"odd"}"#, "error 1 -32603 \"odd\" None"),
            ("Server listening on stdio", "none"),
            ("{}", "none"),
        ] {
            assert_eq!(shape(text), expect);
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(text in ".*") {
            drop(Message::parse(&text));
        }
    }
}
