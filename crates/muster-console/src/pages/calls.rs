//! The calls of the past: who called what, how it ended and how long it took.

use muster_api::calls::{CallInfo, CallList};
use muster_core::json::RawObject;
use serde_json::{Value, json};

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, Html, el},
    page::{Page, Section, heading},
    request::link,
    widgets::{cell, cut, empty, live, milliseconds, number, state, table, text},
};

/// The calls on a page.
const LIMIT: usize = 50;
/// The longest value on a page, in bytes.
const MAX_VALUE: usize = 32 * 1024;
/// The filters of the page, which are those of the tool and of the command.
const FILTERS: [&str; 4] = ["tool", "server", "caller", "status"];

pub(super) async fn list(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let mut wanted = RawObject::new();
    wanted.set_value("limit", &LIMIT);
    let mut command = format!("muster calls --limit {LIMIT}");
    let given = |name: &str| cx.request.query(name).map(str::trim).filter(|text| !text.is_empty());
    for name in FILTERS {
        if let Some(value) = given(name) {
            wanted.set_value(name, value);
            command = format!("{command} --{name} {}", super::quoted(value));
        }
    }
    let before = given("before").and_then(|text| text.parse::<u64>().ok());
    if let Some(before) = before {
        wanted.set_value("before", &before);
    }
    let list: CallList = cx.gateway.reply("core_calls_list", &wanted).await?;
    let page = Page::new(Section::Calls, "Calls", &list).command(command);
    let fields = FILTERS.map(|name| {
        let input = el("input").attr("type", "text").attr("id", name).attr("name", name);
        let input = input.attr("value", given(name).unwrap_or_default());
        el("div").put(el("label").attr("for", name).put(name)).put(input)
    });
    let filter = el("form")
        .class("filters")
        .attr("action", link(&["calls"]))
        .put(Vec::from(fields))
        .put(el("button").put("Filter"));
    let calls = match list.calls.is_empty() {
        true => empty("No call matches. Calls of agents appear here as they end."),
        false => call_table(&list.calls),
    };
    let next = list.next.map(|next| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(FILTERS.iter().filter_map(|name| Some((*name, given(name)?))));
        let query = query.append_pair("before", &next.to_string()).finish();
        el("p")
            .put(el("a").attr("href", format!("{}?{query}", link(&["calls"]))).put("Older calls"))
    });
    Ok(page.put(heading("Calls")).put(filter).put(live("calls").put(calls)).put(next).into())
}

fn call_table(calls: &[CallInfo]) -> Element {
    let columns = [
        text("Time"),
        text("Tool"),
        text("Ended"),
        text("Caller"),
        number("Duration"),
        number("Result"),
    ];
    let rows = calls.iter().map(|call| {
        let path = link(&["calls", &call.id.to_string()]);
        vec![
            cell(el("a").class("mono").attr("href", path).put(&call.time)),
            cell(el("span").class("mono").put(&call.tool)),
            cell(state(&call.status)),
            cell(&call.caller),
            cell(milliseconds(call.duration_ms)),
            cell(format!("{} B", call.result_bytes)),
        ]
    });
    table(&columns, rows.collect())
}

pub(super) async fn one(cx: PageContext<'_>, id: &str) -> Result<PageReply, CoreError> {
    let id: u64 = id.parse().map_err(|_| CoreError::no_page())?;
    let call: CallInfo = cx.gateway.reply("core_calls_get", &json!({"id": id})).await?;
    let page = Page::new(Section::Calls, &call.tool, &call).command(format!("muster calls {id}"));
    let crumb = el("div").class("crumb").put(el("a").attr("href", link(&["calls"])).put("Calls"));
    let top = el("div")
        .class("heading")
        .put(el("h1").class("mono").put(&call.tool))
        .put(state(&call.status));
    let tool = el("a").attr("href", link(&["tools", &call.tool])).put("Its page, to try it");
    let mut facts = el("dl").class("facts");
    for (label, value) in [
        ("Time", call.time.clone()),
        ("Caller", call.caller.clone()),
        ("Token", call.token.clone()),
        ("Role", call.role.clone()),
        ("Surface", call.surface.clone()),
        ("Server", call.server.clone()),
        ("Effect", call.effect.clone()),
        ("Permitted by", call.rule.clone()),
        ("Duration", milliseconds(call.duration_ms)),
        ("Of that, the server", call.server_ms.map(milliseconds).unwrap_or_default()),
        ("Arguments", format!("{} bytes", call.argument_bytes)),
        ("Result", format!("{} bytes", call.result_bytes)),
        ("Error", call.error.clone()),
    ] {
        if !value.is_empty() {
            facts = facts.put(el("dt").put(label)).put(el("dd").put(cut(&value, MAX_VALUE)));
        }
    }
    let arguments = call.arguments.as_ref().map(|arguments| {
        let value: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
        let pre = el("pre").attr("tabindex", "0").attr("aria-label", "Arguments");
        Html::default().put(el("h2").put("Arguments")).put(pre.put(cut(&pretty, MAX_VALUE)))
    });
    Ok(page.put((crumb, top)).put(el("p").put(tool)).put((facts, arguments)).into())
}
