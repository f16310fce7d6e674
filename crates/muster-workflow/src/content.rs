//! The result of a tool as steps see it, and the result of a workflow as its caller sees it.

use std::borrow::Cow;

use muster_core::{
    call::Outcome,
    json::{self, Raw, raw},
};
use serde_json::{Value as Json, json};

/// The result of a tool.
#[derive(Debug, Clone)]
pub struct ToolContent {
    /// Its first text, parsed if it is JSON; null without one.
    pub value: Json,
    /// Its first text.
    pub text: String,
    /// Whether the tool reported an error.
    pub failed: bool,
    /// The whole result.
    pub outcome: Outcome,
}

impl ToolContent {
    /// Reads an outcome. `None` for a request for input, which is not a result.
    pub fn of(outcome: Outcome) -> Option<Self> {
        let (text, structured, failed) = match &outcome {
            Outcome::Text { text, failed, .. } => (Some(text.clone()), None, *failed),
            Outcome::Raw(result) => read(result),
            Outcome::InputRequired(_) => return None,
        };
        let value = match (&text, structured) {
            (Some(text), _) => parsed(text),
            (None, Some(structured)) => structured,
            (None, None) => Json::Null,
        };
        Some(Self { value, text: text.unwrap_or_default(), failed, outcome })
    }
}

impl ToolContent {
    /// Its pictures, sounds and resources: every block that is not text.
    pub fn blocks(&self) -> Vec<Raw> {
        let Outcome::Raw(result) = &self.outcome else { return Vec::new() };
        let content = json::RawObject::parse(result).map(|object| content_of(&object));
        let is_text = |block: &Raw| {
            let kind = json::RawObject::parse(block).and_then(|block| block.get_text("type"));
            kind.is_none_or(|kind| kind == "text")
        };
        content.unwrap_or_default().into_iter().filter(|block| !is_text(block)).collect()
    }
}

/// An outcome with further blocks behind its own.
pub fn with_blocks(outcome: Outcome, blocks: Vec<Raw>) -> Outcome {
    if blocks.is_empty() {
        return outcome;
    }
    let result = match outcome {
        Outcome::Text { text, failed, details } => {
            let mut result = json::RawObject::new();
            result.set_value("content", &[item(&text)]);
            if let Some(details) = details {
                result.set("structuredContent", Cow::Owned(details));
            }
            result.set_value("isError", &failed);
            result.to_raw()
        }
        Outcome::Raw(result) => result,
        needs @ Outcome::InputRequired(_) => return needs,
    };
    let Some(mut object) = json::RawObject::parse(&result) else { return Outcome::Raw(result) };
    let mut content = content_of(&object);
    content.extend(blocks);
    object.set("content", Cow::Owned(raw(&content)));
    Outcome::Raw(object.to_raw())
}

fn content_of(result: &json::RawObject<'_>) -> Vec<Raw> {
    let content = result.get("content");
    content.and_then(|content| serde_json::from_str(content.get()).ok()).unwrap_or_default()
}

/// A text parsed as JSON, else the text itself.
fn parsed(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()))
}

/// The first text, the structured content, and whether it is an error.
fn read(result: &Raw) -> (Option<String>, Option<Json>, bool) {
    let Some(object) = json::RawObject::parse(result) else { return (None, None, false) };
    let items: Vec<Json> = object
        .get("content")
        .and_then(|content| serde_json::from_str(content.get()).ok())
        .unwrap_or_default();
    let text = items.iter().find_map(text_of).map(str::to_owned);
    let structured = object
        .get("structuredContent")
        .and_then(|structured| serde_json::from_str(structured.get()).ok());
    let failed = object.get("isError").is_some_and(|flag| flag.get() == "true");
    (text, structured, failed)
}

fn text_of(item: &Json) -> Option<&str> {
    let is_text = item.get("type").and_then(Json::as_str) == Some("text");
    item.get("text").and_then(Json::as_str).filter(|_| is_text)
}

/// An outcome with the id of its run: a member of the result if that is one JSON object, else a further
/// text.
pub fn with_execution_id(outcome: Outcome, id: &str) -> Outcome {
    match outcome {
        Outcome::Text { text, failed, details } => match with_id_inside(&text, id) {
            Some(text) => Outcome::Text { text, failed, details },
            None => {
                let mut result = json::RawObject::new();
                result.set_value("content", &json!([item(&text), item(&lone(id))]));
                if let Some(details) = details {
                    result.set("structuredContent", Cow::Owned(details));
                }
                result.set_value("isError", &failed);
                Outcome::Raw(result.to_raw())
            }
        },
        Outcome::Raw(result) => {
            let Some(mut object) = json::RawObject::parse(&result) else {
                return Outcome::Raw(result);
            };
            let mut items: Vec<Json> = object
                .get("content")
                .and_then(|content| serde_json::from_str(content.get()).ok())
                .unwrap_or_default();
            match items.as_slice() {
                [only] => match text_of(only).and_then(|text| with_id_inside(text, id)) {
                    Some(text) => items = vec![item(&text)],
                    None => items.push(item(&lone(id))),
                },
                _ => items.push(item(&lone(id))),
            }
            object.set("content", Cow::Owned(raw(&items)));
            Outcome::Raw(object.to_raw())
        }
        needs @ Outcome::InputRequired(_) => needs,
    }
}

fn with_id_inside(text: &str, id: &str) -> Option<String> {
    let Ok(Json::Object(mut object)) = serde_json::from_str(text) else { return None };
    object.insert("execution_id".to_owned(), id.into());
    Some(Json::Object(object).to_string())
}

fn lone(id: &str) -> String {
    json!({"execution_id": id}).to_string()
}

fn item(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

#[cfg(test)]
mod tests {
    use muster_core::{call::Outcome, json::raw};
    use serde_json::{Value as Json, json};

    use super::{ToolContent, with_blocks, with_execution_id};

    #[test]
    fn blocks_are_everything_but_text() {
        let (picture, link) = (
            json!({"type": "image", "data": "aGk=", "mimeType": "image/png"}),
            json!({"type": "resource_link", "uri": "file:///a", "name": "a"}),
        );
        let text = json!({"type": "text", "text": "5"});
        let result = json!({"content": [picture, text, link, {"type": "text", "text": "6"}, 7]});
        let blocks = ToolContent::of(Outcome::Raw(raw(&result))).unwrap().blocks();
        let shown: Vec<Json> =
            blocks.iter().map(|block| serde_json::from_str(block.get()).unwrap()).collect();
        assert_eq!(shown, [picture.clone(), link.clone()]);
        let Outcome::Raw(with) = with_blocks(Outcome::text("done"), blocks.clone()) else {
            panic!()
        };
        let with: Json = serde_json::from_str(with.get()).unwrap();
        let done = json!({"type": "text", "text": "done"});
        assert_eq!(with, json!({"content": [done, picture, link], "isError": false}));
        assert!(ToolContent::of(Outcome::text("a")).unwrap().blocks().is_empty());
        let behind = with_blocks(Outcome::Raw(raw(&json!({"content": [text], "x": 1}))), blocks);
        let Outcome::Raw(behind) = behind else { panic!() };
        let behind: Json = serde_json::from_str(behind.get()).unwrap();
        assert_eq!((&behind["content"][1], &behind["x"]), (&picture, &json!(1)));
    }

    #[track_caller]
    fn check(outcome: Outcome, value: Json, failed: bool) {
        let content = ToolContent::of(outcome).unwrap();
        assert_eq!((content.value, content.failed), (value, failed));
    }

    #[test]
    fn the_first_text_counts() {
        check(Outcome::text("plain"), json!("plain"), false);
        check(Outcome::failure("{\"a\": 1}"), json!({"a": 1}), true);
        let result = |json: Json| Outcome::Raw(raw(&json));
        check(result(json!({"content": []})), Json::Null, false);
        check(
            result(json!({"content": [], "structuredContent": {"a": 1}})),
            json!({"a": 1}),
            false,
        );
        check(
            result(
                json!({"content": [{"type": "image"}, {"type": "text", "text": "5"}], "isError": true}),
            ),
            json!(5),
            true,
        );
    }

    #[track_caller]
    fn id(outcome: Outcome, expect: &str) {
        let said = match with_execution_id(outcome, "X") {
            Outcome::Text { text, .. } => text,
            Outcome::Raw(raw) => raw.get().to_owned(),
            Outcome::InputRequired(_) => panic!("questions"),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn the_run_is_named_inside_or_behind() {
        id(Outcome::text(r#"{"a":1}"#), r#"{"a":1,"execution_id":"X"}"#);
        id(
            Outcome::failure("no"),
            r#"{"content":[{"type":"text","text":"no"},{"type":"text","text":"{\"execution_id\":\"X\"}"}],"isError":true}"#,
        );
        let raw = |json: Json| Outcome::Raw(raw(&json));
        id(
            raw(json!({"content": [{"type": "text", "text": "{\"execution_id\":\"\"}"}], "x": 1})),
            r#"{"content":[{"type":"text","text":"{\"execution_id\":\"X\"}"}],"x":1}"#,
        );
        id(
            raw(json!({"content": [{"type": "image"}]})),
            r#"{"content":[{"type":"image"},{"type":"text","text":"{\"execution_id\":\"X\"}"}]}"#,
        );
    }
}
