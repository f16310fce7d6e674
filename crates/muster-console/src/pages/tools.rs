//! The tools: search as agents use it, and trying out a tool as an agent would call it.

use muster_api::search::MatchVerdict;
use muster_core::{
    effect::Effect,
    json::{RawObject, raw},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::{
    PageContext, PageReply,
    gateway::{CoreError, MetaReply},
    html::{Element, Html, el},
    page::{Page, Section, crumb, form, heading},
    request::link,
    schema_form::SchemaForm,
    tool_result::ToolResultView,
    widgets::{cell, copied, cut, effect, empty, notice, number, table, text},
};

/// The maximum number of tools on a page.
const PAGE: usize = 50;
/// The maximum length of a description and of a schema on a page, in bytes.
const MAX_DESCRIPTION: usize = 8 * 1024;
const MAX_SCHEMA: usize = 64 * 1024;
/// The maximum length of a result on a page, in tokens.
const RESULT_TOKENS: u32 = 24_000;

/// The reply of `filter_tools`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ToolSearch {
    pub(super) total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<MatchVerdict>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    pub(super) tools: Vec<FoundTool>,
}

/// A tool in the search results.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct FoundTool {
    name: String,
    summary: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    effect: Option<Effect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unavailable: Option<String>,
}

impl ToolSearch {
    /// Parses a reply. A sentence counts as no tools: a gateway without tools replies with one.
    pub(super) fn of(reply: &MetaReply) -> Self {
        serde_json::from_value(reply.value()).unwrap_or_default()
    }
}

/// A table of tools.
pub(super) fn tool_table(found: &ToolSearch) -> Element {
    let is_ranked = found.tools.iter().any(|tool| tool.score.is_some());
    let mut columns = vec![text("Name"), text("Effect"), text("About")];
    if is_ranked {
        columns.extend([text("Match"), number("Score")]);
    }
    let rows = found.tools.iter().map(|tool| {
        let unavailable = tool.unavailable.as_ref();
        let unavailable = unavailable
            .map(|why| el("div").class("small muted").put(format!("unavailable: {why}")));
        vec![
            cell(el("a").class("mono").attr("href", link(&["tools", &tool.name])).put(&tool.name)),
            cell(tool.effect.map(effect)),
            cell((tool.summary.as_str(), unavailable)),
            cell(tool.r#match.as_deref().unwrap_or_default()),
            cell(tool.score.map(|score| format!("{score:.2}"))),
        ]
    });
    table(&columns, rows.collect())
}

pub(super) async fn list(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let query = cx.request.query("q").map(str::trim).unwrap_or_default();
    let offset: usize =
        cx.request.query("offset").and_then(|text| text.parse().ok()).unwrap_or_default();
    let mut wanted = RawObject::new();
    if !query.is_empty() {
        wanted.set_value("query", query);
    }
    for (name, value) in [("limit", PAGE), ("offset", offset), ("max_tokens", 20_000)] {
        wanted.set_value(name, &value);
    }
    let found = ToolSearch::of(&cx.gateway.meta("filter_tools", &wanted).await?);
    let command = match query {
        "" => "muster list tools".to_owned(),
        query => format!("muster search {}", super::quoted(query)),
    };
    let page = Page::new(Section::Tools, "Tools", &found).command(command);
    let search = el("form")
        .class("search")
        .attr("role", "search")
        .attr("action", link(&["tools"]))
        .put(
            el("input")
                .attr("type", "search")
                .attr("name", "q")
                .attr("value", query)
                .attr("aria-label", "What the tool should do")
                .attr("placeholder", "What should the tool do? create an issue, read a file, …"),
        )
        .put(el("button").class("primary").put("Search"));
    let verdict = found.verdict.map(|verdict| {
        let (class, word) = match verdict {
            MatchVerdict::Found => ("chip ok", "found"),
            MatchVerdict::Unsure => ("chip warn", "unsure"),
            MatchVerdict::NoSuchTool => ("chip bad", "no such tool"),
        };
        el("span").class(class).put(word)
    });
    let count = match found.total {
        1 => "1 tool".to_owned(),
        total => format!("{total} tools"),
    };
    let note = found.note.as_ref().map(|note| el("span").class("muted small").put(note));
    let about = el("p").class("row").put(verdict).put(el("span").put(count)).put(note);
    let next = found.next_offset.map(|next| {
        let pairs = [("q", query), ("offset", &next.to_string())];
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        el("p").put(el("a").attr("href", format!("{}?{query}", link(&["tools"]))).put("More tools"))
    });
    let tools = match found.tools.is_empty() {
        true => empty("No tool matches. Say it in other words, or look for a part of a name."),
        false => tool_table(&found),
    };
    let lead = "Search as an agent does: by what the tool should do, best matches first.";
    let page = page.put(heading("Tools")).put(el("p").class("lead").put(lead));
    Ok(page.put(search).put(about).put(tools).put(el("div").put(next)).into())
}

/// A tool as `describe_tool` shows it, and the result of trying it.
#[derive(Debug, Serialize)]
struct ToolView<'a> {
    tool: &'a Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a ToolResultView>,
}

pub(super) async fn one(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    let tool = described(cx, name).await?;
    Ok(page(cx, name, &tool, None).into())
}

async fn described(cx: PageContext<'_>, name: &str) -> Result<Value, CoreError> {
    let wanted = json!({"name": name, "max_tokens": 50_000});
    let reply = cx.gateway.meta("describe_tool", &wanted).await?;
    if reply.failed {
        return Err(CoreError::not_found(reply.text));
    }
    Ok(reply.value())
}

/// Calls the tool as an agent does, with the arguments of the form.
pub(super) async fn call(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    let tool = described(cx, name).await?;
    let arguments = match SchemaForm::new(&schema(&tool)).arguments(cx.request) {
        Ok(arguments) => arguments,
        Err(problem) => return Ok(page(cx, name, &tool, Some(Err(problem))).into()),
    };
    let wanted = json!({"name": name, "arguments": arguments, "max_tokens": RESULT_TOKENS});
    let result = ToolResultView::of(cx.gateway.meta("call_tool", &wanted).await?);
    Ok(page(cx, name, &tool, Some(Ok((arguments, result)))).into())
}

fn schema(tool: &Value) -> Value {
    tool.get("inputSchema").cloned().unwrap_or_default()
}

/// The outcome of trying a tool: its arguments and result, or the problem of the form.
type Tried = Result<(Map<String, Value>, ToolResultView), String>;

fn page(cx: PageContext<'_>, name: &str, tool: &Value, tried: Option<Tried>) -> Page {
    let known = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
    let result = tried.as_ref().and_then(|tried| tried.as_ref().ok()).map(|(_, result)| result);
    let page = Page::new(Section::Tools, name, &ToolView { tool, result });
    let page = page.command(format!("muster get tool {}", super::quoted(name)));
    let kind = Effect::parse(known("effect"));
    let crumb = crumb("Tools", "tools");
    let top =
        el("div").class("heading").put(el("h1").class("mono").put(name)).put(kind.map(effect));
    let unavailable = Some(known("unavailable")).filter(|why| !why.is_empty());
    let page = page
        .put((crumb, top))
        .put(unavailable.map(|why| notice("warn", why)))
        .put(el("p").class("lead").put(cut(known("description"), MAX_DESCRIPTION)));
    let schema = schema(tool);
    let is_destructive = kind == Some(Effect::Destructive);
    let button = el("button").class(if is_destructive { "danger" } else { "primary" });
    let button = button.put(if is_destructive {
        "Call it: it may destroy something"
    } else {
        "Call the tool"
    });
    let fields = el("div").class("fields").put(SchemaForm::new(&schema).fields(cx.request));
    let form = form(&link(&["tools", name]), cx.form_token).put(fields).put(button);
    let (problem, outcome) = match tried {
        None => (None, None),
        Some(Err(problem)) => (Some(notice("bad", &problem)), None),
        Some(Ok((arguments, result))) => {
            (None, Some((result.element(), repeated(cx, name, &arguments))))
        }
    };
    let pretty = serde_json::to_string_pretty(&schema).unwrap_or_default();
    page.put(outcome)
        .put(el("h2").put("Try it"))
        .put((problem, form))
        .put(el("h2").put("Schema"))
        .put(
            el("details")
                .put(el("summary").put("JSON Schema of the arguments"))
                .put(pre("JSON Schema", &pretty)),
        )
}

fn pre(label: &str, text: &str) -> Element {
    el("pre").attr("tabindex", "0").attr("aria-label", label).put(cut(text, MAX_SCHEMA))
}

/// The command and the JSON by which a call can be repeated elsewhere.
fn repeated(cx: PageContext<'_>, name: &str, arguments: &Map<String, Value>) -> Html {
    let given = raw(arguments);
    let command =
        format!("muster call {} --json {}", super::quoted(name), super::quoted(given.get()));
    let wrapped = raw(&json!({"name": name, "arguments": arguments}));
    let url = format!("{}://{}/mcp", cx.request.scheme(), cx.request.host());
    let curl = (cx.curl_line)(&url, "call_tool", &wrapped);
    let agent = json!({"name": "call_tool", "arguments": wrapped}).to_string();
    Html::default()
        .put(el("h2").put("The same call"))
        .put(copied("On the command line", &command))
        .put((copied("With curl", &curl), copied("By an agent", &agent)))
}
