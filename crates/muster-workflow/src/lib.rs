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
mod go_type;
pub mod record;
mod render;
pub mod report;
pub mod request;
pub mod run;
pub mod service;
mod shown;

use std::collections::BTreeSet;

use indexmap::IndexMap;
use muster_core::value::Value;
use serde_json::{Map, Value as Json};

/// The prefix of the tools of workflows.
pub const TOOL_PREFIX: &str = "workflow_";

/// A JSON object.
pub type JsonObject = Map<String, Json>;

/// A workflow.
#[derive(Debug, Clone, PartialEq)]
pub struct Workflow {
    /// Its name; `workflow_<name>` is its tool.
    pub name: String,
    /// The namespace of its events.
    pub namespace: String,
    /// Its definition.
    pub spec: WorkflowSpec,
    /// Other metadata of its file, preserved when it is rewritten.
    pub extra: Vec<(Value, Value)>,
}

/// The definition of a workflow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowSpec {
    /// Its description.
    pub description: String,
    /// Its arguments, in the order written.
    pub args: IndexMap<String, WorkflowArg>,
    /// Its steps.
    pub steps: Vec<WorkflowStep>,
    /// The steps that run if a step fails that must not.
    pub on_failure: Vec<WorkflowStep>,
    /// Its result, in place of the report of its steps.
    pub output: Option<Json>,
}

/// One argument of a workflow.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkflowArg {
    /// Its type in JSON Schema.
    pub kind: String,
    /// Whether it is required.
    pub required: bool,
    /// Its default.
    pub default: Option<Json>,
    /// Its description.
    pub description: String,
}

/// One step of a workflow.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the file")]
pub struct WorkflowStep {
    /// Its name, by which later steps refer to its result.
    pub id: String,
    /// Its action.
    pub action: StepAction,
    /// The condition; without one it always runs.
    pub condition: Option<StepCondition>,
    /// Whether its result is part of the run's result, by the older name; used only without `output`.
    pub store: bool,
    /// Whether its result is part of the run's result.
    pub output: Option<bool>,
    /// Whether the workflow continues if it fails.
    pub allow_failure: bool,
    /// Whether it is idempotent.
    pub idempotent: bool,
    /// Its description.
    pub description: String,
    /// Accepted for compatibility; without effect.
    pub outputs: Option<Json>,
}

/// The action of a step.
#[derive(Debug, Clone, PartialEq)]
pub enum StepAction {
    /// Calls a tool.
    Tool {
        /// Its name.
        tool: String,
        /// Its arguments, with templates.
        args: JsonObject,
    },
    /// Runs steps for each item of a list, one item after the other.
    ForEach {
        /// The list, or a template that renders one.
        items: Json,
        /// The name of an item in templates, below `.vars`.
        name: String,
        /// The steps.
        steps: Vec<WorkflowStep>,
    },
    /// Runs steps concurrently.
    Parallel {
        /// The steps.
        steps: Vec<WorkflowStep>,
    },
}

/// When a step runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepCondition {
    /// If this renders as true.
    pub template: Option<String>,
    /// If the result of this tool is as expected.
    pub tool: Option<String>,
    /// The arguments of that tool, with templates.
    pub args: JsonObject,
    /// If the result of this earlier step is as expected.
    pub from_step: Option<String>,
    /// Conditions that must hold.
    pub expect: Option<ResultExpectation>,
    /// Conditions that must not hold.
    pub expect_not: Option<ResultExpectation>,
}

/// Conditions on a result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ResultExpectation {
    /// Whether the call succeeded.
    pub success: bool,
    /// Values by path.
    pub json_path: JsonObject,
}

impl WorkflowStep {
    /// The name of the tool; empty for a group.
    pub fn tool(&self) -> &str {
        match &self.action {
            StepAction::Tool { tool, .. } => tool,
            StepAction::ForEach { .. } | StepAction::Parallel { .. } => "",
        }
    }

    /// Whether its result is part of the run's result. Templates see every result.
    pub fn is_visible(&self) -> bool {
        self.output.unwrap_or(self.store)
    }

    /// Its nested steps.
    pub fn inner(&self) -> &[Self] {
        match &self.action {
            StepAction::Tool { .. } => &[],
            StepAction::ForEach { steps, .. } | StepAction::Parallel { steps } => steps,
        }
    }

    /// Itself and its nested steps.
    fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(self.inner())
    }
}

impl WorkflowSpec {
    /// The ids that occur twice where they must be unique, by the path of their list.
    fn duplicate_ids(&self) -> Vec<(Vec<String>, String)> {
        let path = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect();
        let mut found = Vec::new();
        let mut look =
            |path: Vec<String>, steps: &[WorkflowStep], message: &dyn Fn(&str) -> String| {
                let mut seen = BTreeSet::new();
                for (index, step) in steps.iter().enumerate() {
                    if !seen.insert(&step.id) {
                        let path = path.iter().cloned().chain([index.to_string()]).collect();
                        found.push((path, message(&step.id)));
                    }
                }
            };
        look(path(&["steps"]), &self.steps, &|id| format!("duplicate step ID '{id}' found"));
        for (index, step) in self.steps.iter().enumerate() {
            let (kind, path) = match &step.action {
                StepAction::Tool { .. } => continue,
                StepAction::ForEach { .. } => {
                    ("forEach", path(&["steps", &index.to_string(), "forEach", "steps"]))
                }
                StepAction::Parallel { .. } => {
                    ("parallel", path(&["steps", &index.to_string(), "parallel"]))
                }
            };
            look(path, step.inner(), &|id| {
                format!("step {} {kind}: duplicate sub-step id '{id}'", step.id)
            });
        }
        look(path(&["onFailure"]), &self.on_failure, &|id| {
            format!("onFailure: duplicate sub-step id '{id}'")
        });
        found
    }
}

impl Workflow {
    /// A workflow without a file.
    pub fn new(name: impl Into<String>, namespace: impl Into<String>, spec: WorkflowSpec) -> Self {
        Self { name: name.into(), namespace: namespace.into(), spec, extra: Vec::new() }
    }

    /// Its labels, by which tools are filtered.
    pub fn labels(&self) -> Vec<(&str, String)> {
        let text = |value: &Value| match value {
            Value::Text(text) | Value::Int(text) => Some(text.clone()),
            Value::Bool(flag) => Some(flag.to_string()),
            Value::Float(number) => Some(number.to_string()),
            Value::Null | Value::Timestamp(_) | Value::List(_) | Value::Map(_) => None,
        };
        let of_file = self.extra.iter().filter_map(|(key, value)| match (key, value) {
            (Value::Text(key), Value::Map(labels)) if key == "labels" => Some(labels),
            _ => None,
        });
        let each = of_file.flatten().filter_map(|(key, value)| match key {
            Value::Text(key) => Some((key.as_str(), text(value)?)),
            _ => None,
        });
        each.collect()
    }

    /// All its steps: nested ones and those of `onFailure` too.
    fn all_steps(&self) -> impl Iterator<Item = &WorkflowStep> {
        self.spec.steps.iter().chain(&self.spec.on_failure).flat_map(WorkflowStep::all)
    }

    /// The tools that its steps call, with repetitions.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.all_steps().map(WorkflowStep::tool).filter(|tool| !tool.is_empty())
    }

    /// Every tool it may call: in steps, conditions and `onFailure`.
    pub fn reachable_tools(&self) -> impl Iterator<Item = &str> {
        let conditions =
            self.all_steps().filter_map(|step| step.condition.as_ref()?.tool.as_deref());
        self.tools().chain(conditions)
    }

    /// The tools that it needs and `known` does not have, those of the workflows that it calls included. The
    /// tools of conditions are not needed: without them a condition does not hold.
    pub fn missing_tools<'a>(
        &'a self,
        find: impl Fn(&str) -> Option<&'a Self>,
        known: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let mut missing = Vec::new();
        let mut seen = BTreeSet::from([self.name.as_str()]);
        let mut waiting = vec![self];
        while let Some(workflow) = waiting.pop() {
            for tool in workflow.tools() {
                let is_there = match tool.strip_prefix(TOOL_PREFIX) {
                    Some(name) => match find(name).filter(|_| known(tool)) {
                        Some(nested) => {
                            if seen.insert(nested.name.as_str()) {
                                waiting.push(nested);
                            }
                            true
                        }
                        None => false,
                    },
                    None => is_assumed_available(tool) || known(tool),
                };
                if !is_there && !missing.iter().any(|known| known == tool) {
                    missing.push(tool.to_owned());
                }
            }
        }
        missing
    }

    /// The name of its tool.
    pub fn tool_name(&self) -> String {
        format!("{TOOL_PREFIX}{}", self.name)
    }
}

/// Names that count as available, whether there is such a tool or not.
const ASSUMED_PREFIXES: [&str; 7] = [
    "core_workflow_",
    "core_service_",
    "core_config_",
    "core_serviceclass_",
    "core_mcpserver_",
    "core_events",
    "core_auth_",
];

/// Whether a tool counts as available without a lookup.
pub fn is_assumed_available(tool: &str) -> bool {
    ASSUMED_PREFIXES.iter().any(|prefix| tool.starts_with(prefix))
}

/// A cycle of workflows that call each other, from `start` back to itself.
pub fn find_cycle<'a>(
    start: &'a Workflow,
    find: &impl Fn(&str) -> Option<&'a Workflow>,
) -> Option<Vec<String>> {
    let mut seen = BTreeSet::new();
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
