//! The services: their state and health, and starting and stopping them.

use muster_api::service::{MCP_SERVER, ServiceInfo, ServiceList, ServiceStatus};
use serde_json::json;

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Html, el},
    page::{Page, Section, crumb, form, heading},
    request::link,
    widgets::{cell, live, notice, notice_of, state, table, text, time},
};

/// The prefix of the zero time, which stands for no time.
const YEAR_ONE: &str = "0001-01-01T";

pub(super) async fn list(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let list: ServiceList = cx.gateway.reply("core_service_list", &json!({})).await?;
    let page = Page::new(Section::Services, "Services", &list).command("muster list services");
    let columns = [text("Name"), text("State"), text("Health"), text("Type"), text("Error")];
    let rows = list.services.iter().map(|service| {
        vec![
            cell(el("a").attr("href", path(service)).put(&service.name)),
            cell(state(service.state.as_str())),
            cell(state(service.health.as_str())),
            cell(&service.service_type),
            cell(service.error.as_ref()),
        ]
    });
    let lead =
        "The gateway itself, its servers, and the services that were made from service classes.";
    let page = page.put(heading("Services")).put(el("p").class("lead").put(lead));
    Ok(page.put(live("services").put(table(&columns, rows.collect()))).into())
}

fn path(service: &ServiceStatus) -> String {
    // MCP servers have their own pages.
    let section = if service.service_type == MCP_SERVER { "servers" } else { "services" };
    link(&[section, &service.name])
}

pub(super) async fn one(cx: PageContext<'_>, name: &str) -> Result<PageReply, CoreError> {
    let service: ServiceInfo = cx.gateway.reply("core_service_get", &json!({"name": name})).await?;
    let page = Page::new(Section::Services, name, &service);
    let page = page.command(format!("muster get service {}", super::quoted(name)));
    let crumb = crumb("Services", "services");
    let top = heading(name).put(state(service.state.as_str())).put(state(service.health.as_str()));
    let error = service.last_error.as_ref().map(|error| notice("bad", error));
    let page = page.put((crumb, notice_of(cx.request))).put(live("service").put((top, error)));
    let button = |action: &str, label: &str| {
        let form = form(&link(&["services", name, action]), cx.form_token);
        form.put(el("button").put(label))
    };
    let is_made = !service.service_class_name.is_empty();
    let buttons = is_made.then(|| {
        let buttons =
            (button("start", "Start"), button("restart", "Restart"), button("stop", "Stop"));
        el("div").class("row").put(buttons)
    });
    let mut facts = el("dl").class("facts");
    if is_made {
        facts = facts.put(el("dt").put("Class")).put(el("dd").put(&service.service_class_name));
    }
    let mut has_facts = is_made;
    for (label, value) in [("Created", &service.created_at), ("Changed", &service.updated_at)] {
        // The gateway's own service has the zero time.
        if !value.is_empty() && !value.starts_with(YEAR_ONE) {
            facts = facts.put(el("dt").put(label)).put(el("dd").put(time(value)));
            has_facts = true;
        }
    }
    let arguments = service.args.unwrap_or_default();
    let mut values = Html::default();
    for (label, map) in
        [("Arguments", &arguments), ("Outputs", &service.outputs), ("Data", &service.service_data)]
    {
        if !map.is_empty() {
            let json = serde_json::to_string_pretty(map).unwrap_or_default();
            let json = el("pre").attr("tabindex", "0").attr("aria-label", label).put(json);
            values = values.put(el("h2").put(label)).put(json);
        }
    }
    let about = has_facts.then(|| (el("h2").put("About"), facts));
    Ok(page.put(buttons).put(about).put(values).into())
}

pub(super) async fn act(
    cx: PageContext<'_>,
    name: &str,
    action: &str,
) -> Result<PageReply, CoreError> {
    let (tool, done) = match action {
        "start" => ("core_service_start", "started"),
        "stop" => ("core_service_stop", "stopped"),
        "restart" => ("core_service_restart", "restarted"),
        _ => return Err(CoreError::no_page()),
    };
    cx.gateway.core(tool, &json!({"name": name})).await?;
    Ok(PageReply::Done(format!("{}?did={done}", link(&["services", name]))))
}
