//! The MCP servers: the state of each and its reason, its tools, its log, and the actions on it.

use http::StatusCode;
use muster_api::{
    auth::LoginDetails,
    mcp_server::{McpServerInfo, McpServerList, ServerLog},
    state::ServerState,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::tools::{ToolSearch, tool_table};
use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, Html, el},
    page::{Page, Section, crumb, form, heading},
    request::link,
    schema_form::SchemaForm,
    widgets::{cell, counted, cut, empty, live, notice, notice_of, state, table, text, time},
};

/// The maximum number of log lines on a page.
const LOG_LINES: usize = 200;
/// The maximum length of a log line, in bytes.
const MAX_LINE: usize = 600;
/// The maximum number of tools on a server's page.
const TOOLS: usize = 100;
/// The fields of a new server that most servers need, in this order.
const MAIN_FIELDS: [&str; 9] =
    ["name", "type", "command", "args", "env", "url", "headers", "description", "autoStart"];

pub(super) async fn list(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let arguments = json!({"showAll": true, "verbose": true});
    let list: McpServerList = cx.gateway.reply("core_mcpserver_list", &arguments).await?;
    let page =
        Page::new(Section::Servers, "Servers", &list).command("muster list mcpservers --all");
    let add = el("a").class("button primary").attr("href", link(&["servers", "-", "new"]));
    let import =
        el("a").class("button").attr("href", link(&["servers", "-", "import"])).put("Import");
    let add = (add.put("Add a server"), import);
    let rows = list.mcp_servers.iter().map(|server| {
        vec![
            cell(el("a").attr("href", link(&["servers", &server.name])).put(&server.name)),
            cell(state(server.state.as_str())),
            cell(server.since.as_ref().map(|at| time(at))),
            cell(&server.r#type),
            cell(why(server)),
        ]
    });
    let columns = [text("Name"), text("State"), text("Since"), text("Transport"), text("About")];
    let servers = match list.mcp_servers.is_empty() {
        true => {
            empty("There are no servers. Add one with the form, or import those of another client.")
        }
        false => table(&columns, rows.collect()),
    };
    let page = page.put(heading("Servers").put(add)).put(notice_of(cx.request));
    Ok(page.put(live("servers").put(servers)).into())
}

/// Why a server is in its state, or else its description.
fn why(server: &McpServerInfo) -> Html {
    let first = |text: &str| cut(text.lines().next().unwrap_or_default(), MAX_LINE).into_owned();
    let reason = [&server.status_message, &server.error].into_iter().find(|text| !text.is_empty());
    match reason {
        Some(reason) => Html::default().put(first(reason)),
        None => el("span").class("muted").put(first(&server.description)).into(),
    }
}

/// A server with its tools and its log.
#[derive(Serialize)]
struct ServerView<'a> {
    server: &'a McpServerInfo,
    tools: &'a ToolSearch,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<&'a ServerLog>,
}

pub(super) async fn one(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    let server: McpServerInfo =
        cx.gateway.reply("core_mcpserver_get", &json!({"name": name})).await?;
    let wanted = json!({"server": name, "limit": TOOLS, "max_tokens": 20_000});
    let tools = ToolSearch::of(&cx.gateway.meta("filter_tools", &wanted).await?);
    let log: Option<ServerLog> = cx
        .gateway
        .reply("core_mcpserver_logs", &json!({"name": name, "tail": LOG_LINES}))
        .await
        .ok();
    let view = ServerView { server: &server, tools: &tools, log: log.as_ref() };
    let page = Page::new(Section::Servers, name, &view);
    let page = page.command(format!("muster get mcpserver {}", super::quoted(name)));
    let crumb = crumb("Servers", "servers");
    let since = server.since.as_ref();
    let since = since.map(|at| el("span").class("small muted").put(("since ", time(at))));
    let top = heading(name).put(state(server.state.as_str())).put(since);
    let page =
        page.put((crumb, notice_of(cx.request))).put(live("server").put(top).put(trouble(&server)));
    let page = page.put(actions(cx, &server)).put(el("h2").put("Definition")).put(facts(&server));
    let count = tools.total;
    let page =
        page.put(el("h2").put(format!("Tools ({count})"))).put(match tools.tools.is_empty() {
            true => empty("No tools can be called now."),
            false => tool_table(&tools),
        });
    let Some(log) = log else { return Ok(page.into()) };
    let lines: Vec<String> = log
        .lines
        .iter()
        .map(|line| format!("{} {}", line.time, cut(&line.text, MAX_LINE)))
        .collect();
    let lines = match lines.is_empty() {
        true => empty("It has written nothing."),
        false => el("pre")
            .attr("tabindex", "0")
            .attr("aria-label", "Standard error")
            .put(lines.join("\n")),
    };
    Ok(page.put(el("h2").put("Standard error")).put(live("log").put(lines)).into())
}

/// The problem of a server, and how to fix it.
fn trouble(server: &McpServerInfo) -> Option<Element> {
    let texts = [&server.status_message, &server.error];
    let mut texts: Vec<&String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    texts.dedup();
    let first = texts.first()?;
    let kind = if server.state == ServerState::Failed { "notice bad" } else { "notice warn" };
    let attempts = match server.consecutive_failures {
        0 => None,
        failures => {
            let failures = counted(failures, "failed attempt");
            let next = server.next_retry_after.as_ref().map(|at| ("; the next at ", time(at)));
            Some(el("p").class("small muted").put((failures, " in a row", next)))
        }
    };
    let more = texts.get(1).map(|text| el("pre").put(*text));
    Some(el("div").class(kind).put(el("strong").put(*first)).put((more, attempts)))
}

/// The buttons of a server.
fn actions(cx: PageContext<'_>, server: &McpServerInfo) -> Element {
    let button = |action: &str, class: &str, label: &str| {
        let form = form(&link(&["servers", &server.name, action]), cx.form_token);
        form.put(el("button").class(class).put(label))
    };
    let mut buttons = Vec::new();
    match server.state {
        ServerState::AwaitingApproval => buttons.push(button("approve", "primary", "Approve")),
        ServerState::AuthRequired => buttons.push(button("login", "primary", "Log in")),
        state if state.is_down() => buttons.push(button("enable", "primary", "Enable")),
        _ => {
            buttons.push(button("restart", "", "Restart"));
            buttons.push(button("disable", "", "Disable"));
        }
    }
    let delete = button("delete", "danger", "Delete it and its file");
    let delete = el("details").put(el("summary").put("Delete…")).put(delete);
    el("div").class("row").put(buttons).put(delete)
}

fn facts(server: &McpServerInfo) -> Element {
    let mut list = el("dl").class("facts");
    let mut put = |name: &str, value: Html| {
        let taken = std::mem::replace(&mut list, el("dl"));
        list = taken.put(el("dt").put(name)).put(el("dd").put(value));
    };
    let code = |text: &str| Html::from(el("code").put(text));
    put("Transport", cell(&server.r#type));
    if !server.description.is_empty() {
        put("Description", cell(&server.description));
    }
    if !server.command.is_empty() {
        let words = std::iter::once(&server.command).chain(&server.args);
        put("Command", code(&words.map(|word| super::quoted(word)).collect::<Vec<_>>().join(" ")));
    }
    if !server.url.is_empty() {
        put("Address", code(&server.url));
    }
    for (label, pairs) in [("Environment", &server.env), ("Headers", &server.headers)] {
        if !pairs.is_empty() {
            let lines: Vec<String> =
                pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            put(label, el("pre").put(lines.join("\n")).into());
        }
    }
    put("Starts with the gateway", cell(if server.auto_start { "yes" } else { "no" }));
    if !server.registered_by.is_empty() {
        put("Added by", cell(&server.registered_by));
    }
    if let Some(at) = &server.last_attempt {
        put("Last attempt to connect", cell(time(at)));
    }
    list
}

/// Carries out an action of a server's page.
pub(super) async fn act(
    cx: PageContext<'_>,
    name: &str,
    action: &str,
) -> Result<PageReply, CoreError> {
    let (gateway, named) = (cx.gateway, json!({"name": name}));
    let done = match action {
        "restart" => {
            gateway.core("core_service_restart", &named).await?;
            "restarted"
        }
        "enable" | "disable" => {
            let starts = action == "enable";
            let change = json!({"name": name, "autoStart": starts});
            gateway.core("core_mcpserver_update", &change).await?;
            let tool = if starts { "core_service_start" } else { "core_service_stop" };
            gateway.core(tool, &named).await?;
            if starts { "enabled" } else { "disabled" }
        }
        "approve" => {
            gateway.core("core_mcpserver_approve", &named).await?;
            "approved"
        }
        "delete" => {
            gateway.core("core_mcpserver_delete", &named).await?;
            return Ok(PageReply::Done(format!("{}?did=deleted", link(&["servers"]))));
        }
        "login" => return log_in(cx, name).await,
        _ => return Err(CoreError::no_page()),
    };
    Ok(PageReply::Done(format!("{}?did={done}", link(&["servers", name]))))
}

/// The page with the link where the user logs in to a server. The user must follow the link, because the content
/// security policy lets forms lead only to the console.
async fn log_in(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    let (reply, details) =
        cx.gateway.core_in_full("core_auth_login", &json!({"server": name})).await?;
    let details: Option<LoginDetails> =
        details.and_then(|details| serde_json::from_str(details.get()).ok());
    let page = Page::new(Section::Servers, &format!("Log in to {name}"), &details);
    let page = page.command(format!("muster auth login --server {}", super::quoted(name)));
    let page = page.put(heading(&format!("Log in to {name}")));
    let back = el("a").attr("href", link(&["servers", name])).put("Back to the server");
    let is_web = |url: &&LoginDetails| {
        url.auth_url.starts_with("https://") || url.auth_url.starts_with("http://")
    };
    Ok(match details.as_ref().filter(is_web) {
        Some(LoginDetails { auth_url }) => {
            let go = el("a")
                .class("button")
                .attr("href", auth_url)
                .attr("rel", "noreferrer")
                .put("Continue to the login");
            page.put(
                el("p")
                    .class("lead")
                    .put("The server's login page opens; come back here afterwards."),
            )
            .put(el("p").put(el("code").put(auth_url)))
            .put(el("div").class("row").put((go, back)))
        }
        None => page.put(notice("", &reply)).put(back),
    }
    .into())
}

/// The input schema of the tool that adds a server. It is generated from the field table of the format.
async fn schema(cx: PageContext<'_>) -> Result<Value, CoreError> {
    let wanted = json!({"name": "core_mcpserver_create", "max_tokens": 50_000});
    let described = cx.gateway.meta("describe_tool", &wanted).await?.value();
    Ok(described.get("inputSchema").cloned().unwrap_or_default())
}

pub(super) async fn new(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let schema = schema(cx).await?;
    Ok(draft(cx, &schema, None).into())
}

/// The form of a new server, with the problem of the last attempt if there was one.
fn draft(cx: PageContext<'_>, schema: &Value, problem: Option<&str>) -> Page {
    let page = Page::new(Section::Servers, "Add a server", schema)
        .command("muster create mcpserver --help");
    let lead = "A program on this machine (stdio) or an address. The gateway writes its file and connects to it at once \
                if it starts with the gateway.";
    let fields = SchemaForm::new(schema).folded(cx.request, &MAIN_FIELDS);
    let fields = el("div").class("fields").put(fields);
    let form = form(&link(&["servers", "-", "new"]), cx.form_token);
    let form = form.put(fields).put(el("button").class("primary").put("Add the server"));
    page.put((crumb("Servers", "servers"), heading("Add a server")))
        .put(el("p").class("lead").put(lead))
        .put(problem.map(|problem| notice("bad", problem)))
        .put(form)
}

pub(super) async fn create(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let schema = schema(cx).await?;
    let arguments = SchemaForm::new(&schema).arguments(cx.request);
    let created = match arguments {
        Ok(arguments) => {
            let name = arguments.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
            let created = cx.gateway.core("core_mcpserver_create", &arguments).await;
            created.map(|_| name).map_err(|error| error.text)
        }
        Err(problem) => Err(problem),
    };
    Ok(match created {
        Ok(name) => PageReply::Done(format!("{}?did=added", link(&["servers", &name]))),
        Err(problem) => {
            let page = draft(cx, &schema, Some(&problem));
            Page { status: StatusCode::UNPROCESSABLE_ENTITY, ..page }.into()
        }
    })
}
