//! The kinds of definitions: each is a folder of the configuration directory, and a Kubernetes resource.

use crate::formats::FileFormat;

/// The API group of the Kubernetes resources.
pub const API_GROUP: &str = "muster.giantswarm.io";
/// The version of the Kubernetes resources.
pub const API_VERSION: &str = "v1alpha1";

/// A kind of definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DefinitionKind {
    /// An upstream MCP server.
    McpServer,
    /// A saved sequence of tool calls.
    Workflow,
    /// The tools that run a kind of service.
    ServiceClass,
    /// An instance of a service class.
    Service,
    /// The definition of a CLI.
    Cli,
    /// Which tools exist for callers.
    Policy,
    /// A selection of tools.
    Toolset,
}

impl DefinitionKind {
    /// Every kind. Kinds that restrict callers come before kinds that give them tools, so that a copy made in this
    /// order never lacks its policies.
    pub const ALL: [Self; 7] = [
        Self::Policy,
        Self::Toolset,
        Self::McpServer,
        Self::Workflow,
        Self::ServiceClass,
        Self::Service,
        Self::Cli,
    ];

    /// Its folder in the configuration directory.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::McpServer => "mcpservers",
            Self::Workflow => "workflows",
            Self::ServiceClass => "serviceclasses",
            Self::Service => "services",
            Self::Cli => "clis",
            Self::Policy => "policies",
            Self::Toolset => "toolsets",
        }
    }

    /// The `kind` of its Kubernetes resource. Some differ from the `kind` in files, because `kubectl get services`
    /// already has a meaning.
    pub const fn resource_kind(self) -> &'static str {
        match self {
            Self::McpServer => "MCPServer",
            Self::Workflow => "Workflow",
            Self::ServiceClass => "ServiceClass",
            Self::Service => "ServiceInstance",
            Self::Cli => "CLIConfig",
            Self::Policy => "ToolPolicy",
            Self::Toolset => "Toolset",
        }
    }

    /// The plural of its Kubernetes resource, as in API paths.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::McpServer => "mcpservers",
            Self::Workflow => "workflows",
            Self::ServiceClass => "serviceclasses",
            Self::Service => "serviceinstances",
            Self::Cli => "cliconfigs",
            Self::Policy => "toolpolicies",
            Self::Toolset => "toolsets",
        }
    }

    /// The `kind` of its files; `None` if a file is the bare spec, without a name.
    pub const fn file_kind(self) -> Option<&'static str> {
        match self {
            Self::McpServer => Some("MCPServer"),
            Self::Workflow => Some("Workflow"),
            Self::ServiceClass => Some("ServiceClass"),
            Self::Service => Some("Service"),
            Self::Toolset => Some("Toolset"),
            Self::Cli | Self::Policy => None,
        }
    }

    /// The kind of a Kubernetes resource.
    pub fn of_resource(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.resource_kind() == kind)
    }

    /// The format of its files.
    pub fn format(self) -> Option<&'static FileFormat> {
        FileFormat::of_folder(self.folder())
    }
}

#[cfg(test)]
mod tests {
    use super::DefinitionKind;

    #[test]
    fn every_kind_has_a_format() {
        for kind in DefinitionKind::ALL {
            let format = kind.format().unwrap();
            assert_eq!(format.folder(), Some(kind.folder()));
            assert_eq!(DefinitionKind::of_resource(kind.resource_kind()), Some(kind));
        }
    }
}
