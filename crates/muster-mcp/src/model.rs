//! Between the wire's words and the core's: methods to requests, replies and faults to results.

mod introduction;
mod result;

use muster_core::{
    backend::ResourceOperation,
    client::Continuation,
    json::{Raw, RawObject},
    request::{self, Request},
};
use serde_json::value::RawValue;

pub(crate) use self::{
    introduction::{discovered, initialized},
    result::{empty, fault, result},
};
use crate::{
    level::Level,
    listen::Filter,
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
    /// The method that a client of `era` means.
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

    /// Whether a modern client must be told how long it may keep the answer.
    pub(crate) const fn is_kept(self) -> bool {
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

/// What a method asks for.
#[derive(Debug)]
pub(crate) enum Asked {
    /// The legacy handshake.
    Initialize {
        /// The version the client would like.
        version: String,
        /// What the client can do.
        capabilities: Raw,
    },
    /// The modern introduction.
    Discover,
    /// Are you there?
    Ping,
    /// Word of changes, until taken back.
    Listen(Filter),
    /// Something for the server behind.
    Served(request::ClientRequest),
}

impl Asked {
    /// The tool that is called, with its arguments.
    pub(crate) fn called(&self) -> Option<(&str, Option<&RawValue>)> {
        match self {
            Self::Served(asked) => match &asked.request {
                Request::CallTool { name, arguments } => Some((name, arguments.as_deref())),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Reads the parameters of a method; `meta` is what they have as `_meta`.
pub(crate) fn asked(
    method: Method,
    params: &RawObject<'_>,
    raw: Option<&RawValue>,
) -> Result<Asked, RpcError> {
    let request = match method {
        Method::Initialize => {
            let version = params.get_text("protocolVersion").unwrap_or_default();
            return Ok(Asked::Initialize { version, capabilities: object(params, "capabilities") });
        }
        Method::Ping => return Ok(Asked::Ping),
        Method::Discover => return Ok(Asked::Discover),
        Method::Listen => return Filter::read(params).map(Asked::Listen),
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
            if Level::named(&level).is_none() {
                return Err(invalid(&format!("`level` must be a log level, not `{level}`")));
            }
            Request::SetLogLevel { level }
        }
    };
    let meta = params.get("_meta").and_then(version::passed_on);
    Ok(Asked::Served(request::ClientRequest { request, meta, continuation: continuation(params) }))
}

/// What a client brings along when it comes again with answers: exactly what it sent.
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
        // Whether it is JSON was seen when the message was read; what is left is its kind.
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

/// The parameters as sent, without what belongs to the client's connection with us.
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

/// The parameters do not fit.
pub(crate) fn invalid(message: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, format!("Invalid params: {message}"))
}

#[cfg(test)]
mod tests {
    use muster_core::json::RawObject;
    use serde_json::value::RawValue;

    use super::{Asked, Method, asked};
    use crate::version::Era;

    fn read(era: Era, method: &str, params: &str) -> String {
        let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
        let Some(method) = Method::of(era, method) else { return "unknown".to_owned() };
        match asked(method, &RawObject::parse(&raw).unwrap(), Some(&raw)) {
            Ok(Asked::Served(asked)) => format!("{:?}", asked.request),
            Ok(asked) => format!("{asked:?}"),
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
    fn answers_and_state_are_kept_as_sent() {
        let params = r#"{"name":"t","inputResponses":{ "a" :1.0},"requestState":"x\u0041"}"#;
        let raw: Box<RawValue> = serde_json::from_str(params).unwrap();
        let Ok(Asked::Served(asked)) =
            asked(Method::CallTool, &RawObject::parse(&raw).unwrap(), Some(&raw))
        else {
            panic!("not served");
        };
        assert_eq!(asked.continuation.responses.unwrap().get(), r#"{ "a" :1.0}"#);
        assert_eq!(asked.continuation.state.unwrap().get(), r#""x\u0041""#);
    }
}
