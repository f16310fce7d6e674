//! Writes workflows.

use std::sync::Arc;

use muster_config::{
    kinds::DefinitionKind,
    workflow::{parse, text},
};
use muster_workflow::Workflow;

use super::{ConfigStore, WorkflowFile, WriteError};

impl ConfigStore {
    /// Writes a new workflow.
    pub(crate) async fn create_workflow(&self, workflow: &Workflow) -> Result<(), WriteError> {
        self.definitions.create(DefinitionKind::Workflow, &workflow.name, text(workflow)).await
    }

    /// Rewrites a workflow, if its file is unchanged.
    pub(crate) async fn replace_workflow(
        &self,
        file: &WorkflowFile,
        workflow: &Workflow,
    ) -> Result<(), WriteError> {
        let (before, text) = (Arc::clone(&file.workflow), text(workflow));
        let edit = move |now: &str| {
            let now = parse(now, &before.name);
            now.is_ok_and(|now| now.value.spec == before.spec).then(|| text.clone())
        };
        self.definitions.change(&file.path, Box::new(edit)).await
    }
}
