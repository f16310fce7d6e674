//! Decodes methods to the requests of the gateway, and encodes its responses and errors.

mod handshake;
mod result;

use muster_core::{
    backend::ResourceOperation,
    client::Continuation,
    json::{Raw, RawObject},
    request::{self, Request},
    trace_context::{SpanContext, TRACEPARENT},
};
use serde_json::value::RawValue;

pub(crate) use self::{
    handshake::{discovered, initialized},
    result::{empty, result, rpc_error},
};
use crate::{
    change_notifications::SubscriptionFilter,
    log_level::LogLevel,
    version::{self, Era},
    wire::{RpcError, code},
};

/// The methods that are served, of either era.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// `initialize`
    Initialize,
    /// `ping`
    Ping,
    /// `server/discover`
    Discover,
    /// `subscriptions/listen`
    Listen,
    /// `tools/list`
    ListTools,
    /// `tools/call`
    CallTool,
    /// `resources/list`
    ListResources,
    /// `resources/templates/list`
    ListTemplates,
    /// `resources/read`
    Read,
    /// `resources/subscribe`
    Subscribe,
    /// `resources/unsubscribe`
    Unsubscribe,
    /// `prompts/list`
    ListPrompts,
    /// `prompts/get`
    Prompt,
    /// `completion/complete`
    Complete,
    /// `logging/setLevel`
    SetLogLevel,
}

impl Method {
    /// The method of that name in `era`.
    pub(crate) fn of(era: Era, name: &str) -> Option<Self> {
        Some(match (name, era) {
            ("initialize", Era::Legacy) => Self::Initialize,
            ("ping", Era::Legacy) => Self::Ping,
            ("resources/subscribe", Era::Legacy) => Self::Subscribe,
            ("resources/unsubscribe", Era::Legacy) => Self::Unsubscribe,
            ("logging/setLevel", Era::Legacy) => Self::SetLogLevel,
            ("server/discover", Era::Modern) => Self::Discover,
            ("subscriptions/listen", Era::Modern) => Self::Listen,
            ("tools/list", _) => Self::ListTools,
            ("tools/call", _) => Self::CallTool,
            ("resources/list", _) => Self::ListResources,
            ("resources/templates/list", _) => Self::ListTemplates,
            ("resources/read", _) => Self::Read,
            ("prompts/list", _) => Self::ListPrompts,
            ("prompts/get", _) => Self::Prompt,
            ("completion/complete", _) => Self::Complete,
            _ => return None,
        })
    }

    /// Whether the result must say how long a modern client may cache it.
    pub(crate) const fn is_cacheable(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ListTools
                | Self::ListResources
                | Self::ListTemplates
                | Self::ListPrompts
                | Self::Read
        )
    }
}

/// A decoded method.
#[derive(Debug)]
pub(crate) enum DecodedRequest {
    /// The legacy handshake.
    Initialize {
        /// The version that the client requests.
        version: String,
        /// The capabilities of the client.
        capabilities: Raw,
    },
    /// The modern `server/discover`.
    Discover,
    /// `ping`
    Ping,
    /// Change notifications until the request is cancelled.
    Listen(SubscriptionFilter),
    /// A request that the handler serves. Boxed, because it passes through several futures, and each reserves room for it.
    Handled(Box<request::ClientRequest>),
}

impl DecodedRequest {
    /// The name and the arguments of a tool call.
    pub(crate) fn tool_call(&self) -> Option<(&str, Option<&RawValue>)> {
        match self {
            Self::Handled(request) => match &request.request {
                Request::CallTool { name, arguments } => Some((name, arguments.as_deref())),
                _ => None,
            },
            _ => None,
        }
    }

    /// Uses the trace context of the transport if the request has none of its own.
    pub(crate) fn trace_by_default(&mut self, traceparent: &str) {
        if let Self::Handled(request) = self
            && request.meta.as_ref().is_none_or(|meta| !meta.get().contains(TRACEPARENT))
            && let Some(context) = SpanContext::parse(traceparent)
        {
            request.meta = Some(context.into_meta(request.meta.as_deref()));
        }
    }
}

/// Decodes the parameters of a method.
pub(crate) fn decode(
    method: Method,
    params: &RawObject<'_>,
    raw: Option<&RawValue>,
) -> Result<DecodedRequest, RpcError> {
    let request = match method {
        Method::Initialize => {
            let version = params.get_text("protocolVersion").unwrap_or_default();
            return Ok(DecodedRequest::Initialize {
                version,
                capabilities: object(params, "capabilities"),
            });
        }
        Method::Ping => return Ok(DecodedRequest::Ping),
        Method::Discover => return Ok(DecodedRequest::Discover),
        Method::Listen => return SubscriptionFilter::read(params).map(DecodedRequest::Listen),
        Method::ListTools => Request::ListTools { cursor: cursor(params)? },
        Method::ListResources => Request::ListResources { cursor: cursor(params)? },
        Method::ListTemplates => Request::ListTemplates { cursor: cursor(params)? },
        Method::ListPrompts => Request::ListPrompts { cursor: cursor(params)? },
        Method::CallTool => Request::CallTool {
            name: text(params, "name", "the name of a tool")?,
            arguments: arguments(params)?,
        },
        Method::Read => Request::Resource(ResourceOperation::Read { uri: uri(params)? }),
        Method::Subscribe => Request::Resource(ResourceOperation::Subscribe { uri: uri(params)? }),
        Method::Unsubscribe => {
            Request::Resource(ResourceOperation::Unsubscribe { uri: uri(params)? })
        }
        Method::Prompt => Request::Resource(ResourceOperation::Prompt {
            name: text(params, "name", "the name of a prompt")?,
            arguments: arguments(params)?,
        }),
        Method::Complete => {
            Request::Resource(ResourceOperation::Complete { params: completion(params, raw)? })
        }
        Method::SetLogLevel => {
            let level = text(params, "level", "a log level")?;
            if LogLevel::from_name(&level).is_none() {
                return Err(invalid(&format!("`level` must be a log level, not `{level}`")));
            }
            Request::SetLogLevel { level }
        }
    };
    let meta = params.get("_meta").and_then(version::forwarded);
    let continuation = continuation(params);
    Ok(DecodedRequest::Handled(Box::new(request::ClientRequest { request, meta, continuation })))
}

/// The input responses of a repeated request, as written.
fn continuation(params: &RawObject<'_>) -> Continuation {
    Continuation {
        responses: params.get("inputResponses").map(ToOwned::to_owned),
        state: params.get("requestState").map(ToOwned::to_owned),
    }
}

fn text(params: &RawObject<'_>, key: &str, what: &str) -> Result<String, RpcError> {
    params.get_text(key).ok_or_else(|| invalid(&format!("`{key}` must be {what}")))
}

fn uri(params: &RawObject<'_>) -> Result<String, RpcError> {
    text(params, "uri", "the address of a resource")
}

fn cursor(params: &RawObject<'_>) -> Result<Option<String>, RpcError> {
    match params.get("cursor") {
        None => Ok(None),
        Some(null) if null.get() == "null" => Ok(None),
        Some(_) => text(params, "cursor", "a text").map(Some),
    }
}

fn arguments(params: &RawObject<'_>) -> Result<Option<Raw>, RpcError> {
    match params.get("arguments") {
        None => Ok(None),
        Some(null) if null.get() == "null" => Ok(None),
        // The message was parsed as JSON, so only the type is left to check.
        Some(arguments) if arguments.get().starts_with('{') => Ok(Some(arguments.to_owned())),
        Some(_) => Err(invalid("`arguments` must be an object")),
    }
}

fn object(params: &RawObject<'_>, key: &str) -> Raw {
    match params.get(key) {
        Some(object) if object.get().starts_with('{') => object.to_owned(),
        _ => RawObject::new().to_raw(),
    }
}

/// The parameters as written, without `_meta`.
fn completion(params: &RawObject<'_>, raw: Option<&RawValue>) -> Result<Raw, RpcError> {
    for key in ["ref", "argument"] {
        if !params.get(key).is_some_and(|value| value.get().starts_with('{')) {
            return Err(invalid(&format!("`{key}` must be an object")));
        }
    }
    match raw {
        Some(raw) if params.get("_meta").is_none() => Ok(raw.to_owned()),
        _ => {
            let mut params = params.clone();
            params.remove("_meta");
            Ok(params.to_raw())
        }
    }
}

/// An error for invalid parameters.
pub(crate) fn invalid(message: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, format!("Invalid params: {message}"))
}

#[cfg(test)]
mod tests {
    use muster_core::json::RawObject;
    use serde_json::value::RawValue;

    use super::{DecodedRequest, Method, decode};
    use crate::version::Era;

    fn read(era: Era, method: &str, params: &str) -> String {
        let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
        let Some(method) = Method::of(era, method) else { return "unknown".to_owned() };
        match decode(method, &RawObject::parse(&raw).unwrap(), Some(&raw)) {
            Ok(DecodedRequest::Handled(request)) => format!("{:?}", request.request),
            Ok(request) => format!("{request:?}"),
            Err(error) => error.message,
        }
    }

    #[test]
    fn each_era_has_its_methods() {
        let both = "{}";
        for (method, legacy, modern) in [
            ("initialize", true, false),
            ("ping", true, false),
            ("server/discover", false, true),
            ("subscriptions/listen", false, true),
            ("logging/setLevel", true, false),
            ("resources/subscribe", true, false),
            ("resources/unsubscribe", true, false),
            ("tools/list", true, true),
            ("resources/list", true, true),
            ("resources/templates/list", true, true),
            ("resources/read", true, true),
            ("prompts/list", true, true),
            ("prompts/get", true, true),
            ("completion/complete", true, true),
            ("tools/call", true, true),
            ("tasks/get", false, false),
        ] {
            assert_eq!(read(Era::Legacy, method, both) != "unknown", legacy, "{method}");
            assert_eq!(read(Era::Modern, method, both) != "unknown", modern, "{method}");
        }
    }

    #[test]
    fn parameters_become_requests() {
        let check = |method: &str, params: &str, expected: &str| {
            assert_eq!(read(Era::Legacy, method, params), expected);
        };
        check("tools/list", r#"{"cursor":""}"#, r#"ListTools { cursor: Some("") }"#);
        check("tools/list", r#"{"cursor":1}"#, "Invalid params: `cursor` must be a text");
        check(
            "tools/call",
            r#"{"name":"t","arguments":{ "n" : 1.0 }}"#,
            r#"CallTool { name: "t", arguments: Some(RawValue({ "n" : 1.0 })) }"#,
        );
        check(
            "tools/call",
            r#"{"name":"t","arguments":null}"#,
            r#"CallTool { name: "t", arguments: None }"#,
        );
        check("tools/call", "{}", "Invalid params: `name` must be the name of a tool");
        check(
            "tools/call",
            r#"{"name":"t","arguments":[]}"#,
            "Invalid params: `arguments` must be an object",
        );
        check("resources/read", r#"{"uri":"a:b"}"#, r#"Resource(Read { uri: "a:b" })"#);
        check("resources/read", "{}", "Invalid params: `uri` must be the address of a resource");
        check(
            "prompts/get",
            r#"{"name":"p"}"#,
            r#"Resource(Prompt { name: "p", arguments: None })"#,
        );
        check(
            "completion/complete",
            r#"{"ref":{},"argument":{},"_meta":{}}"#,
            r#"Resource(Complete { params: RawValue({"ref":{},"argument":{}}) })"#,
        );
        check("completion/complete", "{}", "Invalid params: `ref` must be an object");
        check("logging/setLevel", r#"{"level":"info"}"#, r#"SetLogLevel { level: "info" }"#);
        check(
            "logging/setLevel",
            r#"{"level":"x"}"#,
            "Invalid params: `level` must be a log level, not `x`",
        );
    }

    #[test]
    fn input_responses_and_state_stay_as_written() {
        let params = r#"{"name":"t","inputResponses":{ "a" :1.0},"requestState":"x\u0041"}"#;
        let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
        let Ok(DecodedRequest::Handled(request)) =
            decode(Method::CallTool, &RawObject::parse(&raw).unwrap(), Some(&raw))
        else {
            panic!("not handled");
        };
        assert_eq!(request.continuation.responses.unwrap().get(), r#"{ "a" :1.0}"#);
        assert_eq!(request.continuation.state.unwrap().get(), r#""x\u0041""#);
    }
}
