//! Who we are and what we can do: the answers to `initialize` and `server/discover`.

use muster_core::{
    json::{Raw, raw},
    request::{CacheControl, Response, ServerCapabilities, ServerInfo},
};
use serde::Serialize;

use crate::version::{LEGACY, MODERN, negotiate};

#[derive(Serialize)]
pub(super) struct Implementation<'a> {
    name: &'a str,
    version: &'a str,
}

pub(super) fn server_info(identity: &ServerInfo) -> Implementation<'_> {
    Implementation { name: &identity.name, version: &identity.version }
}

/// What is not on offer is left out: some clients stumble over `null`.
#[derive(Serialize)]
struct Capabilities {
    tools: Listed,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Subscribed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompts: Option<Listed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completions: Option<Plain>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logging: Option<Plain>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed {
    list_changed: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Subscribed {
    subscribe: bool,
    list_changed: bool,
}

#[derive(Serialize)]
struct Plain {}

fn capabilities(offers: ServerCapabilities) -> Capabilities {
    let ServerCapabilities { tools_change, resources, prompts, completions, logging } = offers;
    Capabilities {
        tools: Listed { list_changed: tools_change },
        resources: resources.then_some(Subscribed { subscribe: true, list_changed: true }),
        prompts: prompts.then_some(Listed { list_changed: tools_change }),
        completions: completions.then_some(Plain {}),
        logging: logging.then_some(Plain {}),
    }
}

/// The answer to `initialize`.
pub(crate) fn initialized(
    identity: &ServerInfo,
    offers: ServerCapabilities,
    requested: &str,
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
        protocol_version: negotiate(requested),
        capabilities: capabilities(offers),
        server_info: server_info(identity),
        instructions: identity.instructions.as_deref(),
    })
}

/// The answer to `server/discover`.
pub(crate) fn discovered(identity: &ServerInfo, offers: ServerCapabilities) -> Response {
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
        capabilities: capabilities(offers),
        instructions: identity.instructions.as_deref(),
    });
    Response::Done { result, cache: Some(CacheControl { ttl_ms: 0, shared: false }) }
}

#[cfg(test)]
mod tests {
    use muster_core::request::{ServerCapabilities, ServerInfo};

    use super::initialized;

    #[test]
    fn what_is_not_offered_is_not_mentioned() {
        let identity =
            ServerInfo { name: "n".to_owned(), version: "v".to_owned(), instructions: None };
        let told = |offers| initialized(&identity, offers, "2025-06-18").get().to_owned();
        assert_eq!(
            told(ServerCapabilities::default()),
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
            told(all),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true},"resources":{"subscribe":true,"listChanged":true},"prompts":{"listChanged":true},"completions":{},"logging":{}},"serverInfo":{"name":"n","version":"v"}}"#
        );
    }
}
