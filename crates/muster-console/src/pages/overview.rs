//! The overview: what needs attention, and how many servers, tools and calls there are.

use muster_api::{
    config::ConfigInfo,
    mcp_server::McpServerList,
    stats::{BackendStats, Stats},
};
use serde::Serialize;
use serde_json::json;

use super::verdicts::{self, Verdict};
use crate::{
    PageContext, PageReply,
    chart::{Bar, bars},
    gateway::CoreError,
    html::{Element, el},
    page::{Page, Section, heading},
    request::link,
    widgets::{cell, empty, figure, lasting, live, milliseconds, number, state, table, text},
};

/// The number of bars in a chart.
const BARS: usize = 8;

/// The page as a value.
#[derive(Serialize)]
struct OverviewView<'a> {
    verdicts: &'a [Verdict],
    stats: &'a Stats,
}

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let all = json!({"showAll": true, "verbose": true});
    let servers: McpServerList = cx.gateway.reply("core_mcpserver_list", &all).await?;
    let config: ConfigInfo = cx.gateway.reply("core_config_get", &json!({})).await?;
    let stats: Stats = cx.gateway.reply("core_stats", &json!({})).await?;
    let verdicts = verdicts::of(&servers.mcp_servers, &config);
    let view = OverviewView { verdicts: &verdicts, stats: &stats };
    let page = Page::new(Section::Overview, "Overview", &view).command("muster doctor");
    let attention = live("attention").put(verdicts::element(cx, &verdicts));
    Ok(page.put(heading("Overview")).put(attention).put(live("state").put(content(&stats))).into())
}

fn content(stats: &Stats) -> Vec<Element> {
    let backends = &stats.backends;
    let sum = |value: fn(&BackendStats) -> u64| backends.iter().map(value).sum::<u64>();
    let (calls, failed, running) =
        (sum(|one| one.calls), sum(|one| one.failed), sum(|one| one.running));
    let tools: usize = backends.iter().map(|one| one.tools).sum();
    let figures = el("ul")
        .class("figures")
        .put(figure(backends.len().to_string(), "servers and CLIs"))
        .put(figure(tools.to_string(), "tools"))
        .put(figure(calls.to_string(), "calls"))
        .put((figure(failed.to_string(), "failed"), figure(running.to_string(), "running now")))
        .put(figure(lasting(stats.uptime_seconds), "since the start"));
    if calls == 0 {
        let none = "No calls since the gateway started. Agents reach it at /mcp; `muster connect` sets one up.";
        return vec![
            figures,
            el("h2").put("Backends"),
            listed(backends),
            el("h2").put("Calls"),
            empty(none),
        ];
    }
    let mut busy: Vec<&BackendStats> = backends.iter().filter(|one| one.calls > 0).collect();
    busy.sort_by_key(|one| std::cmp::Reverse(one.calls));
    busy.truncate(BARS);
    #[expect(clippy::cast_precision_loss, reason = "the length of a bar")]
    let by_calls = |one: &&BackendStats| Bar {
        name: one.name.clone(),
        value: one.calls as f64,
        bad: one.failed as f64,
        label: one.calls.to_string(),
    };
    let by_time = |one: &&BackendStats| Bar {
        name: one.name.clone(),
        value: one.p95_ms,
        bad: 0.0,
        label: milliseconds(one.p95_ms),
    };
    let chart =
        |title: &str, of: Vec<Bar>| el("div").put(el("h2").put(title)).put(bars(title, &of));
    let charts = el("div")
        .class("split")
        .put(chart("Calls, failed ones in red", busy.iter().map(by_calls).collect()))
        .put(chart("Duration, 95th percentile", busy.iter().map(by_time).collect()));
    vec![figures, charts, el("h2").put("Backends"), listed(backends)]
}

/// The name of a backend; a server has a page.
fn named(backend: &BackendStats) -> Element {
    match backend.state.as_str() {
        "Ready" => el("span").put(&backend.name),
        _ => el("a").attr("href", link(&["servers", &backend.name])).put(&backend.name),
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
            cell(state(&one.state)),
            cell(one.tools.to_string()),
            cell(one.calls.to_string()),
            cell(one.failed.to_string()),
            cell(milliseconds(one.average_ms)),
            cell(milliseconds(one.p95_ms)),
        ]
    });
    table(&columns, rows.collect())
}
