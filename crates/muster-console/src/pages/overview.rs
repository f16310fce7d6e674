//! The overview: what needs attention, and how many servers, tools and calls there are.

use jiff::Timestamp;
use muster_api::{
    calls::{CallStats, CallTotals},
    config::ConfigProblem,
    mcp_server::McpServerList,
    state::BackendState,
    stats::{BackendStats, Stats},
};
use serde::Serialize;
use serde_json::json;

use super::{
    calls::tokens,
    verdicts::{self, Verdict},
};
use crate::{
    PageContext, PageReply,
    chart::{Bar, Column, bars, columns},
    gateway::CoreError,
    html::{Element, el},
    page::{Page, Section, heading},
    request::link,
    widgets::{
        cell, counted, empty, figure, grouped, lasting, live, milliseconds, number, state, table,
        text,
    },
};

/// The maximum number of bars in a chart.
const BARS: usize = 8;
/// The maximum number of tools whose calls of the last day are in the JSON form.
const TOOLS: usize = 50;

/// The page as JSON.
#[derive(Serialize)]
struct OverviewView<'a> {
    verdicts: &'a [Verdict],
    stats: &'a Stats,
    /// The calls of the last day, by hour and by tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<&'a CallStats>,
}

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let all = json!({"showAll": true, "verbose": true});
    let servers: McpServerList = cx.gateway.reply("core_mcpserver_list", &all).await?;
    let stats: Stats = cx.gateway.reply("core_stats", &json!({})).await?;
    // A gateway without a history has no charts of the last day.
    let day: Option<CallStats> =
        cx.gateway.reply("core_calls_stats", &json!({"since": "24h", "limit": TOOLS})).await.ok();
    let problems: Vec<ConfigProblem> = cx.gateway.reply("core_config_problems", &json!({})).await?;
    let findings = cx.checks.findings().await;
    let verdicts = verdicts::of(&servers.mcp_servers, &findings, &problems);
    let view = OverviewView { verdicts: &verdicts, stats: &stats, day: day.as_ref() };
    let page = Page::new(Section::Overview, "Overview", &view).command("muster doctor");
    let attention = live("attention").put(verdicts::element(cx.form_token, &verdicts));
    Ok(page
        .put(heading("Overview"))
        .put(attention)
        .put(live("state").put(content(&stats, day.as_ref())))
        .into())
}

fn content(stats: &Stats, day: Option<&CallStats>) -> Vec<Element> {
    let backends = &stats.backends;
    let sum = |value: fn(&BackendStats) -> u64| backends.iter().map(value).sum::<u64>();
    let (calls, failed, running) =
        (sum(|one| one.calls), sum(|one| one.failed), sum(|one| one.running));
    let tools: usize = backends.iter().map(|one| one.tools).sum();
    let figures = el("ul")
        .class("figures")
        .put(figure(backends.len().to_string(), "servers and CLIs"))
        .put(figure(tools.to_string(), "tools"))
        .put(figure(grouped(calls), "calls"))
        .put((figure(grouped(failed), "failed"), figure(grouped(running), "running now")))
        .put(figure(lasting(stats.uptime_seconds), "since the start"));
    let past = day.filter(|day| day.total.calls > 0).map(last_day);
    let mut busy: Vec<&BackendStats> = backends.iter().filter(|one| one.calls > 0).collect();
    busy.sort_by_key(|one| std::cmp::Reverse(one.calls));
    busy.truncate(BARS);
    if busy.is_empty() {
        let none = "No calls since the gateway started. Agents reach it at /mcp; `muster connect` sets one up.";
        let past = past.unwrap_or_else(|| empty(none));
        return vec![figures, past, el("h2").put("Backends"), listed(backends)];
    }
    #[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
    let by_calls = |one: &&BackendStats| Bar {
        name: shown(one).to_owned(),
        value: one.calls as f64,
        bad: one.failed as f64,
        label: grouped(one.calls),
    };
    let by_time = |one: &&BackendStats| Bar {
        name: shown(one).to_owned(),
        value: one.p95_ms,
        bad: 0.0,
        label: milliseconds(one.p95_ms),
    };
    let chart = |title: &str, of: Vec<Bar>| {
        el("div").class("card").put(el("h3").put(title)).put(bars(title, &of))
    };
    let charts = el("div")
        .class("cards")
        .put(chart("Calls by backend", busy.iter().map(by_calls).collect()))
        .put(chart("Duration by backend, 95th percentile", busy.iter().map(by_time).collect()));
    let since = el("h2").put("Since the start");
    let past = past.unwrap_or_else(|| el("div"));
    vec![figures, past, since, charts, el("h2").put("Backends"), listed(backends)]
}

/// Computes the column of an hour: its value, the part of the value that is bad, and its tooltip.
type ColumnOf<'a> = dyn Fn(&CallTotals) -> (f64, f64, String) + 'a;

/// The charts of the last day, by hour.
fn last_day(day: &CallStats) -> Element {
    const HOUR: i64 = 3_600;
    let now = Timestamp::now().as_second();
    let first = now - now.rem_euclid(HOUR) - 23 * HOUR;
    let mut hours = vec![CallTotals::default(); 24];
    for found in &day.hours {
        let at = found.hour.parse::<Timestamp>().ok().map(|at| (at.as_second() - first) / HOUR);
        let slot = at.and_then(|at| usize::try_from(at).ok()).and_then(|at| hours.get_mut(at));
        if let Some(slot) = slot {
            *slot = found.totals.clone();
        }
    }
    let clock = |at: usize| {
        let second = first + HOUR * i64::try_from(at).unwrap_or_default();
        let moment = Timestamp::from_second(second).map(|moment| moment.to_string());
        moment.ok().and_then(|text| text.get(11..16).map(str::to_owned)).unwrap_or_default()
    };
    let ends = [format!("{} UTC", clock(0)), "now".to_owned()];
    let chart = |title: &str, top: String, column: &ColumnOf<'_>| {
        let drawn = hours.iter().enumerate().map(|(at, totals)| {
            let (value, bad, words) = column(totals);
            Column { value, bad, about: format!("{} UTC: {words}", clock(at)) }
        });
        let drawn: Vec<Column> = drawn.collect();
        let chart = columns(title, &drawn, [&ends[0], &ends[1]], &top);
        el("div").class("card").put(el("h3").put(title)).put(chart)
    };
    #[expect(clippy::cast_precision_loss, reason = "the height of a column")]
    let number = |value: u64| value as f64;
    let most = |value: fn(&CallTotals) -> u64| hours.iter().map(value).max().unwrap_or_default();
    let slowest = hours.iter().map(|totals| totals.average_ms).fold(0.0, f64::max);
    let CallTotals { calls, errors, result_bytes, .. } = day.total;
    let sums = [
        counted(calls, "call"),
        counted(errors, "error"),
        format!("results of about {}", counted(tokens(result_bytes), "token")),
    ];
    let sums = el("p").class("aside").put(sums.join(", "));
    el("div").put(el("h2").put("Last 24 hours")).put(sums).put(
        el("div")
            .class("cards")
            .put(chart(
                "Calls",
                format!("up to {} an hour", grouped(most(|one| one.calls))),
                &|one| (number(one.calls), 0.0, counted(one.calls, "call")),
            ))
            .put(chart("Errors", format!("{} in all", grouped(day.total.errors)), &|one| {
                (number(one.errors), number(one.errors), counted(one.errors, "error"))
            }))
            .put(chart("Average duration", format!("up to {}", milliseconds(slowest)), &|one| {
                (one.average_ms, 0.0, milliseconds(one.average_ms))
            })),
    )
}

/// The name of a backend, without the trailing slash of a backend that is not an MCP server.
fn shown(backend: &BackendStats) -> &str {
    backend.name.trim_end_matches('/')
}

/// The name of a backend, linked to its page if it is an MCP server.
fn named(backend: &BackendStats) -> Element {
    match backend.state {
        BackendState::Ready => el("span").put(shown(backend)),
        _ => el("a").attr("href", link(&["servers", &backend.name])).put(&backend.name),
    }
}

/// A duration, or a dash if there was no call.
fn spent(backend: &BackendStats, ms: f64) -> Element {
    match backend.calls {
        0 => el("span").class("muted").put("–"),
        _ => el("span").put(milliseconds(ms)),
    }
}

fn listed(backends: &[BackendStats]) -> Element {
    let columns = [
        text("Name"),
        text("State"),
        number("Tools"),
        number("Calls"),
        number("Failed"),
        number("Average"),
        number("95th percentile"),
    ];
    let rows = backends.iter().map(|one| {
        vec![
            cell(named(one)),
            cell(state(one.state.as_str())),
            cell(one.tools.to_string()),
            cell(one.calls.to_string()),
            cell(one.failed.to_string()),
            cell(spent(one, one.average_ms)),
            cell(spent(one, one.p95_ms)),
        ]
    });
    table(&columns, rows.collect())
}
