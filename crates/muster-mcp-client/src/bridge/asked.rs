//! A request of the client, and what HTTP wants to know of it.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use muster_core::json::{Raw, RawObject};
use muster_mcp::{
    headers::name_param,
    param_headers::{self, Headed},
    version::{Era, VERSION_KEY},
};
use serde_json::value::RawValue;

use crate::lock::Lock;

/// Tools whose arguments are repeated in headers, as far as they have been listed.
pub(super) type HeadedTools = Lock<BTreeMap<String, Vec<Headed>>>;

/// What a request may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// It begins a session.
    Introduction,
    /// It tells of changes until someone ends it.
    Endless,
    /// It only asks, and can be asked again.
    None,
    /// It changes what the session is told, and can be said again.
    Session,
    /// Nobody knows.
    Unknown,
}

impl Effect {
    fn of(method: &str) -> Self {
        match method {
            "initialize" => Self::Introduction,
            "subscriptions/listen" => Self::Endless,
            "ping"
            | "server/discover"
            | "tools/list"
            | "resources/list"
            | "resources/templates/list"
            | "prompts/list"
            | "completion/complete" => Self::None,
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => Self::Session,
            _ => Self::Unknown,
        }
    }

    /// Whether a request may be sent once more although the server may have seen it.
    pub(super) const fn is_repeatable(self) -> bool {
        match self {
            Self::Introduction | Self::None | Self::Session => true,
            Self::Endless | Self::Unknown => false,
        }
    }
}

/// A request as it is carried.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) id: Raw,
    pub(super) method: String,
    pub(super) era: Era,
    pub(super) effect: Effect,
    pub(super) body: Bytes,
    /// What a modern request repeats of its body.
    pub(super) headers: HeaderMap,
    /// What the session is to be told again when it is lost: the kind of thing, and which.
    pub(super) about: String,
    /// Set once the client has taken it back: then it wants no answer.
    pub(super) withdrawn: Arc<AtomicBool>,
}

impl Asked {
    /// The request `(id, method, params)` that was written as `text`.
    pub(super) fn new(
        headed: &HeadedTools,
        (id, method, params): (&RawValue, &str, Option<&RawValue>),
        text: &str,
    ) -> Self {
        let params = params.and_then(RawObject::parse).unwrap_or_default();
        let meta = params.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        let era = Era::judge(method, &meta, None);
        let mut headers = HeaderMap::new();
        if era == Era::Modern {
            repeat(&mut headers, method, &params, &meta);
            if let (Some(tool), Some(arguments)) =
                (params.get_text("name"), params.get("arguments"))
                && let Some(headed) = headed.lock().get(&tool)
            {
                headers.extend(param_headers::values(headed, arguments));
            }
        }
        let effect = Effect::of(method);
        let about = match effect {
            Effect::Session => params.get_text("uri").unwrap_or_default(),
            _ => String::new(),
        };
        let body = Bytes::copy_from_slice(text.as_bytes());
        Self {
            id: id.to_owned(),
            method: method.to_owned(),
            era,
            effect,
            body,
            headers,
            about,
            withdrawn: Arc::default(),
        }
    }
}

fn repeat(headers: &mut HeaderMap, method: &str, params: &RawObject<'_>, meta: &RawObject<'_>) {
    if let Some(version) = meta.get_text(VERSION_KEY) {
        headers.insert(param_headers::VERSION, param_headers::encoded(&version));
    }
    headers.insert(param_headers::METHOD, param_headers::encoded(method));
    if let Some(name) = name_param(method).and_then(|key| params.get_text(key)) {
        headers.insert(param_headers::NAME, param_headers::encoded(&name));
    }
}

/// Learns from a list of tools which arguments headers repeat.
pub(super) fn learn(tools: &HeadedTools, answer: &[u8]) {
    let annotation = param_headers::ANNOTATION.as_bytes();
    if !answer.windows(annotation.len()).any(|bytes| bytes == annotation) {
        return;
    }
    let Ok(answer) = serde_json::from_slice::<&RawValue>(answer) else { return };
    let result =
        RawObject::parse(answer).and_then(|answer| answer.get("result").map(ToOwned::to_owned));
    let Some(result) = result else { return };
    let listed =
        RawObject::parse(&result).and_then(|result| result.get("tools").map(ToOwned::to_owned));
    let listed: Vec<Raw> =
        listed.and_then(|listed| serde_json::from_str(listed.get()).ok()).unwrap_or_default();
    for tool in &listed {
        let name = RawObject::parse(tool).and_then(|tool| tool.get_text("name"));
        if let (Some(name), Ok(headed)) = (name, param_headers::headed(tool)) {
            tools.lock().insert(name, headed);
        }
    }
}

/// The id of the request that a notification takes back.
pub(super) fn cancelled(method: &str, params: Option<&RawValue>) -> Option<String> {
    if method != "notifications/cancelled" {
        return None;
    }
    params.and_then(RawObject::parse)?.get("requestId").map(|id| id.get().to_owned())
}

/// The version that a modern notification names.
pub(super) fn version_of(params: Option<&RawValue>) -> Option<String> {
    let params = params.and_then(RawObject::parse)?;
    let meta = params.get("_meta").and_then(RawObject::parse)?;
    meta.get_text(VERSION_KEY)
}

/// The header that names `version`.
pub(super) fn version_header(version: &str) -> HeaderValue {
    param_headers::encoded(version)
}

#[cfg(test)]
mod tests {

    use muster_mcp::{version::Era, wire::Message};

    use super::{Asked, Effect, HeadedTools, learn};

    fn asked(tools: &HeadedTools, text: &str) -> Asked {
        match Message::parse(text).unwrap() {
            Message::Request { id, method, params } => {
                Asked::new(tools, (id, &method, params), text)
            }
            other => panic!("{other:?}"),
        }
    }

    fn headers(asked: &Asked) -> Vec<(&str, &str)> {
        let mut headers: Vec<_> = asked
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
            .collect();
        headers.sort_unstable();
        headers
    }

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    #[test]
    fn a_legacy_request_repeats_nothing() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t"}}"#;
        let asked = asked(&HeadedTools::default(), text);
        assert_eq!((asked.era, asked.effect), (Era::Legacy, Effect::Unknown));
        assert_eq!(asked.body, text);
        assert!(headers(&asked).is_empty());
    }

    #[test]
    fn a_modern_request_repeats_version_method_and_name() {
        let version = ("mcp-protocol-version", "2026-07-28");
        let text =
            format!(r#"{{"id":1,"method":"resources/read","params":{{"uri":"a:ü",{META}}}}}"#);
        let read = asked(&HeadedTools::default(), &text);
        let method = ("mcp-method", "resources/read");
        assert_eq!(headers(&read), [method, ("mcp-name", "=?base64?YTrDvA==?="), version]);
        let text = format!(r#"{{"id":1,"method":"tools/list","params":{{{META}}}}}"#);
        let list = asked(&HeadedTools::default(), &text);
        assert_eq!(headers(&list), [("mcp-method", "tools/list"), version]);
        assert_eq!(list.effect, Effect::None);
    }

    #[test]
    fn arguments_are_repeated_once_their_tool_was_listed() {
        let tools = HeadedTools::default();
        learn(
            &tools,
            br#"{"id":1,"result":{"tools":[{"name":"t","inputSchema":{"properties":{
                "r":{"type":"string","x-mcp-header":"Region"}}}}]}}"#,
        );
        let text = format!(
            r#"{{"id":2,"method":"tools/call","params":{{"name":"t","arguments":{{"r":"eu"}},{META}}}}}"#
        );
        let call = asked(&tools, &text);
        assert!(headers(&call).contains(&("mcp-param-region", "eu")), "{call:?}");
    }

    #[test]
    fn ids_are_kept_as_written() {
        let text = r#"{"id":"\u0061","method":"ping"}"#;
        let asked = asked(&HeadedTools::default(), text);
        assert_eq!(asked.id.get(), r#""\u0061""#);
    }
}
