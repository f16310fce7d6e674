//! Writes workflows.

use muster_config::workflow::{parse, text};
use muster_workflow::Workflow;

use super::{ConfigStore, WORKFLOWS, WorkflowFile, WriteError, write};

impl ConfigStore {
    /// Writes a new workflow.
    pub(crate) async fn create_workflow(&self, workflow: &Workflow) -> Result<(), WriteError> {
        let folder = self.root.join(WORKFLOWS);
        let path = folder.join(format!("{}.yaml", workflow.name));
        let text = text(workflow);
        self.exclusively(move || write::create(&folder, &path, &text)).await
    }

    /// Rewrites a workflow, if its file is unchanged.
    pub(crate) async fn replace_workflow(
        &self,
        file: &WorkflowFile,
        workflow: &Workflow,
    ) -> Result<(), WriteError> {
        let (WorkflowFile { path, workflow: before, .. }, text) = (file.clone(), text(workflow));
        let is_meant = move |now: &str| {
            parse(now, &before.name).is_ok_and(|now| now.value.spec == before.spec)
        };
        self.exclusively(move || write::replace(&path, &text, is_meant)).await
    }
}
