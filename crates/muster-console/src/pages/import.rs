//! Imports the servers of another client's configuration.

use http::StatusCode;
use serde_json::json;

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::el,
    page::{Page, Section, crumb, form, heading},
    request::link,
    widgets::{notice, prose},
};

const EXAMPLE: &str = r#"{"mcpServers": {"git": {"command": "uvx", "args": ["mcp-server-git"]}}}"#;

pub(super) fn page(cx: PageContext<'_>) -> PageReply {
    shown(cx, None).into()
}

fn shown(cx: PageContext<'_>, problem: Option<&str>) -> Page {
    let page = Page::new(Section::Servers, "Import servers", &json!({"problem": problem}));
    let page = page.command("muster import --help");
    let lead = "Paste the configuration of another client, with an object `mcpServers` or `servers`. Secrets in the text \
                are written into the servers' files. On the machine of that client, `muster import` finds its files, and \
                moves their secrets into the secret store.";
    let config = el("textarea")
        .attr("id", "config")
        .attr("name", "config")
        .attr("rows", "14")
        .attr("spellcheck", "false")
        .attr("placeholder", EXAMPLE)
        .flag("required", true)
        .put(cx.request.field("config").unwrap_or_default());
    let label = el("label").attr("for", "config").put("Configuration as JSON");
    let form = form(&link(&["servers", "-", "import"]), cx.form_token);
    let form = form
        .put(el("div").class("fields").put((label, config)))
        .put(el("button").class("primary").put("Import the servers"));
    page.put(crumb("Servers", "servers"))
        .put(heading("Import servers"))
        .put(el("p").class("lead").put(prose(lead)))
        .put(problem.map(|problem| notice("bad", problem)))
        .put(form)
}

pub(super) async fn import(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let config = cx.request.field("config").unwrap_or_default();
    match cx.gateway.core("core_mcpserver_import", &json!({"config": config})).await {
        Ok(reply) => {
            let page = Page::new(Section::Servers, "Import servers", &json!({"imported": reply}));
            let page = page.command("muster list mcpservers --all");
            let lines = reply.lines().map(|line| el("li").put(line));
            let back =
                el("a").class("button").attr("href", link(&["servers"])).put("Back to servers");
            Ok(page
                .put(crumb("Servers", "servers"))
                .put(heading("Import servers"))
                .put(el("ul").put(lines.collect::<Vec<_>>()))
                .put(back)
                .into())
        }
        Err(error) => {
            let page = shown(cx, Some(&error.text));
            Ok(Page { status: StatusCode::UNPROCESSABLE_ENTITY, ..page }.into())
        }
    }
}
