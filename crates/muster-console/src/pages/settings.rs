//! The settings of the gateway, as `core_config_get` shows them: secrets are redacted.

use muster_api::config::{ConfigInfo, ConfigValue};
use serde_json::{Value, json};

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, Html, el},
    page::{Page, Section, form, heading},
    request::link,
    widgets::notice_of,
};

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let config: ConfigInfo = cx.gateway.reply("core_config_get", &json!({})).await?;
    let page =
        Page::new(Section::Settings, "Settings", &config).command("muster call core_config_get");
    let lead = "The settings in effect, from config.yaml and the defaults. Edits of the file are noticed by themselves; \
                a new address or transport takes effect after a restart.";
    let reload = form(&link(&["settings", "reload"]), cx.form_token);
    let reload = reload.put(el("button").put("Read the files again"));
    let page = page.put(heading("Settings")).put(notice_of(cx.request));
    Ok(page.put(el("p").class("lead").put(lead)).put(reload).put(section(&config, 0)).into())
}

pub(super) async fn reload(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    cx.gateway.core("core_config_reload", &json!({})).await?;
    Ok(PageReply::Done(format!("{}?did=reloaded", link(&["settings"]))))
}

/// A section: first its values, then its subsections.
fn section(config: &ConfigInfo, depth: usize) -> Html {
    let mut list = el("dl").class("facts");
    let mut sections = Html::default();
    for (name, value) in &config.settings {
        match value {
            ConfigValue::Value(value) => {
                list = list.put(el("dt").put(name)).put(el("dd").put(shown(value)));
            }
            ConfigValue::Section(inner) => {
                let title = if depth == 0 { el("h2") } else { el("h3") };
                let none = inner.settings.is_empty().then(|| el("p").class("muted").put("none"));
                sections = sections.put(title.put(name)).put(none).put(section(inner, depth + 1));
            }
        }
    }
    Html::default().put(list).put(sections)
}

fn shown(value: &Value) -> Element {
    match value {
        Value::String(text) if text.is_empty() => el("span").class("muted").put("empty"),
        Value::Null => el("span").class("muted").put("none"),
        Value::Array(items) if items.is_empty() => el("span").class("muted").put("none"),
        Value::String(text) => el("code").put(text),
        Value::Array(items) => el("code").put(
            items
                .iter()
                .map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned))
                .collect::<Vec<_>>()
                .join(", "),
        ),
        other => el("code").put(other.to_string()),
    }
}
