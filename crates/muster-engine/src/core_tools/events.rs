//! `core_events`: the journal of events.

use std::{sync::Arc, time::Duration};

use jiff::{Timestamp, tz::TimeZone};
use muster_api::event::{EventInfo, PastEvents};
use muster_core::{
    backend::CallContext,
    call::Caller,
    client::{ClientSession, Notification},
    json::raw,
};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::{Args, CoreTool, ToolAudience, ToolReply, object};
use crate::{
    events::{Event, Filter, Following, duration, parse_time},
    handle::Handle,
};

/// The default number of events.
const DEFAULT_LIMIT: usize = 50;
/// The longest time to follow events.
const MAX_LENGTH: Duration = Duration::from_secs(60 * 60);
/// The method of the notification with the events before the call.
const FOUND: &str = "notifications/muster/events";
/// The method of the notification of each event that is followed.
const NOTICE: &str = "notifications/muster/event";

pub(super) const TOOLS: &[CoreTool] = &[CoreTool {
    name: "core_events",
    audience: ToolAudience::Everyone,
    effect: None,
    summary: "Show what happened in the gateway, newest first: servers started, failed, lost and \
              found again, services, definitions created, changed and deleted. All filters must match.",
    schema: || {
        json!({"type": "object", "properties": {
            "resourceType": {"type": "string", "description": "Kind of the resource, such as MCPServer"},
            "resourceName": {"type": "string", "description": "Name of the resource"},
            "namespace": {"type": "string", "description": "Namespace of the resource"},
            "eventType": {"type": "string", "enum": ["Normal", "Warning"], "description": "Only events of this severity"},
            "since": {"type": "string", "description": "Not before: a duration ago (1h30m), RFC 3339, YYYY-MM-DD or YYYY-MM-DD HH:MM:SS"},
            "until": {"type": "string", "description": "Not after; written like `since`"},
            "limit": {"type": "number", "default": DEFAULT_LIMIT, "description": "The maximum number of events, newest first; with follow, also the number of new events after which to end"},
            "follow": {"type": "boolean", "default": false, "description": "After the result, send each new event to this session as notifications/muster/event, until the session ends or calls it again"},
            "duration": {"type": "string", "description": "With follow: how long to keep the call open (30s, 5m, at most 1h). Events are sent while it runs, past ones first as notifications/muster/events. The result holds all of them"},
        }})
    },
    run: |handle, cx, args| Box::pin(find(handle, cx, args)),
}];

fn info(event: &Event, zone: &TimeZone) -> EventInfo {
    let at = event.timestamp.to_zoned(zone.clone());
    EventInfo {
        message: event.message.clone(),
        namespace: event.namespace.clone(),
        reason: event.reason.clone(),
        resource_name: event.involved_object.name.clone(),
        resource_type: event.involved_object.kind.clone(),
        timestamp: at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        r#type: event.severity.clone(),
    }
}

async fn find(handle: &Handle, cx: CallContext<'_>, args: Args) -> ToolReply {
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
        limit: Some(args.count("limit").unwrap_or(DEFAULT_LIMIT)),
        visible: Some(handle.visible_servers(cx.caller)),
    };
    let follow = match args.flag("follow") {
        true => Some((length(&args)?, handle.journal.follow())),
        false => None,
    };
    // Subscribe before the query, so that no event is lost in between.
    let mut found = handle.journal.find(filter.clone()).await;
    if let Some((None, events)) = follow {
        if let Some(session) = cx.client.client_session() {
            let filter = Filter { since: None, until: None, limit: None, visible: None, ..filter };
            let follower = Follower { handle: handle.clone(), caller: cx.caller.clone(), filter };
            handle.journal.spawn(stream(session, events, follower, found.first().cloned()));
        }
    } else if let Some((Some(length), events)) = follow {
        let most = args.count("limit").unwrap_or(usize::MAX);
        let params = raw(&PastEvents { events: infos(&found) });
        cx.client.notify(Notification { method: FOUND.to_owned(), params });
        let filter = Filter { visible: None, ..filter };
        let follower = Follower { handle: handle.clone(), caller: cx.caller.clone(), filter };
        let mut later = followed(cx, events, &follower, &found, (length, most)).await;
        later.reverse();
        later.append(&mut found);
        found = later;
    }
    Ok(object(&infos(&found)))
}

fn infos(events: &[Arc<Event>]) -> Vec<EventInfo> {
    let zone = TimeZone::system();
    events.iter().map(|event| info(event, &zone)).collect()
}

/// How long the call stays open; `None` if it returns at once.
fn length(args: &Args) -> Result<Option<Duration>, String> {
    let Some(text) = args.text("duration") else { return Ok(None) };
    match duration(text) {
        Some(length) => Ok(Some(length.min(MAX_LENGTH))),
        None => Err(format!("Invalid 'duration' format: '{text}'; write it like 30s or 5m")),
    }
}

/// A caller that follows events.
struct Follower {
    handle: Handle,
    caller: Caller,
    filter: Filter,
}

impl Follower {
    /// Whether the caller may see an event. Checked for each event, because servers and permissions may change
    /// meanwhile.
    fn takes(&self, event: &Event) -> bool {
        self.filter.takes(event) && self.handle.visible_servers(&self.caller).has_event(event)
    }
}

/// Sends new events to a session, until the session ends or starts to follow events again.
async fn stream(
    session: Arc<dyn ClientSession>,
    mut events: Following,
    follower: Follower,
    newest: Option<Arc<Event>>,
) {
    let number = session.begin_stream();
    let zone = TimeZone::system();
    while let Some(event) = events.next().await {
        if session.newest_stream() != number {
            return;
        }
        let is_known = newest.as_ref().is_some_and(|newest| newest.timestamp >= event.timestamp);
        if is_known || !follower.takes(&event) {
            continue;
        }
        let params = raw(&info(&event, &zone));
        if !session.notify(&Notification { method: NOTICE.to_owned(), params }) {
            return;
        }
    }
}

/// Notifies the client of events, until the duration or the number is reached. Returns them, oldest first.
async fn followed(
    cx: CallContext<'_>,
    mut events: Following,
    follower: &Follower,
    known: &[Arc<Event>],
    (length, most): (Duration, usize),
) -> Vec<Arc<Event>> {
    let end = Instant::now() + length;
    let zone = TimeZone::system();
    let mut notified = Vec::new();
    while notified.len() < most {
        let Ok(Some(event)) = timeout_at(end, events.next()).await else { break };
        let is_known = known.iter().any(|known| Arc::ptr_eq(known, &event));
        if follower.takes(&event) && !is_known {
            let params = raw(&info(&event, &zone));
            cx.client.notify(Notification { method: NOTICE.to_owned(), params });
            notified.push(event);
        }
    }
    notified
}
