//! The settings of the gateway, as `core_config_get` shows them: secrets are redacted.

use muster_api::config::{ConfigInfo, ConfigValue};
use serde_json::{Value, json};

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, el},
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
    let settings = el("div").class("settings").put(cards(&config, ""));
    let page = page.put(heading("Settings")).put(notice_of(cx.request));
    Ok(page.put(el("p").class("lead").put(lead)).put(reload).put(settings).into())
}

pub(super) async fn reload(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    cx.gateway.core("core_config_reload", &json!({})).await?;
    Ok(PageReply::Done(format!("{}?did=reloaded", link(&["settings"]))))
}

/// The cards of a section: one with its values, and those of its subsections. `path` leads to it.
fn cards(config: &ConfigInfo, path: &str) -> Vec<Element> {
    let mut list = el("dl").class("facts");
    let (mut values, mut below) = (0_usize, Vec::new());
    for (name, value) in &config.settings {
        let value = match value {
            ConfigValue::Value(value) => shown(value),
            ConfigValue::Section(inner) if inner.settings.is_empty() => none(),
            ConfigValue::Section(inner) => {
                let path =
                    if path.is_empty() { name.clone() } else { format!("{path} › {name}") };
                below.extend(cards(inner, &path));
                continue;
            }
        };
        values += 1;
        list = list.put(el("dt").put(name)).put(el("dd").put(value));
    }
    let title = if path.is_empty() { "General" } else { path };
    let own = (values > 0).then(|| el("div").class("card").put(el("h2").put(title)).put(list));
    own.into_iter().chain(below).collect()
}

fn none() -> Element {
    el("span").class("muted").put("none")
}

fn shown(value: &Value) -> Element {
    match value {
        Value::String(text) if text.is_empty() => el("span").class("muted").put("empty"),
        Value::Null => none(),
        Value::Array(items) if items.is_empty() => none(),
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

#[cfg(test)]
mod tests {
    use muster_api::config::ConfigInfo;
    use serde_json::json;

    use super::cards;
    use crate::html::Html;

    #[test]
    fn every_section_has_a_card_with_the_way_to_it() {
        let config = json!({"Namespace": "", "Aggregator": {"Port": 1, "OAuth": {
            "Server": {"Enabled": true, "Targets": {}}}}});
        let config: ConfigInfo = serde_json::from_value(config).unwrap();
        let page = Html::default().put(cards(&config, "")).into_string();
        let titles: Vec<&str> =
            page.split("<h2>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
        assert_eq!(titles, ["General", "Aggregator", "Aggregator › OAuth › Server"]);
        assert!(page.contains("<dt>Targets</dt><dd><span class=\"muted\">none<"), "{page}");
    }
}
