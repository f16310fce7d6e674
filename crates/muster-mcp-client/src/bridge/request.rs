//! Requests of the bridged client.

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicBool},
};

use bytes::Bytes;
use muster_core::{
    json::{Raw, RawObject},
    lock::Lock,
};
use muster_mcp::{
    headers::name_param,
    param_headers::{self, ParamHeader, RoutingHeaders},
    version::{Era, VERSION_KEY},
};
use serde_json::value::RawValue;

/// The arguments that headers repeat, by tool, for the tools that have been listed so far.
pub(super) type ToolHeaders = Lock<BTreeMap<String, Vec<ParamHeader>>>;

/// The kind of a request, which decides whether it may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Begins a session.
    Initialize,
    /// Delivers change notifications until it is cancelled.
    Subscription,
    /// Has no effect.
    ReadOnly,
    /// Changes the state of the session; repeating it changes nothing.
    SessionState,
    /// May have any effect.
    Other,
}

impl RequestKind {
    fn of(method: &str) -> Self {
        match method {
            "initialize" => Self::Initialize,
            "subscriptions/listen" => Self::Subscription,
            "ping"
            | "server/discover"
            | "tools/list"
            | "resources/list"
            | "resources/templates/list"
            | "prompts/list"
            | "completion/complete" => Self::ReadOnly,
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
                Self::SessionState
            }
            _ => Self::Other,
        }
    }

    /// Whether the request may be sent again although the upstream may have processed it.
    pub(super) const fn is_repeatable(self) -> bool {
        match self {
            Self::Initialize | Self::ReadOnly | Self::SessionState => true,
            Self::Subscription | Self::Other => false,
        }
    }
}

/// A request of the client on its way to the upstream.
#[derive(Debug)]
pub(super) struct BridgedRequest {
    pub(super) id: Raw,
    pub(super) method: String,
    pub(super) era: Era,
    pub(super) kind: RequestKind,
    pub(super) body: Bytes,
    /// The headers of a modern request; `None` for a legacy one.
    pub(super) headers: Option<RoutingHeaders>,
    /// The resource that the session state concerns; empty for other requests.
    pub(super) uri: String,
    /// Set once the client has cancelled the request: then it expects no response.
    pub(super) cancelled: Arc<AtomicBool>,
}

impl BridgedRequest {
    /// The request `(id, method, params)` that is written as `text`.
    pub(super) fn new(
        tools: &ToolHeaders,
        (id, method, params): (&RawValue, &str, Option<&RawValue>),
        text: &str,
    ) -> Self {
        let params = params.and_then(RawObject::parse).unwrap_or_default();
        let meta = params.get("_meta").and_then(RawObject::parse).unwrap_or_default();
        let era = Era::of_request(method, &meta, None);
        let headers = (era == Era::Modern).then(|| routing(tools, method, &params, &meta));
        let kind = RequestKind::of(method);
        let uri = match kind {
            RequestKind::SessionState => params.get_text("uri").unwrap_or_default(),
            _ => String::new(),
        };
        Self {
            id: id.to_owned(),
            method: method.to_owned(),
            era,
            kind,
            body: Bytes::copy_from_slice(text.as_bytes()),
            headers,
            uri,
            cancelled: Arc::default(),
        }
    }
}

fn routing(
    tools: &ToolHeaders,
    method: &str,
    params: &RawObject<'_>,
    meta: &RawObject<'_>,
) -> RoutingHeaders {
    let version = meta.get_text(VERSION_KEY);
    let name = name_param(method).and_then(|key| params.get_text(key));
    let mut values = Vec::new();
    if let (Some(tool), Some(arguments)) = (params.get_text("name"), params.get("arguments"))
        && let Some(headers) = tools.lock().get(&tool)
    {
        values = param_headers::values(headers, arguments);
    }
    RoutingHeaders::new(version.as_deref(), method, name.as_deref(), values)
}

/// Learns from a list of tools which arguments headers repeat.
pub(super) fn learn_headers(tools: &ToolHeaders, response: &[u8]) {
    let annotation = param_headers::ANNOTATION.as_bytes();
    if memchr::memmem::find(response, annotation).is_none() {
        return;
    }
    let Ok(response) = serde_json::from_slice::<&RawValue>(response) else { return };
    let Some(response) = RawObject::parse(response) else { return };
    let Some(result) = response.get("result").and_then(RawObject::parse) else { return };
    let listed = result.get("tools").and_then(|listed| serde_json::from_str(listed.get()).ok());
    let listed: Vec<&RawValue> = listed.unwrap_or_default();
    for tool in listed {
        let name = RawObject::parse(tool).and_then(|tool| tool.get_text("name"));
        if let (Some(name), Ok(headers)) = (name, param_headers::of_tool(tool)) {
            tools.lock().insert(name, headers);
        }
    }
}

/// The id of the request that a notification cancels.
pub(super) fn cancelled_id(method: &str, params: Option<&RawValue>) -> Option<String> {
    if method != "notifications/cancelled" {
        return None;
    }
    params.and_then(RawObject::parse)?.get("requestId").map(|id| id.get().to_owned())
}

/// The protocol version that a modern notification names.
pub(super) fn version_of(params: Option<&RawValue>) -> Option<String> {
    let params = params.and_then(RawObject::parse)?;
    let meta = params.get("_meta").and_then(RawObject::parse)?;
    meta.get_text(VERSION_KEY)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use muster_mcp::{version::Era, wire::Message};

    use super::{BridgedRequest, RequestKind, ToolHeaders, learn_headers};

    fn request(tools: &ToolHeaders, text: &str) -> BridgedRequest {
        match Message::parse(text).unwrap() {
            Message::Request { id, method, params } => {
                BridgedRequest::new(tools, (id, &method, params), text)
            }
            other => panic!("{other:?}"),
        }
    }

    fn headers(request: &BridgedRequest) -> Vec<(String, String)> {
        let mut map = HeaderMap::new();
        if let Some(headers) = &request.headers {
            headers.apply(&mut map);
        }
        let text = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            (name.as_str().to_owned(), value.to_str().unwrap().to_owned())
        };
        let mut headers: Vec<_> = map.iter().map(text).collect();
        headers.sort_unstable();
        headers
    }

    fn header(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    const META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;

    #[test]
    fn a_legacy_request_has_no_routing_headers() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t"}}"#;
        let request = request(&ToolHeaders::default(), text);
        assert_eq!((request.era, request.kind), (Era::Legacy, RequestKind::Other));
        assert_eq!(request.body, text);
        assert!(headers(&request).is_empty());
    }

    #[test]
    fn a_modern_request_repeats_version_method_and_name() {
        let version = header("mcp-protocol-version", "2026-07-28");
        let text =
            format!(r#"{{"id":1,"method":"resources/read","params":{{"uri":"a:ü",{META}}}}}"#);
        let read = request(&ToolHeaders::default(), &text);
        let method = header("mcp-method", "resources/read");
        let name = header("mcp-name", "=?base64?YTrDvA==?=");
        assert_eq!(headers(&read), [method, name, version.clone()]);
        let text = format!(r#"{{"id":1,"method":"tools/list","params":{{{META}}}}}"#);
        let list = request(&ToolHeaders::default(), &text);
        assert_eq!(headers(&list), [header("mcp-method", "tools/list"), version]);
        assert_eq!(list.kind, RequestKind::ReadOnly);
    }

    #[test]
    fn arguments_are_repeated_once_their_tool_was_listed() {
        let tools = ToolHeaders::default();
        learn_headers(
            &tools,
            br#"{"id":1,"result":{"tools":[{"name":"t","inputSchema":{"properties":{
                "r":{"type":"string","x-mcp-header":"Region"}}}}]}}"#,
        );
        let text = format!(
            r#"{{"id":2,"method":"tools/call","params":{{"name":"t","arguments":{{"r":"eu"}},{META}}}}}"#
        );
        let call = request(&tools, &text);
        assert!(headers(&call).contains(&header("mcp-param-region", "eu")), "{call:?}");
    }

    #[test]
    fn ids_stay_as_written() {
        let text = r#"{"id":"\u0061","method":"ping"}"#;
        let request = request(&ToolHeaders::default(), text);
        assert_eq!(request.id.get(), r#""\u0061""#);
    }
}
