//! `core_config_*`: the gateway's configuration.

use muster_api::config::ConfigInfo;
use serde_json::{Value, json};

use super::{Args, Audience, CoreTool, ToolReply, object};
use crate::{handle::Handle, reconcile::Edit, store::Severity};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_config_get",
        audience: Audience::Everyone,
        summary: "Show the gateway's whole configuration. Secrets are redacted.",
        schema: nothing,
        run: |handle, _, _| Box::pin(async { config(handle.now().settings.view()) }),
    },
    CoreTool {
        name: "core_config_get_aggregator",
        audience: Audience::Everyone,
        summary: "Show how the gateway is reached: address, transport, prefix of tool names, logins. \
                  Secrets are redacted.",
        schema: nothing,
        run: |handle, _, _| Box::pin(async { config(handle.now().settings.aggregator.view()) }),
    },
    CoreTool {
        name: "core_config_update_aggregator",
        audience: Audience::Operators,
        summary: "Change how the gateway is reached, and save it. Keys that are not given keep their \
                  values. A new prefix takes effect at once, a new address or transport after a restart.",
        schema: || {
            json!({"type": "object", "required": ["aggregator"], "properties": {
                "aggregator": {"type": "object", "description": "Keys to change, as in config.yaml: \
                    port, host, transport, musterPrefix, oauth, limits"},
            }})
        },
        run: |handle, _, args| Box::pin(update(handle, args)),
    },
    CoreTool {
        name: "core_config_save",
        audience: Audience::Operators,
        summary: "Write the configuration to config.yaml.",
        schema: nothing,
        run: |handle, _, _| Box::pin(save(handle)),
    },
    CoreTool {
        name: "core_config_reload",
        audience: Audience::Operators,
        summary: "Read config.yaml and all other files again. Edits are also detected without it.",
        schema: nothing,
        run: |handle, _, _| Box::pin(reload(handle)),
    },
];

fn nothing() -> Value {
    json!({"type": "object"})
}

fn config(settings: Value) -> ToolReply {
    let config: ConfigInfo = serde_json::from_value(settings)
        .map_err(|error| format!("the configuration cannot be shown: {error}"))?;
    Ok(object(&config))
}

async fn update(handle: &Handle, args: Args) -> ToolReply {
    let given = args.object("aggregator").ok_or("aggregator is required")?.to_string();
    let failed = |problem: String| format!("Failed to parse aggregator config: {problem}");
    let updated = handle.now().settings.aggregator.updated(&given);
    let updated = updated.map_err(|error| failed(error.to_string()))?;
    // An unknown key is almost always a typo: report it.
    if let Some(warning) = updated.warnings.first() {
        return Err(failed(warning.to_string()).into());
    }
    let written = handle.edit(Edit::Settings(Some(given))).await;
    written.map_err(|error| format!("Failed to update aggregator config: {error}"))?;
    Ok("Successfully updated aggregator configuration".into())
}

async fn save(handle: &Handle) -> ToolReply {
    let written = handle.edit(Edit::Settings(None)).await;
    written.map_err(|error| format!("failed to write config file: {error}"))?;
    Ok("Configuration saved successfully".into())
}

async fn reload(handle: &Handle) -> ToolReply {
    let failed = |reason: String| format!("failed to reload configuration: {reason}");
    handle.reload().await.map_err(|error| failed(error.to_string()))?;
    let view = handle.now();
    let mut errors = view.problems.iter().filter(|problem| {
        problem.severity == Severity::Error && problem.path.ends_with("config.yaml")
    });
    match errors.next() {
        Some(problem) => Err(failed(problem.to_string()).into()),
        None => Ok("Configuration reloaded successfully".into()),
    }
}
