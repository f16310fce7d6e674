//! `core_events`: what happened.

use jiff::{Timestamp, tz::TimeZone};
use serde::Serialize;
use serde_json::json;

use super::{Answer, Args, Builtin, object};
use crate::{
    events::{Filter, parse_time},
    handle::Handle,
};

/// How many are shown unless a call says otherwise.
const USUAL_LIMIT: usize = 50;

pub(super) const TOOLS: &[Builtin] = &[Builtin {
    name: "core_events",
    summary: "Show what happened in the gateway, newest first: servers started, failed, lost and \
              found again, definitions created, changed and deleted. All filters must match.",
    schema: || {
        json!({"type": "object", "properties": {
            "resourceType": {"type": "string", "description": "Kind of the resource, such as MCPServer"},
            "resourceName": {"type": "string", "description": "Name of the resource"},
            "namespace": {"type": "string", "description": "Namespace of the resource"},
            "eventType": {"type": "string", "enum": ["Normal", "Warning"], "description": "Only events of this severity"},
            "since": {"type": "string", "description": "Not before: a duration ago (1h30m), RFC 3339, YYYY-MM-DD or YYYY-MM-DD HH:MM:SS"},
            "until": {"type": "string", "description": "Not after; written like `since`"},
            "limit": {"type": "number", "default": USUAL_LIMIT, "description": "At most so many, the newest"},
            "follow": {"type": "boolean", "default": false, "description": "Accepted for compatibility: what there is now is shown"},
        }})
    },
    run: |handle, _, args| Box::pin(find(handle, args)),
}];

#[derive(Serialize)]
struct Shown<'a> {
    message: &'a str,
    namespace: &'a str,
    reason: &'a str,
    resource_name: &'a str,
    resource_type: &'a str,
    timestamp: String,
    r#type: &'a str,
}

async fn find(handle: &Handle, args: Args) -> Answer {
    let text = |name: &str| args.text(name).map(str::to_owned);
    let now = Timestamp::now();
    let moment = |name: &str| match args.text(name) {
        Some(text) => parse_time(text, now)
            .map(Some)
            .map_err(|error| format!("Invalid '{name}' time format: {error}")),
        None => Ok(None),
    };
    let filter = Filter {
        kind: text("resourceType"),
        name: text("resourceName"),
        namespace: text("namespace"),
        severity: text("eventType"),
        since: moment("since")?,
        until: moment("until")?,
        limit: Some(args.count("limit").unwrap_or(USUAL_LIMIT)),
    };
    let found = handle.journal.find(filter).await;
    let local = TimeZone::system();
    let shown = found.iter().map(|event| Shown {
        message: &event.message,
        namespace: &event.namespace,
        reason: &event.reason,
        resource_name: &event.involved_object.name,
        resource_type: &event.involved_object.kind,
        timestamp: event
            .timestamp
            .to_zoned(local.clone())
            .strftime("%Y-%m-%d %H:%M:%S")
            .to_string(),
        r#type: &event.severity,
    });
    Ok(object(&shown.collect::<Vec<_>>()))
}
