//! Between the wire's words and the core's: methods to requests, replies and faults to results.

use muster_core::{
    json::{Object, Raw, raw},
    request::{Fault, Identity, Keep, Reply, Request},
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    version::{Era, EraFault, LEGACY, MODERN, SERVER_INFO_KEY, negotiate},
    wire::{RpcError, code},
};

/// What a method asks for.
#[derive(Debug)]
pub enum Asked {
    /// Something the wire layer answers itself.
    Own(Own),
    /// Something for the server behind it.
    Served(Request),
}

/// What the wire layer answers itself.
#[derive(Debug, PartialEq, Eq)]
pub enum Own {
    /// The legacy handshake.
    Initialize {
        /// The version the client would like.
        version: String,
    },
    /// The modern introduction.
    Discover,
    /// Are you there?
    Ping,
}

/// Reads a method and its parameters as a client of `era` means them.
pub fn asked(era: Era, method: &str, params: Option<&RawValue>) -> Result<Asked, RpcError> {
    let members = match params {
        None => Object::new(),
        Some(params) => {
            Object::parse(params).ok_or_else(|| invalid("`params` must be an object"))?
        }
    };
    match (method, era) {
        ("initialize", Era::Legacy) => {
            let version = members.get_text("protocolVersion").unwrap_or_default();
            Ok(Asked::Own(Own::Initialize { version }))
        }
        ("ping", Era::Legacy) => Ok(Asked::Own(Own::Ping)),
        ("server/discover", Era::Modern) => Ok(Asked::Own(Own::Discover)),
        ("tools/list", _) => {
            Ok(Asked::Served(Request::ListTools { cursor: members.get_text("cursor") }))
        }
        ("tools/call", _) => call_tool(&members).map(Asked::Served),
        _ => Err(RpcError::new(code::METHOD_NOT_FOUND, format!("Method not found: {method}"))),
    }
}

fn call_tool(params: &Object<'_>) -> Result<Request, RpcError> {
    let Some(name) = params.get_text("name") else {
        return Err(invalid("`name` must be the name of a tool"));
    };
    let arguments = match params.get("arguments") {
        None => None,
        Some(null) if null.get() == "null" => None,
        Some(arguments) if Object::parse(arguments).is_some() => Some(arguments.to_owned()),
        Some(_) => return Err(invalid("`arguments` must be an object")),
    };
    Ok(Request::CallTool { name, arguments })
}

fn invalid(message: &str) -> RpcError {
    RpcError::new(code::INVALID_PARAMS, format!("Invalid params: {message}"))
}

#[derive(Serialize)]
struct ServerInfo<'a> {
    name: &'a str,
    version: &'a str,
}

#[derive(Serialize)]
struct Capabilities {
    tools: ToolCapabilities,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolCapabilities {
    list_changed: bool,
}

const CAPABILITIES: Capabilities = Capabilities { tools: ToolCapabilities { list_changed: false } };

/// The answer to `initialize`.
pub fn initialized(identity: &Identity, requested: &str) -> Raw {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized<'a> {
        protocol_version: &'static str,
        capabilities: Capabilities,
        server_info: ServerInfo<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<&'a str>,
    }
    raw(&Initialized {
        protocol_version: negotiate(requested),
        capabilities: CAPABILITIES,
        server_info: server_info(identity),
        instructions: identity.instructions.as_deref(),
    })
}

/// The answer to `server/discover`.
pub fn discovered(identity: &Identity) -> Reply {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Discovered<'a> {
        supported_versions: Vec<&'static str>,
        capabilities: Capabilities,
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<&'a str>,
    }
    let result = raw(&Discovered {
        supported_versions: MODERN.into_iter().chain(LEGACY).collect(),
        capabilities: CAPABILITIES,
        instructions: identity.instructions.as_deref(),
    });
    Reply::Done { result, keep: Some(Keep { ttl_ms: 0, shared: false }) }
}

fn server_info(identity: &Identity) -> ServerInfo<'_> {
    ServerInfo { name: &identity.name, version: &identity.version }
}

/// A reply as a client of `era` expects it.
pub fn result(era: Era, identity: &Identity, reply: Reply) -> Raw {
    match (era, reply) {
        (Era::Legacy, Reply::Done { result, .. }) => result,
        (Era::Modern, Reply::Done { result, keep }) => modern(identity, &result, keep),
        (_, Reply::NeedsInput(needs)) => needs.result.unwrap_or_else(|| Object::new().to_raw()),
    }
}

/// Adds what a modern result must carry; what the server behind us set already stays.
fn modern(identity: &Identity, result: &RawValue, keep: Option<Keep>) -> Raw {
    let Some(mut object) = Object::parse(result) else { return result.to_owned() };
    if object.get("resultType").is_none() {
        object.set_value("resultType", "complete");
    }
    if let Some(Keep { ttl_ms, shared }) = keep {
        object.set_value("ttlMs", &ttl_ms);
        object.set_value("cacheScope", if shared { "public" } else { "private" });
    }
    let meta = object.get("_meta").map(ToOwned::to_owned);
    let mut meta = meta.as_deref().and_then(Object::parse).unwrap_or_default();
    if meta.get(SERVER_INFO_KEY).is_none() {
        meta.set_value(SERVER_INFO_KEY, &server_info(identity));
    }
    let meta = meta.to_raw();
    object.set("_meta", std::borrow::Cow::Owned(meta));
    object.to_raw()
}

impl From<Fault> for RpcError {
    fn from(fault: Fault) -> Self {
        let code = match fault {
            Fault::Passed { code, message, data } => return Self { code, message, data },
            Fault::InvalidParams(_)
            | Fault::NoResource { .. }
            | Fault::MissingCapability { .. } => code::INVALID_PARAMS,
            Fault::Internal(_) => code::INTERNAL_ERROR,
            Fault::NotServed(_) => code::METHOD_NOT_FOUND,
        };
        Self::new(code, fault.to_string())
    }
}

impl From<EraFault> for RpcError {
    fn from(fault: EraFault) -> Self {
        #[derive(Serialize)]
        struct Versions {
            supported: [&'static str; 1],
            requested: String,
        }
        match fault {
            EraFault::Incomplete { missing } => invalid(&format!("`_meta` lacks `{missing}`")),
            EraFault::Unsupported { requested } => Self {
                code: code::UNSUPPORTED_VERSION,
                message: "Unsupported protocol version".to_owned(),
                data: Some(raw(&Versions { supported: MODERN, requested })),
            },
        }
    }
}
