//! The kinds of resources of a gateway, and the core tools that list them.

use muster_core::suggest::similar;

use crate::error::CommandError;

/// A kind of resource of a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResourceKind {
    Service,
    ServiceClass,
    McpServer,
    Workflow,
    WorkflowExecution,
    Tool,
    Resource,
    Prompt,
}

use ResourceKind::{
    McpServer, Prompt, Resource, Service, ServiceClass, Tool, Workflow, WorkflowExecution,
};

type Named = (&'static str, ResourceKind);

/// The kinds that `list` accepts, in the order of its error message.
pub(crate) const LISTED: &[Named] = &[
    ("mcpserver", McpServer),
    ("mcpservers", McpServer),
    ("prompt", Prompt),
    ("prompts", Prompt),
    ("resource", Resource),
    ("resources", Resource),
    ("service", Service),
    ("serviceclass", ServiceClass),
    ("serviceclasses", ServiceClass),
    ("services", Service),
    ("tool", Tool),
    ("tools", Tool),
    ("workflow", Workflow),
    ("workflow-execution", WorkflowExecution),
    ("workflow-executions", WorkflowExecution),
    ("workflows", Workflow),
];

/// The kinds that `get` accepts.
pub(crate) const GOT: &[Named] = &[
    ("mcpserver", McpServer),
    ("prompt", Prompt),
    ("prompts", Prompt),
    ("resource", Resource),
    ("resources", Resource),
    ("service", Service),
    ("serviceclass", ServiceClass),
    ("tool", Tool),
    ("tools", Tool),
    ("workflow", Workflow),
    ("workflow-execution", WorkflowExecution),
];

/// The kinds that `check` accepts.
pub(crate) const CHECKED: &[Named] =
    &[("serviceclass", ServiceClass), ("mcpserver", McpServer), ("workflow", Workflow)];

/// The kinds that `stop` accepts.
pub(crate) const STOPPED: &[Named] = &[("service", Service)];

/// The kinds that `delete` accepts.
pub(crate) const DELETED: &[Named] = &[
    ("mcpserver", McpServer),
    ("workflow", Workflow),
    ("serviceclass", ServiceClass),
    ("service", Service),
];

/// The kinds that `restart` accepts.
pub(crate) const RESTARTED: &[Named] = &[("mcpserver", McpServer), ("service", Service)];

/// The kinds that `logs` accepts.
pub(crate) const LOGGED: &[Named] = &[("mcpserver", McpServer)];

/// Finds a kind by its name.
pub(crate) fn find(word: &str, among: &[Named]) -> Result<ResourceKind, CommandError> {
    let found = among.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    let names: Vec<&str> = among.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| unknown(word, &names))
}

/// The error for an unknown kind.
pub(crate) fn unknown(word: &str, names: &[&str]) -> CommandError {
    let error = CommandError::new(format!(
        "unknown resource type '{word}'. Available types: {}",
        names.join(", ")
    ));
    match similar(word, names.iter().copied()).first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

impl ResourceKind {
    /// Its name in commands and in the names of the core tools that manage it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Service => "service",
            ServiceClass => "serviceclass",
            McpServer => "mcpserver",
            Workflow => "workflow",
            WorkflowExecution => "workflow-execution",
            Tool => "tool",
            Resource => "resource",
            Prompt => "prompt",
        }
    }

    /// The core tool that lists resources of this kind; `None` for kinds that MCP itself lists.
    pub(crate) const fn list_tool(self) -> Option<&'static str> {
        match self {
            Service => Some("core_service_list"),
            ServiceClass => Some("core_serviceclass_list"),
            McpServer => Some("core_mcpserver_list"),
            Workflow => Some("core_workflow_list"),
            WorkflowExecution => Some("core_workflow_execution_list"),
            Tool | Resource | Prompt => None,
        }
    }
}
