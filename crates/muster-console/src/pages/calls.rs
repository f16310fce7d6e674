//! The call history: who called which tool, how the call ended and how long it took.

use muster_api::calls::{CallInfo, CallList};
use muster_core::{
    call::{Caller, Role},
    json::RawObject,
    observer::CallStatus,
    secret_text::REDACTED,
};
use serde_json::{Value, json};

use crate::{
    PageContext, PageReply,
    chart::{Span, timeline},
    gateway::CoreError,
    html::{Element, Html, el},
    page::{Page, Section, crumb, heading},
    request::link,
    widgets::{
        bytes, call_status, cell, counted, cut, effect, empty, grouped, live, milliseconds, number,
        table, text, time,
    },
};

/// The maximum number of calls on a page.
const LIMIT: usize = 50;
/// The maximum length of a value on a page, in bytes.
const MAX_VALUE: usize = 32 * 1024;
/// The filters of the page. They have the same names as the tool's arguments and the command's flags.
const FILTERS: [&str; 4] = ["tool", "server", "caller", "status"];
/// The filter for calls that ended with any error.
const ANY_ERROR: &str = "error";
/// The maximum length of arguments that a link to the policy repeats, in bytes.
const MAX_LINK_ARGUMENTS: usize = 4 * 1024;
/// The surface that replies with previews of long results.
const META_SURFACE: &str = "meta";
/// The size of a preview in tokens. An agent reads the rest of a result with `get_output`.
const PREVIEW_TOKENS: u64 = 16_000;
/// The average number of bytes of a token.
const TOKEN_BYTES: u64 = 4;

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
        let value = given(name).unwrap_or_default();
        let control = match name {
            "status" => status_select(value),
            _ => el("input").attr("type", "text").attr("value", value),
        };
        let control = control.attr("id", name).attr("name", name);
        el("div").put(el("label").attr("for", name).put(name)).put(control)
    });
    let filter = el("form")
        .class("filters card")
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
        let path = format!("{}?{query}", link(&["calls"]));
        el("a").class("button").attr("href", path).put("Older calls")
    });
    // A GET form: the selected calls become the steps of a draft, and showing the draft changes nothing.
    let draft = (!list.calls.is_empty())
        .then(|| el("button").put("Create a workflow from the selected calls"));
    let chosen = el("form")
        .attr("action", link(&["workflows", "-", "new"]))
        .put(live("calls").put(calls))
        .put(el("div").class("row below").put(draft).put(next));
    let lead = "Every call of a tool, newest first, as it ends.";
    let page = page.put(heading("Calls")).put(el("p").class("lead").put(lead));
    Ok(page.put(filter).put(chosen).into())
}

/// The statuses to choose from.
fn status_select(chosen: &str) -> Element {
    let option = |value: &'static str, label: String| {
        el("option").attr("value", value).flag("selected", value == chosen).put(label)
    };
    let known = CallStatus::ALL.map(CallStatus::as_str);
    let known = known.map(|status| option(status, status.replace('_', " ")));
    el("select")
        .put(option("", "any".to_owned()))
        .put(option(ANY_ERROR, "any error".to_owned()))
        .put(Vec::from(known))
}

fn call_table(calls: &[CallInfo]) -> Element {
    let columns = [
        text("Tool"),
        text("Status"),
        text("Time"),
        text("Caller"),
        number("Duration"),
        number("Result"),
    ];
    let rows = calls.iter().map(|call| {
        let id = call.id.to_string();
        let path = link(&["calls", &id]);
        let choose = el("input")
            .attr("type", "checkbox")
            .attr("name", "call")
            .attr("value", &id)
            .attr("aria-label", format!("Select call {id}"));
        let named = el("a").class("mono").attr("href", path).put(&call.tool);
        let who = if call.token.is_empty() { &call.caller } else { &call.token };
        vec![
            cell(el("span").class("pick").put((choose, named))),
            cell(call.status.map(call_status)),
            cell(time(&call.time)),
            cell(who),
            cell(milliseconds(call.duration_ms)),
            cell(bytes(call.result_bytes)),
        ]
    });
    table(&columns, rows.collect())
}

pub(super) async fn one(cx: PageContext<'_>, id: &str) -> Result<PageReply, CoreError> {
    let id: u64 = id.parse().map_err(|_| CoreError::no_page())?;
    let call: CallInfo = cx.gateway.reply("core_calls_get", &json!({"id": id})).await?;
    let page = Page::new(Section::Calls, &call.tool, &call).command(format!("muster calls {id}"));
    let top = el("div")
        .class("heading")
        .put(el("h1").class("mono").put(&call.tool))
        .put(call.status.map(call_status));
    let tool = el("a").class("button").attr("href", link(&["tools", &call.tool]));
    let draft = el("a").class("button");
    let draft = draft.attr("href", format!("{}?call={id}", link(&["workflows", "-", "new"])));
    let buttons = (tool.put("Try the tool"), draft.put("Create a workflow from this call"));
    let mut facts = el("dl").class("facts");
    let rule = (!call.rule.is_empty()).then(|| rule_and_link(&call));
    for (label, value) in [
        ("Time", cell(time(&call.time))),
        ("Caller", cell(&call.caller)),
        ("Token", cell(&call.token)),
        ("Role", cell(call.role.map(Role::as_str))),
        ("Surface", cell(&call.surface)),
        ("Server", server(cx, &call.server).await),
        ("Effect", cell(call.effect.map(effect))),
        ("Permitted by", rule.unwrap_or_default()),
        ("Arguments", cell(sized(call.argument_bytes))),
        ("Result", cell(sized(call.result_bytes))),
        ("Tokens saved", cell(saved(&call))),
        ("Error", cell(cut(&call.error, MAX_VALUE))),
    ] {
        if !value.is_empty() {
            facts = facts.put(el("dt").put(label)).put(el("dd").put(value));
        }
    }
    let arguments = call.arguments.as_ref().map(|arguments| {
        let value: Value = serde_json::from_str(arguments.get()).unwrap_or_default();
        let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
        let pre = el("pre").attr("tabindex", "0").attr("aria-label", "Arguments");
        Html::default().put(el("h2").put("Arguments")).put(pre.put(cut(&pretty, MAX_VALUE)))
    });
    let hops = el("div").put(el("h2").put("Timing")).put(timeline("Timing by hop", &hops(&call)));
    Ok(page
        .put((crumb("Calls", "calls"), top))
        .put(el("div").class("row").put(buttons))
        .put(
            el("div").class("split").put(el("div").put(el("h2").put("About")).put(facts)).put(hops),
        )
        .put(arguments)
        .into())
}

/// The rule of a call, and a link that asks the policy about such a call.
///
/// There is no link for callers who logged in: the history has their subject, but the answer also depends on their groups
/// and email address.
fn rule_and_link(call: &CallInfo) -> Html {
    let rule = cell((el("code").put(&call.rule), " "));
    if call.token.is_empty() && *call.caller != *Caller::local().subject {
        return rule;
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("tool", &call.tool);
    if !call.token.is_empty() {
        query.append_pair("token", &call.token);
    }
    if call.role == Some(Role::Operator) {
        query.append_pair("operator", "1");
    }
    let kept = call.arguments.as_ref().map(|arguments| arguments.get());
    let kept = kept.filter(|text| text.len() <= MAX_LINK_ARGUMENTS && !text.contains(REDACTED));
    let label = match kept {
        Some(arguments) => {
            query.append_pair("arguments", arguments);
            "Ask the policy"
        }
        None if call.argument_bytes <= "{}".len() as u64 => "Ask the policy",
        None => "Ask the policy, without the arguments",
    };
    let path = format!("{}?{}", link(&["policies"]), query.finish());
    rule.put(el("a").attr("href", path).put(label))
}

/// The backend of a call. MCP servers that still exist have a page; CLIs and the core tools have none.
async fn server(cx: PageContext<'_>, name: &str) -> Html {
    if name.is_empty() {
        return Html::default();
    }
    let found = cx.gateway.core("core_mcpserver_get", &json!({"name": name})).await;
    match found {
        Ok(_) => cell(el("a").attr("href", link(&["servers", name])).put(name)),
        Err(_) => cell(name),
    }
}

/// How the duration of a call is divided, in microseconds. The gateway's part comes first: it finds the tool and checks
/// the policy and the arguments before it calls the server.
fn hops(call: &CallInfo) -> Vec<Span> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "microseconds of a call"
    )]
    let micros = |ms: f64| (ms * 1e3).max(0.0) as u64;
    let (all, server) = (micros(call.duration_ms), micros(call.server_ms.unwrap_or_default()));
    let own = all.saturating_sub(server);
    let is_error = call.status.is_some_and(CallStatus::is_error);
    let span = |name: &str, from: u64, length: u64, ms: f64, is_bad: bool| Span {
        name: name.to_owned(),
        from,
        length,
        is_bad,
        label: milliseconds(ms),
    };
    let mut spans = vec![span("whole call", 0, all, call.duration_ms, false)];
    match call.server_ms {
        Some(ms) => {
            spans.push(span("gateway", 0, own, call.duration_ms - ms, false));
            spans.push(span(&call.server, own, server, ms, is_error));
        }
        None => spans.push(span("gateway", 0, all, call.duration_ms, is_error)),
    }
    spans
}

/// Estimates the number of tokens of a text by its length in bytes.
pub(super) const fn tokens(length: u64) -> u64 {
    length.div_ceil(TOKEN_BYTES)
}

/// A size in bytes, with the estimated number of tokens.
fn sized(length: u64) -> String {
    format!("{}, about {}", bytes(length), counted(tokens(length), "token"))
}

/// The tokens that a preview saved the agent from reading. Workflows and other surfaces get results in full.
fn saved(call: &CallInfo) -> Option<String> {
    if call.depth > 0 || call.surface != META_SURFACE {
        return None;
    }
    let saved = tokens(call.result_bytes).checked_sub(PREVIEW_TOKENS).filter(|saved| *saved > 0)?;
    Some(format!("about {}: the agent got a preview", grouped(saved)))
}

#[cfg(test)]
mod tests {
    use muster_api::calls::CallInfo;
    use muster_core::{json::raw, observer::CallStatus};
    use serde_json::json;

    use super::{call_status, hops, rule_and_link, saved, status_select};
    use crate::html::Html;

    fn call() -> CallInfo {
        CallInfo {
            tool: "cli_show".to_owned(),
            status: Some(CallStatus::Ok),
            caller: "local".to_owned(),
            rule: "default".to_owned(),
            surface: "meta".to_owned(),
            argument_bytes: 12,
            result_bytes: 100_000,
            ..CallInfo::default()
        }
    }

    #[test]
    fn the_policy_is_asked_only_about_callers_that_are_known() {
        let kept = Some(raw(&json!({"word": "a"})));
        let redacted = Some(raw(&json!({"word": "[REDACTED]"})));
        let (ada, ci) = (|| "ada".to_owned(), || "ci".to_owned());
        let asks = "?tool=cli_show&amp;arguments=%7B%22word%22%3A%22a%22%7D\">Ask the policy<";
        for (call, expected) in [
            (CallInfo { arguments: kept.clone(), ..call() }, asks),
            (CallInfo { caller: ada(), arguments: kept, ..call() }, "default</code> "),
            (
                CallInfo { caller: ada(), token: ci(), argument_bytes: 2, ..call() },
                "?tool=cli_show&amp;token=ci\">Ask the policy<",
            ),
            (call(), "?tool=cli_show\">Ask the policy, without the arguments<"),
            (
                CallInfo { arguments: redacted, ..call() },
                "?tool=cli_show\">Ask the policy, without the arguments<",
            ),
        ] {
            let shown = rule_and_link(&call).into_string();
            assert!(shown.contains(expected), "{shown}");
            assert_eq!(shown.contains("href"), expected.contains('?'), "{shown}");
        }
    }

    #[test]
    fn every_status_can_be_selected() {
        let shown = Html::from(status_select("too_deep")).into_string();
        for value in ["error", "needs_input", "refused", "unknown"] {
            assert!(shown.contains(&format!("<option value=\"{value}\">")), "{shown}");
        }
        assert!(shown.contains("<option value=\"too_deep\" selected>too deep<"), "{shown}");
    }

    #[test]
    fn only_errors_are_bad() {
        for (status, server_ms, expected) in [
            (CallStatus::Ok, Some(1.0), false),
            (CallStatus::Cancelled, Some(1.0), false),
            (CallStatus::NeedsInput, None, false),
            (CallStatus::Failed, Some(1.0), true),
            (CallStatus::Denied, None, true),
        ] {
            let call = CallInfo { status: Some(status), server_ms, ..call() };
            assert_eq!(hops(&call).last().unwrap().is_bad, expected, "{status:?}");
            let chip = Html::from(call_status(status)).into_string();
            assert_eq!(chip.contains("chip bad"), expected, "{chip}");
        }
    }

    #[test]
    fn only_agents_of_the_meta_surface_get_previews() {
        assert_eq!(saved(&call()).unwrap(), "about 9\u{202f}000: the agent got a preview");
        let classic = CallInfo { surface: "classic".to_owned(), ..call() };
        let nested = CallInfo { depth: 1, ..call() };
        let short = CallInfo { result_bytes: 100, ..call() };
        for call in [classic, nested, short] {
            assert_eq!(saved(&call), None);
        }
    }
}
