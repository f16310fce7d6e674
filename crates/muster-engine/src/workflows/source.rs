//! The workflows as one source in the catalog.

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    catalog::{
        BackendInfo, CatalogSource, LABELS, Offer, ToolAudience, ToolEntry, WORKFLOWS_BACKEND,
    },
    json::raw,
    name::{BackendName, ToolName},
    schema::validator::Validator,
};
use muster_workflow::{Workflow, arguments};
use serde_json::{json, value::RawValue};

/// All workflows as tools.
pub(crate) fn source<'a>(workflows: impl Iterator<Item = &'a Arc<Workflow>>) -> CatalogSource {
    let backend = BackendName::new(WORKFLOWS_BACKEND);
    let about = BackendInfo {
        title: "workflows".into(),
        description: "Tools called one after the other, as a file says".into(),
        category: None,
        tags: Arc::default(),
    };
    let tools = workflows.map(|workflow| ToolEntry {
        name: ToolName::new(workflow.tool_name()),
        backend: backend.clone(),
        local_name: workflow.name.as_str().into(),
        description: workflow.spec.description.as_str().into(),
        input_schema: raw(&arguments::schema(&workflow.spec)).into(),
        params: None,
        definition: labelled(workflow),
        // Arguments are validated by the execution, which records the error.
        effect: None,
        validator: Arc::new(Validator::unchecked()),
        audience: ToolAudience::default(),
    });
    let offer = Offer { tools: tools.collect(), ..Offer::default() };
    CatalogSource::new(backend, about, offer)
}

/// The definition that carries the labels of a workflow, if it has some.
fn labelled(workflow: &Workflow) -> Option<Arc<RawValue>> {
    let labels = workflow.labels();
    let labels: BTreeMap<&str, String> = labels.into_iter().collect();
    let definition = || {
        raw(&json!({
            "name": workflow.name,
            "description": workflow.spec.description,
            "inputSchema": arguments::schema(&workflow.spec),
            "_meta": {LABELS: labels},
        }))
    };
    (!labels.is_empty()).then(|| definition().into())
}
