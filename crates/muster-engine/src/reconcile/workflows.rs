//! Workflows: changes of files, checks against the catalog, and edits by tools.

use std::{cell::Cell, collections::BTreeMap, sync::Arc};

use muster_config::workflow::WorkflowLines;
use muster_core::name::BackendName;
use muster_gateway::{dispatch::GatewaySnapshot, surface::meta::is_meta_tool};
use muster_workflow::{
    Workflow, WorkflowSpec,
    check::{self, CheckEnvironment, ToolStatus, check},
    is_assumed_available,
};

use super::{EditError, Reconciler, files::Origin, files::log_new};
use crate::{
    events::Reason,
    store::{FileProblem, Severity, WorkflowFile, WriteError},
    unavailable_tools,
    workflows::{Definitions, Workflows, source, updated_source},
};

/// The number of missing tools for which similar names are searched.
const MOST_LOOKED_FOR: usize = 20;

/// An edit of a workflow.
#[derive(Debug)]
pub(crate) enum WorkflowEdit {
    /// Add a workflow.
    Create(String, WorkflowSpec),
    /// Replace a workflow.
    Update(String, WorkflowSpec),
    /// Delete a workflow.
    Delete(String),
}

impl Reconciler {
    /// Applies the workflow files. Returns whether a workflow was added, removed or changed.
    pub(super) fn take_workflows(
        &mut self,
        before: &BTreeMap<String, WorkflowFile>,
        origin: Origin,
    ) -> bool {
        let files = &self.files.workflows;
        let same = before.len() == files.len()
            && before.iter().zip(files).all(|((_, before), (_, now))| {
                Arc::ptr_eq(&before.workflow, &now.workflow)
                    || (before.path == now.path && before.workflow == now.workflow)
            });
        if same && origin == Origin::Edited {
            return false;
        }
        if origin == Origin::Edited {
            self.tell_of_workflows(before);
        }
        self.workflows = self.files.definitions();
        let source = source(&self.workflows);
        let name = source.backend.clone();
        self.state.catalog = self.state.catalog.with(source);
        let deps = self.deps.workflows.clone();
        let backend = Workflows::new(Arc::clone(&self.workflows), deps);
        self.state.backends.insert(name, Arc::new(backend));
        self.findings.clear();
        self.check_workflows(|_| true);
        true
    }

    /// Updates the effects of workflows after a change of tools or policies.
    pub(super) fn update_workflow_effects(&mut self) {
        if let Some(source) = updated_source(&self.workflows, &self.state) {
            self.state.catalog = self.state.catalog.with(source);
        }
    }

    fn tell_of_workflows(&self, before: &BTreeMap<String, WorkflowFile>) {
        let tell = |reason: Reason, workflow: &Workflow, detail: &str| {
            self.deps.journal.tell(reason, &workflow.name, &workflow.namespace, detail);
        };
        let files = &self.files.workflows;
        for (name, file) in files {
            let workflow = &file.workflow;
            let steps = format!("{} steps", workflow.spec.steps.len());
            match before.get(name) {
                None => {
                    tell(Reason::WorkflowValidationSucceeded, workflow, "");
                    tell(Reason::WorkflowCreated, workflow, &steps);
                    tell(Reason::WorkflowToolRegistered, workflow, &workflow.tool_name());
                    tell(Reason::WorkflowCapabilitiesRefreshed, workflow, "");
                }
                Some(before) if before.workflow.spec != workflow.spec => {
                    tell(Reason::WorkflowValidationSucceeded, workflow, "");
                    tell(Reason::WorkflowUpdated, workflow, &steps);
                }
                Some(_) => (),
            }
        }
        for (_, gone) in before.iter().filter(|(name, _)| !files.contains_key(*name)) {
            tell(Reason::WorkflowDeleted, &gone.workflow, "");
        }
    }

    /// Checks the workflows that `concerned` selects.
    pub(super) fn check_workflows(&mut self, concerned: impl Fn(&Workflow) -> bool) {
        // A server that has just connected is no longer a reason for a finding.
        self.state.absent = Arc::new(self.absent());
        let mut findings = Vec::new();
        let surroundings = Surroundings {
            state: &self.state,
            workflows: &self.workflows,
            awaited: self.awaited(),
            looked_for: Cell::new(MOST_LOOKED_FOR),
        };
        for file in self.files.workflows.values() {
            if !concerned(&file.workflow) {
                let known = self.findings.iter().filter(|found| found.path == file.path);
                findings.extend(known.cloned());
                continue;
            }
            let found = check(&file.workflow, &surroundings);
            if !found.is_empty() {
                // Line numbers are meaningless if definitions are not files.
                let is_file = !self.files.generations.contains_key(&file.path);
                let lines = is_file.then(|| WorkflowLines::of(&file.text));
                findings.extend(found.iter().map(|found| problem(file, lines.as_ref(), found)));
            }
        }
        log_new(&findings, &self.findings);
        self.findings = findings;
    }

    /// The prefixes of tools of servers that are not connected yet.
    fn awaited(&self) -> Vec<String> {
        let prefix = self.files.settings.aggregator.prefix();
        let waiting = self.servers.values().filter(|entry| {
            !self.state.backends.contains_key(&BackendName::new(entry.server.name.as_str()))
        });
        waiting.map(|entry| format!("{prefix}_{}_", entry.server.prefix())).collect()
    }

    pub(super) async fn write_workflow(&self, edit: &WorkflowEdit) -> Result<(), EditError> {
        let store = &self.deps.store;
        let files = &self.files.workflows;
        match edit {
            WorkflowEdit::Create(name, spec) => {
                let exists = || EditError::Exists(name.clone());
                if files.contains_key(name) {
                    return Err(exists());
                }
                let namespace = self.files.settings.namespace();
                let workflow = Workflow::new(name, namespace, spec.clone());
                match store.create_workflow(&workflow).await {
                    Err(WriteError::Exists(_)) => Err(exists()),
                    written => Ok(written?),
                }
            }
            WorkflowEdit::Update(name, spec) => {
                let unknown = || EditError::Unknown(name.clone());
                let file = files.get(name).ok_or_else(unknown)?;
                let workflow = Workflow { spec: spec.clone(), ..(*file.workflow).clone() };
                match store.replace_workflow(file, &workflow).await {
                    Err(WriteError::Gone(_)) => Err(unknown()),
                    written => Ok(written?),
                }
            }
            WorkflowEdit::Delete(name) => {
                let unknown = || EditError::Unknown(name.clone());
                let file = files.get(name).ok_or_else(unknown)?;
                match store.delete(&file.path).await {
                    Err(WriteError::Gone(_)) => Err(unknown()),
                    written => Ok(written?),
                }
            }
        }
    }
}

fn problem(
    file: &WorkflowFile,
    lines: Option<&WorkflowLines>,
    found: &check::WorkflowFinding,
) -> FileProblem {
    let place = match found.path.is_empty() {
        true => String::new(),
        false => format!("{}: ", found.path.join(" → ")),
    };
    FileProblem {
        path: file.path.clone(),
        line: lines.and_then(|lines| lines.line(&found.path)),
        message: format!("{place}{}", found.message),
        fix: Some(found.hint.clone()),
        severity: Severity::Warning,
    }
}

/// The environment that a workflow is checked against.
pub(crate) struct Surroundings<'a> {
    pub(crate) state: &'a GatewaySnapshot,
    pub(crate) workflows: &'a Definitions,
    /// The prefixes of tools of servers that are not connected yet.
    pub(crate) awaited: Vec<String>,
    /// The remaining number of searches for similar names, which are slow.
    pub(crate) looked_for: Cell<usize>,
}

impl<'a> Surroundings<'a> {
    /// The environment as it is now, without waiting for any server.
    pub(crate) const fn now(
        state: &'a GatewaySnapshot,
        workflows: &'a Definitions,
        searches: usize,
    ) -> Self {
        Self { state, workflows, awaited: Vec::new(), looked_for: Cell::new(searches) }
    }
}

impl CheckEnvironment for Surroundings<'_> {
    fn tool(&self, name: &str) -> ToolStatus<'_> {
        let GatewaySnapshot { catalog, policy, .. } = self.state;
        match catalog.get(name).filter(|entry| policy.shows(entry)) {
            Some(entry) => ToolStatus::Known(&entry.input_schema),
            None if self.awaited.iter().any(|prefix| name.starts_with(prefix.as_str())) => {
                ToolStatus::Unknown
            }
            None => self.missing(name),
        }
    }

    fn workflow(&self, name: &str) -> Option<&Workflow> {
        self.workflows.get(name).map(|workflow| &**workflow)
    }
}

impl Surroundings<'_> {
    /// Why a tool cannot be called, or the names that are similar to it.
    fn missing(&self, name: &str) -> ToolStatus<'static> {
        if let Some((reason, hint)) = unavailable_tools::reason(self.state, name) {
            return ToolStatus::Unavailable { reason, hint };
        }
        if is_meta_tool(name) {
            let reason = "it is a meta-tool".to_owned();
            let hint = "name the tool itself, as call_tool takes it".to_owned();
            return ToolStatus::Unavailable { reason, hint };
        }
        if self.looked_for.get() == 0 {
            return ToolStatus::Missing(Vec::new());
        }
        self.looked_for.set(self.looked_for.get() - 1);
        let GatewaySnapshot { catalog, policy, .. } = self.state;
        let near = catalog.similar(name, |entry| policy.shows(entry));
        let near = near
            .iter()
            .filter(|near| !is_assumed_available(near.as_str()) || is_assumed_available(name));
        ToolStatus::Missing(near.map(ToString::to_string).collect())
    }
}
