//! Workflow definitions and their interpreter, and the state machine of services.
//!
//! A workflow is a list of tool calls described by a file. The definition is in this module, the
//! interpreter in [`run`], the record of a run in [`record`] and static checks in [`check`].
//!
//! **Invariant:** a step reaches a tool only through the [`Host`](run::Host), whose calls take the one
//! call path. What a caller may not call, a workflow of theirs may not call either.

mod argument_check;
pub mod arguments;
pub mod check;
mod condition;
pub mod content;
pub mod definition;
pub mod fields;
mod join;
pub mod record;
mod render;
pub mod report;
pub mod request;
pub mod run;
pub mod service;
mod shown;

use indexmap::IndexMap;
use muster_core::value::Value;
use serde_json::{Map, Value as Json};

/// What the names of workflows begin with when they are called.
pub const TOOL_PREFIX: &str = "workflow_";

/// An object of JSON.
pub type JsonObject = Map<String, Json>;

/// A workflow as its file describes it.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name; `workflow_<name>` is its tool.
    pub name: String,
    /// Where events about it belong.
    pub namespace: String,
    /// What it does.
    pub spec: WorkflowSpec,
    /// What else its file says about it; written back as it was.
    pub extra: Vec<(Value, Value)>,
}

/// What a workflow does.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowSpec {
    /// What it is for.
    pub description: String,
    /// What it takes, in the order written.
    pub args: IndexMap<String, WorkflowArg>,
    /// What it does.
    pub steps: Vec<WorkflowStep>,
    /// What it does when a step fails that must not.
    pub on_failure: Vec<WorkflowStep>,
    /// What it answers, in place of the usual.
    pub output: Option<Json>,
}

/// One argument of a workflow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowArg {
    /// Its type: a word of JSON Schema.
    pub kind: String,
    /// Whether it must be given.
    pub required: bool,
    /// What holds when it is not.
    pub default: Option<Json>,
    /// What it is for.
    pub description: String,
}

/// One step of a workflow.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the file")]
pub struct WorkflowStep {
    /// Its name, by which later steps know its result.
    pub id: String,
    /// What it does.
    pub action: StepAction,
    /// When it does so; always, without one.
    pub condition: Option<StepCondition>,
    /// Whether its result is part of the answer.
    pub store: bool,
    /// Whether the workflow goes on when it fails.
    pub allow_failure: bool,
    /// Whether doing it twice is as good as once.
    pub idempotent: bool,
    /// What it is for.
    pub description: String,
    /// Read for files of the original, which does nothing with it either.
    pub outputs: Option<Json>,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum StepAction {
    /// Calls a tool.
    Tool {
        /// Its name.
        tool: String,
        /// Its arguments, templates inside.
        args: JsonObject,
    },
    /// Does steps for each item of a list, one item after the other.
    ForEach {
        /// The list, or a template that is one.
        items: Json,
        /// What an item is called in templates, below `.vars`.
        name: String,
        /// What is done.
        steps: Vec<WorkflowStep>,
    },
    /// Does steps at the same time.
    Parallel {
        /// What is done.
        steps: Vec<WorkflowStep>,
    },
}

/// When a step is done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepCondition {
    /// If this renders as true.
    pub template: Option<String>,
    /// If this tool answers as expected.
    pub tool: Option<String>,
    /// The arguments of that tool, templates inside.
    pub args: JsonObject,
    /// If the result of this earlier step is as expected.
    pub from_step: Option<String>,
    /// What must hold.
    pub expect: Option<ResultExpectation>,
    /// What must not.
    pub expect_not: Option<ResultExpectation>,
}

/// What is expected of a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResultExpectation {
    /// Whether it is a good one.
    pub success: bool,
    /// Values by path.
    pub json_path: JsonObject,
}

impl WorkflowStep {
    /// The word for what it does: the tool's name, or the kind of group.
    pub fn tool(&self) -> &str {
        match &self.action {
            StepAction::Tool { tool, .. } => tool,
            StepAction::ForEach { .. } => "forEach",
            StepAction::Parallel { .. } => "parallel",
        }
    }

    /// The steps inside it.
    pub fn inner(&self) -> &[Self] {
        match &self.action {
            StepAction::Tool { .. } => &[],
            StepAction::ForEach { steps, .. } | StepAction::Parallel { steps } => steps,
        }
    }

    /// Itself, and the steps inside it.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.inner())
    }
}

impl Workflow {
    /// A workflow that no file describes yet.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, spec: WorkflowSpec) -> Self {
        Self { name: name.into(), namespace: namespace.into(), spec, extra: Vec::new() }
    }

    /// The tools that its steps call, as often as they do.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        let steps = self.spec.steps.iter().flat_map(WorkflowStep::all);
        steps.filter_map(|step| match &step.action {
            StepAction::Tool { tool, .. } => Some(tool.as_str()),
            StepAction::ForEach { .. } | StepAction::Parallel { .. } => None,
        })
    }

    /// Everything it may call: its steps, their conditions, and what it does when it fails.
    pub fn reachable_tools(&self) -> impl Iterator<Item = &str> {
        let steps = self.spec.steps.iter().chain(&self.spec.on_failure).flat_map(WorkflowStep::all);
        let conditions =
            self.spec.steps.iter().chain(&self.spec.on_failure).flat_map(WorkflowStep::all);
        let tools = steps.filter_map(|step| match &step.action {
            StepAction::Tool { tool, .. } => Some(tool.as_str()),
            StepAction::ForEach { .. } | StepAction::Parallel { .. } => None,
        });
        tools.chain(conditions.filter_map(|step| step.condition.as_ref()?.tool.as_deref()))
    }

    /// Whether all its tools are there, if `known` knows those that are. The gateway's own tools and
    /// other workflows count as there; a call says more about them than this could.
    pub fn is_available(&self, known: impl Fn(&str) -> bool) -> bool {
        self.tools().all(|tool| is_assumed_available(tool) || known(tool))
    }

    /// The name of its tool.
    pub fn tool_name(&self) -> String {
        format!("{TOOL_PREFIX}{}", self.name)
    }
}

/// Names that the original answers for itself, whether there is such a tool or not.
const ASSUMED_PREFIXES: [&str; 8] = [
    "core_workflow_",
    "core_service_",
    "core_config_",
    "core_serviceclass_",
    "core_mcpserver_",
    "core_events",
    "core_auth_",
    TOOL_PREFIX,
];

/// Whether a tool counts as there without being looked up.
pub fn is_assumed_available(tool: &str) -> bool {
    ASSUMED_PREFIXES.iter().any(|prefix| tool.starts_with(prefix))
}

/// The way from `start` back to itself through the workflows that call each other, if there is one.
pub fn find_cycle<'a>(
    start: &'a Workflow,
    find: &impl Fn(&str) -> Option<&'a Workflow>,
) -> Option<Vec<String>> {
    let mut seen = std::collections::BTreeSet::new();
    let mut waiting = vec![vec![start]];
    while let Some(way) = waiting.pop() {
        let Some(last) = way.last() else { continue };
        for tool in last.reachable_tools() {
            let Some(name) = tool.strip_prefix(TOOL_PREFIX) else { continue };
            if name == start.name {
                let names = way.iter().map(|workflow| workflow.name.clone());
                return Some(names.chain([start.name.clone()]).collect());
            }
            if let Some(next) = find(name).filter(|next| seen.insert(next.name.clone())) {
                waiting.push(way.iter().copied().chain([next]).collect());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
