//! The offer of a server: its tools, resources and prompts under the names that clients see.

use std::sync::Arc;

use muster_config::mcpserver::{FamilySpec, McpServer};
use muster_core::{
    catalog::{
        self, BackendInfo, CatalogItem, CatalogSource, Offer, ToolEntry, family::ServerFamily,
    },
    connect::ServerListing,
    name::{BackendName, ToolName, exposed_name},
};

/// The server's description in the catalog.
pub(crate) fn about(server: &McpServer) -> BackendInfo {
    BackendInfo {
        title: server.name.as_str().into(),
        description: server.spec.description.as_str().into(),
        category: None,
        tags: Arc::default(),
    }
}

/// The source of a server that is not connected.
pub(crate) fn nothing(server: &McpServer) -> CatalogSource {
    CatalogSource::new(BackendName::new(server.name.as_str()), about(server), Offer::default())
}

/// The source of a server that requires a login: without tools, but in its family.
pub(crate) fn awaiting_login(prefix: &str, server: &McpServer) -> CatalogSource {
    in_family(prefix, server, nothing(server))
}

/// The source as a member of the server's family, if it has one.
fn in_family(prefix: &str, server: &McpServer, source: CatalogSource) -> CatalogSource {
    let family = server.spec.family.as_ref();
    match family.filter(|family| !family.name.is_empty() && !family.instance_arg.is_empty()) {
        None => source,
        Some(FamilySpec { name, instance_arg }) => source.in_family(ServerFamily {
            name: name.clone(),
            instance_arg: instance_arg.clone(),
            prefix: prefix.to_owned(),
        }),
    }
}

/// The source of a server, from its listing.
pub(crate) fn source(prefix: &str, server: &McpServer, listing: &ServerListing) -> CatalogSource {
    let backend = BackendName::new(server.name.as_str());
    let offer = offer(&Naming::of(prefix, server), &backend, listing);
    let mut source = CatalogSource::new(backend, about(server), offer);
    source.tools_members.clone_from(&listing.tools_members);
    in_family(prefix, server, source)
}

/// The offer in a listing. Items without a usable name are skipped.
pub(crate) fn offer(naming: &Naming, backend: &BackendName, listing: &ServerListing) -> Offer {
    for name in catalog::offer::unusable_names(listing) {
        tracing::warn!(
            "`{name}` of server {backend} is not listed: its name is empty, too long, or contains \
             characters that cannot be seen"
        );
    }
    catalog::offer::offer(listing, backend, |local| naming.name(local))
}

/// The source under another prefix or description.
pub(crate) fn renamed(prefix: &str, server: &McpServer, source: &CatalogSource) -> CatalogSource {
    let naming = Naming::of(prefix, server);
    let tool = |entry: &Arc<ToolEntry>| ToolEntry {
        name: ToolName::new(naming.name(&entry.local_name)),
        ..ToolEntry::clone(entry)
    };
    let all = |listed: &[CatalogItem]| {
        let renamed = listed.iter().map(|listed| CatalogItem {
            name: naming.name(&listed.local_name).into(),
            ..listed.clone()
        });
        renamed.collect()
    };
    let addresses = |listed: &[CatalogItem]| {
        let renamed = listed.iter().map(|listed| CatalogItem {
            name: catalog::offer::address(&listed.local_name, |local| naming.name(local)).into(),
            ..listed.clone()
        });
        renamed.collect()
    };
    let offer = Offer {
        tools: source.own_tools().iter().map(tool).collect(),
        resources: addresses(&source.resources),
        templates: addresses(&source.templates),
        prompts: all(&source.prompts),
    };
    let mut renamed = CatalogSource::new(source.backend.clone(), about(server), offer);
    renamed.tools_members.clone_from(&source.tools_members);
    in_family(prefix, server, renamed)
}

/// How the names of a server's tools are formed.
#[derive(Debug, Clone)]
pub enum Naming {
    /// Unchanged: there is only one server.
    Plain,
    /// With the gateway's prefix and the server's.
    Prefixed {
        /// The gateway's prefix.
        prefix: String,
        /// The server's prefix.
        server: String,
    },
}

impl Naming {
    fn of(prefix: &str, server: &McpServer) -> Self {
        Self::Prefixed { prefix: prefix.to_owned(), server: server.prefix().to_owned() }
    }

    /// The common prefix of the names of a server's tools. Unchanged names have none: then it only identifies the
    /// server.
    pub(crate) fn prefix(&self, name: &str) -> String {
        match self {
            Self::Prefixed { prefix, server } => format!("{prefix}_{server}_"),
            Self::Plain => format!("{name}/"),
        }
    }

    pub(crate) fn name(&self, local: &str) -> String {
        match self {
            Self::Prefixed { prefix, server } => exposed_name(prefix, server, local),
            Self::Plain => local.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_config::mcpserver::{McpServer, McpServerSpec, ServerType};
    use muster_core::{connect::ServerListing, json::raw};
    use serde_json::json;

    use super::{renamed, source};

    fn server(prefix: &str) -> McpServer {
        let spec = McpServerSpec {
            tool_prefix: prefix.to_owned(),
            ..McpServerSpec::of(ServerType::Stdio)
        };
        McpServer::new("github", "default", spec)
    }

    #[test]
    fn names_follow_the_rules() {
        let listing = || ServerListing {
            tools: vec![
                raw(&json!({"name": "list"})),
                raw(&json!({"name": "github_list", "inputSchema": {"type": "object", "x": 1}})),
                raw(&json!({"nam": "list"})),
                raw(&json!({"name": ""})),
                raw(&json!({"name": "a\nb"})),
                raw(&json!({"name": "a\u{202e}b"})),
                raw(&json!({"name": "other://list"})),
                raw(&json!([])),
            ],
            resources: vec![raw(&json!({"uri": "file:///a"})), raw(&json!({"uri": "notes"}))],
            templates: vec![raw(&json!({"uriTemplate": "file:///{x}"}))],
            prompts: vec![raw(&json!({"name": "hello"}))],
            ..ServerListing::default()
        };
        let names = |source: &super::CatalogSource| {
            let tools = source.entries().iter().map(|entry| entry.name.to_string());
            let listed = source.resources.iter().chain(&source.templates).chain(&source.prompts);
            tools.chain(listed.map(|listed| listed.name.to_string())).collect::<Vec<_>>()
        };
        let plain = source("x", &server(""), &listing());
        assert_eq!(
            names(&plain),
            [
                "x_github_list",
                "x_github_list",
                "x_github_other://list",
                "file:///a",
                "x_github_notes",
                "file:///{x}",
                "x_github_hello",
            ]
        );
        let schemas: Vec<_> =
            plain.entries().iter().map(|entry| entry.input_schema.get().to_owned()).collect();
        assert_eq!(
            schemas,
            [r#"{"type":"object"}"#, r#"{"type":"object","x":1}"#, r#"{"type":"object"}"#]
        );
        let other = renamed("m", &server("gh"), &plain);
        assert_eq!(
            names(&other),
            [
                "m_gh_list",
                "m_gh_github_list",
                "m_gh_other://list",
                "file:///a",
                "m_gh_notes",
                "file:///{x}",
                "m_gh_hello"
            ]
        );
    }
}
