//! `core_calls_*`: the history of calls.

mod draft;

use std::time::SystemTime;

use jiff::Timestamp;
use muster_core::observer::CallStatus;
use muster_telemetry::history::{CallFilter, HistoryReader, StatusFilter};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{Args, CoreTool, Failure, ToolAudience, ToolReply, object};
use crate::{events::parse_time, handle::Handle};

/// The default and the maximum number of calls on a page.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1_000;
/// The default number of tools in the statistics.
const DEFAULT_TOOLS: usize = 100;

pub(super) const TOOLS: &[CoreTool] = &[
    CoreTool {
        name: "core_calls_list",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "List calls of the past, newest first: when, who, which tool, how it ended and how long it took. \
                  All filters must match.",
        schema: || {
            let mut properties = filters();
            let mut put = |name: &str, schema| drop(properties.insert(name.to_owned(), schema));
            put(
                "before",
                json!({"type": "number", "description": "Only calls before the one with this id: the `next` of the previous page"}),
            );
            put(
                "after",
                json!({"type": "number", "description": "Only calls after the one with this id"}),
            );
            put(
                "limit",
                json!({"type": "number", "default": DEFAULT_LIMIT, "description": "The maximum number of calls, up to 1000"}),
            );
            json!({"type": "object", "properties": properties})
        },
        run: |handle, _, args| Box::pin(list(handle, args)),
    },
    CoreTool {
        name: "core_calls_get",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Show one call of the past in full, with its arguments as far as the history keeps them.",
        schema: || {
            json!({"type": "object", "required": ["id"], "properties": {
                "id": {"type": "number", "description": "The id of the call, from core_calls_list"},
            }})
        },
        run: |handle, _, args| Box::pin(get(handle, args)),
    },
    CoreTool {
        name: "core_calls_stats",
        audience: ToolAudience::Operators,
        effect: None,
        summary: "Count calls of the past, also of earlier runs of the gateway: in all, by tool and by hour, with errors \
                  and durations.",
        schema: || {
            let mut properties = filters();
            let about = "The maximum number of tools, those with the most calls first; up to 1000";
            let limit = json!({"type": "number", "default": DEFAULT_TOOLS, "description": about});
            properties.insert("limit".to_owned(), limit);
            json!({"type": "object", "properties": properties})
        },
        run: |handle, _, args| Box::pin(stats(handle, args)),
    },
    draft::TOOL,
];

fn filters() -> Map<String, Value> {
    let filters = [
        ("server", "Only calls to this server"),
        ("tool", "Only calls of this tool"),
        ("caller", "Only calls of this subject or static token"),
        (
            "status",
            "Only calls that ended like this: ok, failed, needs_input, cancelled, unknown, arguments, denied, unavailable, refused, too_deep, or error for any error",
        ),
        (
            "since",
            "Not before: a duration ago (1h30m), RFC 3339, YYYY-MM-DD or YYYY-MM-DD HH:MM:SS",
        ),
        ("until", "Not after; written like `since`"),
    ];
    filters
        .into_iter()
        .map(|(name, description)| {
            (name.to_owned(), json!({"type": "string", "description": description}))
        })
        .collect()
}

fn filter(args: &Args) -> Result<CallFilter, Failure> {
    let now = Timestamp::now();
    let moment = |name: &str| -> Result<Option<SystemTime>, Failure> {
        let Some(text) = args.text(name) else { return Ok(None) };
        let time = parse_time(text, now).map_err(|error| format!("invalid `{name}`: {error}"))?;
        Ok(Some(time.into()))
    };
    let status = match args.text("status") {
        None => None,
        Some("error") => Some(StatusFilter::AnyError),
        Some(name) => match CallStatus::named(name) {
            Some(status) => Some(StatusFilter::Is(status)),
            None => {
                let names = CallStatus::ALL.map(CallStatus::as_str).join(", ");
                return Err(format!("no status `{name}`; expected {names} or error").into());
            }
        },
    };
    let text = |name: &str| args.text(name).map(str::to_owned);
    let id = |name: &str| args.count(name).and_then(|id| u64::try_from(id).ok());
    Ok(CallFilter {
        server: text("server"),
        tool: text("tool"),
        caller: text("caller"),
        status,
        since: moment("since")?,
        until: moment("until")?,
        before: id("before"),
        after: id("after"),
    })
}

/// Reads the history on a thread that may block.
async fn read<T: Send + 'static>(
    handle: &Handle,
    query: impl FnOnce(HistoryReader) -> std::io::Result<T> + Send + 'static,
) -> Result<T, Failure> {
    let Some(reader) = handle.telemetry.history().await else {
        return Err("this gateway keeps no history of calls: set `history.enabled: true` in config.yaml and \
                    restart it"
            .into());
    };
    match tokio::task::spawn_blocking(move || query(reader)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(format!("the history cannot be read: {error}").into()),
        Err(error) => Err(format!("the history cannot be read: {error}").into()),
    }
}

fn reply(found: &impl Serialize) -> ToolReply {
    Ok(object(found))
}

async fn list(handle: &Handle, args: Args) -> ToolReply {
    let filter = filter(&args)?;
    let limit = args.count("limit").unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    reply(&read(handle, move |history| history.list(&filter, limit)).await?)
}

async fn get(handle: &Handle, args: Args) -> ToolReply {
    let id = args.count("id").and_then(|id| u64::try_from(id).ok());
    let Some(id) = id else { return Err("`id` must be the number of a call".into()) };
    match read(handle, move |history| history.get(id)).await? {
        Some(call) => reply(&call),
        None => Err(Failure::not_found(format!("no call {id} in the history"))),
    }
}

async fn stats(handle: &Handle, args: Args) -> ToolReply {
    let filter = filter(&args)?;
    let limit = args.count("limit").unwrap_or(DEFAULT_TOOLS).min(MAX_LIMIT);
    reply(&read(handle, move |history| history.stats(&filter, limit)).await?)
}
