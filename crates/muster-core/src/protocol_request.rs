//! The protocol request that carries a call, as traces describe it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use crate::{lock::Lock, text};

/// A request of the MCP protocol: a client's to the gateway, or the gateway's to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolRequest {
    /// The id of the JSON-RPC message as text, see [`id_text`].
    pub id: Option<String>,
    /// The version of the protocol, if it is known.
    pub version: Option<Cow<'static, str>>,
    /// The connection that the message travels on.
    pub network: Network,
    /// The host and the port of the server; `None` for a process, and at the server itself.
    pub server: Option<(String, u16)>,
}

/// The kind of connection between a client and a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// The standard streams of a process.
    Pipe,
    /// HTTP/1.1 over TCP.
    Http,
}

/// The id of a JSON-RPC message as text: without quotes, and cut if it is too long. `None` for `null`.
pub fn id_text(id: &RawValue) -> Option<String> {
    let id = id.get();
    match serde_json::from_str::<String>(id) {
        Ok(text) => Some(text::shortened(&text).into_owned()),
        Err(_) => (id != "null").then(|| text::shortened(id).into_owned()),
    }
}

/// The last request that a backend sent for a call.
#[derive(Debug, Default)]
pub struct SentRequest(Lock<Option<ProtocolRequest>>);

impl SentRequest {
    /// Records a request, in place of one that it repeats.
    pub fn record(&self, request: ProtocolRequest) {
        *self.0.lock() = Some(request);
    }

    /// The last request; `None` if no request was sent.
    pub fn take(&self) -> Option<ProtocolRequest> {
        self.0.lock().take()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::id_text;

    #[test]
    fn ids_are_texts() {
        let long = format!("\"{}\"", "x".repeat(1_000));
        for (id, expected) in [
            ("7", Some("7")),
            ("1e3", Some("1e3")),
            (r#""a\n\"b""#, Some("a\n\"b")),
            ("null", None),
            (&long, Some(&*format!("{}… (1000 bytes)", "x".repeat(256)))),
        ] {
            let id = RawValue::from_string(id.to_owned()).unwrap();
            assert_eq!(id_text(&id).as_deref(), expected);
        }
    }
}
