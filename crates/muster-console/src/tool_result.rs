//! The result of a call: text, JSON as a tree, pictures and audio. Tools wrote all of it, so none of it is trusted.

use muster_core::json::{Raw, RawObject};
use serde::Serialize;
use serde_json::{Value, value::RawValue};

use crate::{
    gateway::MetaReply,
    html::{Element, Html, el},
    widgets::cut,
};

/// The maximum length of a text on a page, in bytes.
const MAX_TEXT: usize = 96 * 1024;
/// The maximum length of a picture or sound, in characters of Base64.
const MAX_MEDIA: usize = 4 * 1024 * 1024;
/// The maximum depth and number of values of a tree.
const MAX_DEPTH: usize = 12;
const MAX_VALUES: usize = 1_500;

/// The types of pictures and sounds that a browser only decodes. SVG is not among them: it is a document, and is shown
/// as text.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const SOUNDS: [&str; 6] =
    ["audio/mpeg", "audio/mp3", "audio/wav", "audio/x-wav", "audio/ogg", "audio/webm"];

/// The result of a call, as an agent sees it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolResultView {
    is_error: bool,
    content: Vec<Raw>,
    #[serde(skip_serializing_if = "Option::is_none")]
    structured_content: Option<Raw>,
}

impl ToolResultView {
    /// Unwraps the reply of `call_tool`: a text with the result as JSON, followed by the blocks that are not text.
    pub(crate) fn of(reply: MetaReply) -> Self {
        let MetaReply { text, failed, blocks, structured } = reply;
        let inner: Option<RawObject<'_>> = serde_json::from_str(&text).ok();
        let items = inner.as_ref().and_then(|inner| inner.get("content")).map(RawValue::get);
        let content: Option<Vec<Raw>> = items.and_then(|items| serde_json::from_str(items).ok());
        let Some(mut content) = content else {
            return Self { is_error: failed, content: blocks, structured_content: structured };
        };
        for block in &mut content {
            let number =
                RawObject::parse(block).and_then(|block| block.get("block")?.get().parse().ok());
            if let Some(beside) = number.and_then(|number: usize| blocks.get(number)) {
                *block = beside.clone();
            }
        }
        let own =
            inner.as_ref().and_then(|inner| inner.get("structuredContent")).map(ToOwned::to_owned);
        Self { is_error: failed, content, structured_content: own.or(structured) }
    }

    /// Renders the result.
    pub(crate) fn element(&self) -> Element {
        let (class, word) =
            if self.is_error { ("chip bad", "failed") } else { ("chip ok", "succeeded") };
        let title = el("div")
            .class("heading")
            .put(el("h2").put("Result"))
            .put(el("span").class(class).put(word));
        let blocks = self.content.iter().map(|block| shown(block));
        let structured = self.structured_content.as_ref().map(|value| {
            let value: Value = serde_json::from_str(value.get()).unwrap_or_default();
            Html::default().put(el("h3").put("Structured content")).put(tree(&value))
        });
        el("section")
            .attr("id", "result")
            .put(title)
            .put(blocks.collect::<Vec<_>>())
            .put(structured)
    }
}

fn shown(block: &RawValue) -> Html {
    let object = RawObject::parse(block).unwrap_or_default();
    let text = |key: &str| object.get_text(key).unwrap_or_default();
    match text("type").as_str() {
        "text" => written(&text("text")),
        "image" => media(&text("mimeType"), &text("data"), &PICTURES, |source| {
            el("img")
                .class("picture")
                .attr("alt", "A picture that the tool returned")
                .attr("src", source)
        }),
        "audio" => media(&text("mimeType"), &text("data"), &SOUNDS, |source| {
            el("audio").flag("controls", true).attr("src", source)
        }),
        _ => match serde_json::from_str(block.get()) {
            Ok(value) => tree(&value).into(),
            Err(_) => written(block.get()),
        },
    }
}

/// Renders the text of a tool. An object or a list is also shown as a tree.
fn written(text: &str) -> Html {
    let value: Option<Value> = serde_json::from_str(text).ok();
    match value.filter(|value| value.is_object() || value.is_array()) {
        Some(value) if text.len() <= MAX_TEXT => Html::default()
            .put(tree(&value))
            .put(el("details").put(el("summary").put("As text")).put(preformatted(text))),
        _ => preformatted(text).into(),
    }
}

fn preformatted(text: &str) -> Element {
    let pre = el("pre").attr("tabindex", "0").attr("aria-label", "Text of the tool");
    pre.put(cut(text, MAX_TEXT))
}

/// Renders a picture or a sound of a known type.
fn media(kind: &str, data: &str, known: &[&str], element: impl Fn(String) -> Element) -> Html {
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    if data.len() > MAX_MEDIA || !known.contains(&kind) || !data.bytes().all(is_base64) {
        let about = format!("{kind}, {} characters of Base64: not shown", data.len());
        return el("p").class("muted").put(about).into();
    }
    el("p").put(element(format!("data:{kind};base64,{data}"))).into()
}

/// Renders a value as a tree that can be expanded and collapsed.
fn tree(value: &Value) -> Element {
    let mut left = MAX_VALUES;
    el("div").class("tree mono").put(node(None, value, 0, &mut left))
}

fn node(name: Option<&str>, value: &Value, depth: usize, left: &mut usize) -> Html {
    if *left == 0 {
        return Html::default();
    }
    *left -= 1;
    let label = name.map(|name| (el("i").put(name), ": "));
    let (count, members): (String, Vec<(String, &Value)>) = match value {
        Value::Object(object) => {
            let members = object.iter().map(|(name, value)| (name.clone(), value));
            (format!("{{{}}}", object.len()), members.collect())
        }
        Value::Array(items) => {
            let items_by_number = items.iter().enumerate();
            let members = items_by_number.map(|(at, value)| (at.to_string(), value));
            (format!("[{}]", items.len()), members.collect())
        }
        scalar => return el("div").put(label).put(scalar.to_string()).into(),
    };
    if members.is_empty() || depth == MAX_DEPTH {
        return el("div").put(label).put(count).into();
    }
    let shown: Vec<Html> =
        members.iter().map(|(name, value)| node(Some(name), value, depth + 1, left)).collect();
    let rest = (*left == 0).then(|| el("div").put("…"));
    let summary = el("summary").put(label).put(el("i").put(count));
    el("details").flag("open", depth < 2).put(summary).put(shown).put(rest).into()
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::{Value, json};

    use super::{MAX_TEXT, ToolResultView};
    use crate::{gateway::MetaReply, html::Html};

    fn page(content: &Value, blocks: &[Value]) -> String {
        let text = json!({"isError": false, "content": content}).to_string();
        let first = json!({"type": "text", "text": text});
        let blocks = std::iter::once(&first).chain(blocks).map(raw).collect();
        let reply = MetaReply { text, failed: false, blocks, structured: None };
        Html::from(ToolResultView::of(reply).element()).into_string()
    }

    #[test]
    fn what_a_tool_returns_is_never_markup() {
        let page = page(
            &json!([{"type": "text", "text": "<script>x</script>\u{202e}\u{1b}[1m"},
            {"type": "<b>", "data": "<img src=x onerror=y>"}]),
            &[],
        );
        assert!(
            !page.contains("<script") && !page.contains("<img") && !page.contains("<b>"),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;x&lt;/script&gt;\u{fffd}␛[1m"), "{page}");
    }

    #[test]
    fn pictures_are_shown_if_they_cannot_be_more() {
        let image =
            |kind: &str, data: &str| json!({"type": "image", "mimeType": kind, "data": data});
        let beside = json!([{"type": "image", "block": 1}]);
        let shown = page(&beside, &[image("image/png", "iVBORw0=")]);
        assert!(shown.contains("src=\"data:image/png;base64,iVBORw0=\""), "{shown}");
        for (kind, data) in [
            ("image/svg+xml", "PHN2Zz4="),
            ("text/html", "PGI+"),
            ("image/png", "\"><script>"),
            ("image/png;x", "aa"),
        ] {
            let hidden = page(&beside, &[image(kind, data)]);
            assert!(!hidden.contains("data:") && hidden.contains("not shown"), "{kind}: {hidden}");
        }
        let audio = json!({"type": "audio", "mimeType": "audio/wav", "data": "UklG"});
        assert!(
            page(&json!([audio]), &[])
                .contains("<audio controls src=\"data:audio/wav;base64,UklG\">")
        );
    }

    #[test]
    fn long_results_are_cut() {
        let text = page(&json!([{"type": "text", "text": "é".repeat(MAX_TEXT)}]), &[]);
        assert!(
            text.len() < MAX_TEXT + 1_000 && text.contains("… (196608 bytes)"),
            "{}",
            text.len()
        );
        let list: Vec<u32> = (0..100_000).collect();
        let tree = page(&json!([{"type": "other", "list": list}]), &[]);
        assert!(tree.len() < 100_000 && tree.contains("[100000]"), "{}", tree.len());
        let mut deep = json!(1);
        for _ in 0..100 {
            deep = json!([deep]);
        }
        assert!(page(&json!([{"type": "other", "deep": deep}]), &[]).len() < 5_000);
    }
}
