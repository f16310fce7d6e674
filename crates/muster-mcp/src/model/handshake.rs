//! The results of `initialize` and `server/discover`.

use muster_core::{
    json::{Raw, raw},
    request::{CacheControl, Response, ServerCapabilities, ServerInfo},
};
use serde::Serialize;

use crate::version::{LEGACY, MODERN};

#[derive(Serialize)]
pub(super) struct Implementation<'a> {
    name: &'a str,
    version: &'a str,
}

pub(super) fn server_info(info: &ServerInfo) -> Implementation<'_> {
    Implementation { name: &info.name, version: &info.version }
}

/// The capabilities of a server. Absent ones are omitted: some clients fail on `null`.
#[derive(Serialize)]
struct Capabilities {
    tools: ListCapability,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<ResourceCapability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<ListCapability>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completions: Option<EmptyObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logging: Option<EmptyObject>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListCapability {
    list_changed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceCapability {
    subscribe: bool,
    list_changed: bool,
}

#[derive(Serialize)]
struct EmptyObject {}

fn capabilities(offered: ServerCapabilities) -> Capabilities {
    let ServerCapabilities { tools_change, resources, prompts, completions, logging } = offered;
    Capabilities {
        tools: ListCapability { list_changed: tools_change },
        resources: resources.then_some(ResourceCapability { subscribe: true, list_changed: true }),
        prompts: prompts.then_some(ListCapability { list_changed: tools_change }),
        completions: completions.then_some(EmptyObject {}),
        logging: logging.then_some(EmptyObject {}),
    }
}

/// The result of `initialize`, with the negotiated version.
pub(crate) fn initialized(
    info: &ServerInfo,
    offered: ServerCapabilities,
    protocol_version: &'static str,
) -> Raw {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Initialized<'a> {
        protocol_version: &'static str,
        capabilities: Capabilities,
        server_info: Implementation<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        instructions: Option<&'a str>,
    }
    raw(&Initialized {
        protocol_version,
        capabilities: capabilities(offered),
        server_info: server_info(info),
        instructions: info.instructions.as_deref(),
    })
}

/// The result of `server/discover`.
pub(crate) fn discovered(info: &ServerInfo, offered: ServerCapabilities) -> Response {
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
        capabilities: capabilities(offered),
        instructions: info.instructions.as_deref(),
    });
    Response::Done { result, cache: Some(CacheControl { ttl_ms: 0, shared: false }) }
}

#[cfg(test)]
mod tests {
    use muster_core::request::{ServerCapabilities, ServerInfo};

    use super::initialized;

    #[test]
    fn absent_capabilities_are_omitted() {
        let info = ServerInfo { name: "n".to_owned(), version: "v".to_owned(), instructions: None };
        let result = |offered| initialized(&info, offered, "2025-06-18").get().to_owned();
        assert_eq!(
            result(ServerCapabilities::default()),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":false}},"serverInfo":{"name":"n","version":"v"}}"#
        );
        let all = ServerCapabilities {
            tools_change: true,
            resources: true,
            prompts: true,
            completions: true,
            logging: true,
        };
        assert_eq!(
            result(all),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}},"serverInfo":{"name":"n","version":"v"}}"#
        );
    }
}
