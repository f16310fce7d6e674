//! The journal of events.

use muster_api::event::EventInfo;
use serde_json::json;

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::el,
    page::{Page, Section, heading},
    request::link,
    widgets::{cell, empty, live, local_time, state, table, text},
};

/// The maximum number of events on a page.
const LIMIT: usize = 100;

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let only_warnings = cx.request.query("type") == Some("warning");
    let (wanted, command) = match only_warnings {
        true => (json!({"limit": LIMIT, "eventType": "Warning"}), " --type warning"),
        false => (json!({"limit": LIMIT}), ""),
    };
    let events: Vec<EventInfo> = cx.gateway.reply("core_events", &wanted).await?;
    let page = Page::new(Section::Events, "Events", &events);
    let page = page.command(format!("muster events --limit {LIMIT}{command}"));
    let choice = |label: &str, query: &str, is_chosen: bool| {
        let choice = el("a").class("button").attr("href", format!("{}{query}", link(&["events"])));
        if is_chosen { choice.attr("aria-current", "true").put(label) } else { choice.put(label) }
    };
    let all = choice("All", "", !only_warnings);
    let warnings = choice("Warnings", "?type=warning", only_warnings);
    let rows = events.iter().map(|event| {
        let resource = format!("{} {}", event.resource_type, event.resource_name);
        vec![
            cell(local_time(&event.timestamp)),
            cell(state(&event.r#type)),
            cell(resource),
            cell(&event.message),
        ]
    });
    let columns = [text("Time"), text("Type"), text("Resource"), text("What happened")];
    let events = match events.is_empty() {
        true => empty("Nothing has happened."),
        false => table(&columns, rows.collect()),
    };
    let choices = el("p").class("row").put((all, warnings));
    Ok(page.put(heading("Events")).put(choices).put(live("events").put(events)).into())
}
