//! Checks of a workflow that need no gateway: references to arguments and steps, conditions, names.

use std::path::Path;

use muster_config::workflow::{self, WorkflowLines};
use muster_engine::store::{FileProblem, Severity};
use muster_workflow::{
    Workflow,
    check::{CheckEnvironment, ToolStatus, WorkflowFinding, check},
};

/// An environment of which nothing is known. Any tool may exist.
struct NoGateway;

impl CheckEnvironment for NoGateway {
    fn tool(&self, _: &str) -> ToolStatus<'_> {
        ToolStatus::Unknown
    }

    fn workflow(&self, _: &str) -> Option<&Workflow> {
        None
    }
}

/// The problems that runs of a workflow would have. Empty for a text that is not a workflow.
pub(super) fn problems(path: &Path, text: &str, name: &str) -> Vec<FileProblem> {
    let Ok(loaded) = workflow::parse(text, name) else { return Vec::new() };
    let found = check(&loaded.value, &NoGateway);
    if found.is_empty() {
        return Vec::new();
    }
    let lines = WorkflowLines::of(text);
    let problem = |found: &WorkflowFinding| FileProblem {
        path: path.to_owned(),
        line: lines.line(&found.path),
        message: match found.path.is_empty() {
            true => found.message.clone(),
            false => format!("{}: {}", found.path.join(" → "), found.message),
        },
        fix: Some(found.hint.clone()),
        severity: Severity::Warning,
    };
    found.iter().map(problem).collect()
}
