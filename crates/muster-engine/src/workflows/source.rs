//! The workflows as one source of the catalog.

use std::{collections::BTreeMap, sync::Arc};

use muster_core::{
    catalog::{
        BackendInfo, CatalogSource, LABELS, Offer, ToolAudience, ToolEntry, WORKFLOWS_BACKEND,
    },
    effect::Effect,
    json::raw,
    name::{BackendName, ToolName},
    schema::validator::Validator,
};
use muster_gateway::dispatch::GatewaySnapshot;
use muster_workflow::{Workflow, arguments};
use serde_json::{json, value::RawValue};

use super::{Definitions, effects::effect};

/// All workflows as tools, before it is known what they call.
pub(crate) fn source(definitions: &Definitions) -> CatalogSource {
    source_with(definitions, |_| Effect::Write)
}

/// All workflows as tools; `None` if the catalog of `state` already has their effects.
pub(crate) fn updated_source(
    definitions: &Definitions,
    state: &GatewaySnapshot,
) -> Option<CatalogSource> {
    let effect = |workflow: &Workflow| effect(workflow, definitions, state);
    let is_known = |entry: &Arc<ToolEntry>| {
        let workflow = definitions.get(&*entry.local_name);
        workflow.is_none_or(|workflow| entry.effect == Some(effect(workflow)))
    };
    let known = state.catalog.source(WORKFLOWS_BACKEND)?;
    (!known.entries().iter().all(is_known)).then(|| source_with(definitions, effect))
}

fn source_with(definitions: &Definitions, effect: impl Fn(&Workflow) -> Effect) -> CatalogSource {
    let backend = BackendName::new(WORKFLOWS_BACKEND);
    let about = BackendInfo {
        title: "workflows".into(),
        description: "Tools called one after the other, as a file says".into(),
        category: None,
        tags: Arc::default(),
    };
    let tools = definitions.values().map(|workflow| ToolEntry {
        name: ToolName::new(workflow.tool_name()),
        backend: backend.clone(),
        local_name: workflow.name.as_str().into(),
        description: workflow.spec.description.as_str().into(),
        input_schema: raw(&arguments::schema(&workflow.spec)).into(),
        params: None,
        definition: labelled(workflow),
        effect: Some(effect(workflow)),
        // Arguments are validated by the execution, which records the error.
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
