//! The kinds of things that a gateway has, and the tools that tell about them.

use muster_core::suggest::similar;

use crate::error::CommandError;

/// A kind of thing that a gateway has.
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

/// What `list` takes, in the order of its error message.
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

/// What `get` takes.
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

/// What `check` takes.
pub(crate) const CHECKED: &[Named] =
    &[("serviceclass", ServiceClass), ("mcpserver", McpServer), ("workflow", Workflow)];

/// What `stop` takes.
pub(crate) const STOPPED: &[Named] = &[("service", Service)];

/// Finds a kind by the word that was typed.
pub(crate) fn find(word: &str, among: &[Named]) -> Result<ResourceKind, CommandError> {
    let found = among.iter().find(|(name, _)| *name == word).map(|(_, kind)| *kind);
    let names: Vec<&str> = among.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| unknown(word, &names))
}

/// The error for a kind that is none.
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
    /// The tool that lists things of this kind, and the member of its answer that holds them.
    pub(crate) const fn list_tool(self) -> Option<(&'static str, &'static str)> {
        match self {
            Service => Some(("core_service_list", "services")),
            ServiceClass => Some(("core_serviceclass_list", "serviceClasses")),
            McpServer => Some(("core_mcpserver_list", "mcpServers")),
            Workflow => Some(("core_workflow_list", "workflows")),
            WorkflowExecution => Some(("core_workflow_execution_list", "executions")),
            Tool | Resource | Prompt => None,
        }
    }
}
