//! The tester's own JSON-RPC messages, over plain values.
//!
//! It shares no code with the gateway on purpose: two implementations of the specification check each other.

use serde_json::{Value, json};

/// JSON-RPC: method not found.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// JSON-RPC: invalid params.
pub const INVALID_PARAMS: i64 = -32602;
/// JSON-RPC: internal error.
pub const INTERNAL_ERROR: i64 = -32603;

/// A received message.
#[derive(Debug, Clone, PartialEq)]
pub enum Message {
    /// A request.
    Request {
        /// Returned in the response.
        id: Value,
        /// The method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// A response.
    Answer {
        /// The id of the request.
        id: Value,
        /// The result, or the error.
        outcome: Result<Value, RpcError>,
    },
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub struct RpcError {
    /// Its code.
    pub code: i64,
    /// Its message.
    pub message: String,
}

/// Parses a message; `None` if it is not one.
pub fn parse(text: &str) -> Option<Message> {
    let mut message: Value = serde_json::from_str(text).ok()?;
    let message = message.as_object_mut()?;
    let id = message.remove("id");
    let params = message.remove("params").unwrap_or(Value::Null);
    let method = message.remove("method").and_then(|method| method.as_str().map(str::to_owned));
    match (method, id) {
        (Some(method), Some(id)) => Some(Message::Request { id, method, params }),
        (Some(method), None) => Some(Message::Notification { method, params }),
        (None, Some(id)) => {
            let outcome = match (message.remove("result"), message.remove("error")) {
                (_, Some(error)) => Err(RpcError::read(&error)),
                (Some(result), None) => Ok(result),
                (None, None) => return None,
            };
            Some(Message::Answer { id, outcome })
        }
        (None, None) => None,
    }
}

/// Encodes a request.
pub fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// Encodes a notification.
pub fn notification(method: &str, params: &Value) -> String {
    match params {
        Value::Null => json!({"jsonrpc": "2.0", "method": method}).to_string(),
        params => json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string(),
    }
}

/// Encodes a response.
pub fn answer(id: &Value, outcome: &Result<Value, RpcError>) -> String {
    match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
        Err(RpcError { code, message }) => {
            let error = json!({"code": code, "message": message});
            json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
        }
    }
}

impl RpcError {
    /// An error with this code and message.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    fn read(error: &Value) -> Self {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str);
        Self::new(code, message.map_or_else(|| error.to_string(), str::to_owned))
    }
}

/// A tool result with one text.
pub fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}
