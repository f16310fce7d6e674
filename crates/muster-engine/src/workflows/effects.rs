//! The effect of a workflow: the worst effect of the tools that it may call, directly or through other workflows.

use std::collections::BTreeSet;

use muster_core::effect::{Effect, ExcessiveEffect};
use muster_gateway::dispatch::GatewaySnapshot;
use muster_workflow::{TOOL_PREFIX, Workflow};

use super::Definitions;

/// The effect of a workflow in a snapshot. A tool that is not available yet counts as a write.
pub(super) fn effect(
    workflow: &Workflow,
    definitions: &Definitions,
    state: &GatewaySnapshot,
) -> Effect {
    let effects = reached(workflow, definitions).into_iter().map(|tool| {
        let Some(entry) = state.catalog.get(tool) else { return Effect::Write };
        match tool.starts_with(TOOL_PREFIX) {
            // The tools of its steps count themselves.
            true => state.policy.ruled_effect(entry).unwrap_or(Effect::Read),
            false => state.policy.effect(entry),
        }
    });
    effects.max().unwrap_or(Effect::Write)
}

/// The first tool that a workflow may call whose effect is worse than `ceiling`.
pub(super) fn excess(
    workflow: &Workflow,
    definitions: &Definitions,
    state: &GatewaySnapshot,
    ceiling: Effect,
) -> Option<ExcessiveEffect> {
    reached(workflow, definitions).into_iter().find_map(|tool| {
        let entry = state.catalog.get(tool)?;
        state.policy.check_effect(entry, ceiling).err()
    })
}

/// The tools that a workflow may call, directly or through other workflows.
fn reached<'a>(workflow: &'a Workflow, definitions: &'a Definitions) -> BTreeSet<&'a str> {
    let mut tools = BTreeSet::new();
    let mut waiting = vec![workflow];
    while let Some(workflow) = waiting.pop() {
        for tool in workflow.reachable_tools() {
            if !tools.insert(tool) {
                continue;
            }
            let nested = tool.strip_prefix(TOOL_PREFIX).and_then(|name| definitions.get(name));
            waiting.extend(nested.map(|nested| &**nested));
        }
    }
    tools
}
