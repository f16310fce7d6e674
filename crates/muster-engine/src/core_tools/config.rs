//! `core_config_*`: the gateway's configuration.

use std::net::IpAddr;

use muster_api::config::{ConfigInfo, ConfigProblem};
use muster_config::settings::{AccessMode, Settings};
use muster_core::effect::Effect;
use serde_json::{Value, json};

use super::{Args, CoreTool, ToolAudience, ToolReply, object};
use crate::{handle::Handle, reconcile::Edit, store::Severity};

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_config_get",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show the gateway's whole configuration. Secrets are redacted.",
        schema: nothing,
        run: |handle, _, _| Box::pin(async { config(handle.now().settings.view()) }),
    },
    CoreTool {
        name: "core_config_get_aggregator",
        audience: ToolAudience::Everyone,
        effect: None,
        summary: "Show how the gateway is reached: address, transport, prefix of tool names, logins. \
                  Secrets are redacted.",
        schema: nothing,
        run: |handle, _, _| Box::pin(async { config(handle.now().settings.aggregator.view()) }),
    },
    CoreTool {
        name: "core_config_update_aggregator",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Change how the gateway is reached, and save it. Keys that are not given keep their \
                  values. A new prefix takes effect at once, a new address or transport after a restart. \
                  `host` and `oauth` decide who reaches the gateway.",
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
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Write the configuration to config.yaml.",
        schema: nothing,
        run: |handle, _, _| Box::pin(save(handle)),
    },
    CoreTool {
        name: "core_config_reload",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Read config.yaml and all other files again. Edits are also detected without it.",
        schema: nothing,
        run: |handle, _, _| Box::pin(reload(handle)),
    },
    CoreTool {
        name: "core_config_problems",
        audience: ToolAudience::Operators,
        effect: Some(Effect::Read),
        summary: "List what is wrong with the files of the configuration: those that cannot be read, unknown fields, rules \
                  that match no tool.",
        schema: nothing,
        run: |handle, _, _| Box::pin(std::future::ready(problems(handle))),
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

#[expect(clippy::unnecessary_wraps, reason = "the signature of every tool")]
fn problems(handle: &Handle) -> ToolReply {
    let view = handle.now();
    let found = view.problems.iter().map(|problem| ConfigProblem {
        file: problem.path.display().to_string(),
        line: problem.line,
        message: problem.message.clone(),
        fix: problem.fix.clone().unwrap_or_default(),
        error: problem.severity == Severity::Error,
    });
    Ok(object(&found.collect::<Vec<_>>()))
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
    let before = handle.now();
    let written = handle.edit(Edit::Settings(Some(given))).await;
    written.map_err(|error| format!("Failed to update aggregator config: {error}"))?;
    let mut reply = "Successfully updated aggregator configuration".to_owned();
    for opened in opened(&before.settings, &handle.now().settings) {
        reply.push_str("\nwarning: ");
        reply.push_str(&opened);
    }
    Ok(reply.into())
}

/// Describes the access that a change of settings opens up after a restart.
fn opened(before: &Settings, after: &Settings) -> Vec<String> {
    let exposed = |settings: &Settings| !is_loopback(&settings.aggregator.host);
    let logins = |settings: &Settings| settings.aggregator.oauth.server.enabled;
    let (host, access) = (&after.aggregator.host, &after.access);
    let mut opened = Vec::new();
    if exposed(after) && !exposed(before) {
        opened.push(match (logins(after), access.insecure_bind) {
            (true, _) => format!("after a restart other machines reach `{host}`; users have to log in"),
            (false, true) => format!(
                "after a restart anyone who reaches `{host}` may call tools (`access.insecureBind: true`, no logins)"
            ),
            (false, false) => format!(
                "after a restart other machines reach `{host}`, and logins are off: callers from there need a token, and \
                 without any token the gateway refuses to start"
            ),
        });
    }
    if logins(before) && !logins(after) {
        opened.push(match (access.mode, exposed(after) && access.insecure_bind) {
            (_, true) => "after a restart nobody has to log in, on any machine".to_owned(),
            (AccessMode::Open, false) => {
                "after a restart nobody has to log in: every process on this machine is an operator \
                 (`access.mode: open`)"
                    .to_owned()
            }
            (AccessMode::Token, false) => {
                "after a restart nobody has to log in: callers need a token".to_owned()
            }
            (AccessMode::Private, false) => {
                "after a restart nobody has to log in: processes of the gateway's user are admitted, others need a token"
                    .to_owned()
            }
        });
    }
    opened
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
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

#[cfg(test)]
mod tests {
    use muster_config::settings;

    use super::opened;

    #[test]
    fn what_a_change_opens_is_reported() {
        let logins = "oauth: {server: {enabled: true}}";
        let open = "access: {mode: open}";
        let bind = "access: {insecureBind: true}";
        for (before, after, access, expected) in [
            ("port: 1", "port: 2", "", None),
            ("host: localhost", "host: '::1'", "", None),
            ("host: 127.0.0.2", "host: '[::1]'", "", None),
            ("host: 0.0.0.0", "host: 0.0.0.0", "", None),
            (
                "port: 1",
                "host: 0.0.0.0",
                "",
                Some("without any token the gateway refuses to start"),
            ),
            ("port: 1", "host: gate.example", bind, Some("anyone who reaches `gate.example`")),
            (logins, "port: 1", "", Some("processes of the gateway's user are admitted")),
            (logins, "port: 1", open, Some("every process on this machine is an operator")),
            ("port: 1", logins, open, None),
        ] {
            let parsed = |aggregator: &str| {
                let text = format!("aggregator: {{{aggregator}}}\n{access}\n");
                settings::parse(&text).unwrap().value
            };
            let opened_by = opened(&parsed(before), &parsed(after));
            match expected {
                None => assert_eq!(opened_by, Vec::<String>::new(), "{before} {after}"),
                Some(text) => {
                    assert!(opened_by.concat().contains(text), "{before} {after}: {opened_by:?}");
                }
            }
        }
    }
}
