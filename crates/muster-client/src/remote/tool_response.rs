//! The response of a tool, unwrapped from `call_tool`.

use muster_api::error::{ErrorDetails, ErrorKind};
use muster_core::json::{Raw, RawObject};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::error::RemoteError;

/// The response of a tool.
#[derive(Debug, Clone)]
pub struct ToolResponse {
    /// Its content blocks, parsed.
    pub content: Vec<ContentBlock>,
    /// Its content blocks, unchanged.
    pub blocks: Vec<Raw>,
    /// Whether the tool reported an error.
    pub failed: bool,
    /// Its structured content, if any.
    pub structured: Option<Raw>,
}

/// A content block.
#[derive(Debug, Clone)]
pub enum ContentBlock {
    /// Text.
    Text(String),
    /// An image.
    Image(BinaryContent),
    /// Audio.
    Audio(BinaryContent),
    /// A resource with its contents, or a link to one.
    Resource {
        /// Its URI.
        uri: String,
        /// Its text, if it is embedded and is text.
        text: Option<String>,
    },
    /// Another block, unchanged.
    Other(Raw),
}

/// Binary content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BinaryContent {
    /// Its MIME type.
    pub mime: String,
    /// Its size in bytes.
    pub size: usize,
}

impl ToolResponse {
    /// Parses the result of a tool.
    pub fn parse(result: &RawValue) -> Self {
        Self::read(&RawObject::parse(result).unwrap_or_default())
    }

    /// Parses the result of `call_tool` as the result of the called tool.
    pub fn unwrapped(result: &RawValue, tool: &str) -> Result<Self, RemoteError> {
        let tool = || tool.to_owned();
        let outer = Self::parse(result);
        let Some(first) = outer.content.first() else {
            return Err(RemoteError::Empty { tool: tool() });
        };
        let ContentBlock::Text(text) = first else {
            return Err(RemoteError::Unexpected { tool: tool() });
        };
        if let Some(inner) = wrapped_result(text) {
            return Ok(inner.with_blocks_of(&outer));
        }
        if outer.failed {
            return Err(RemoteError::Meta { tool: tool(), reason: outer.texts().join("; ") });
        }
        Ok(outer)
    }

    /// Replaces references to blocks by the blocks themselves, which `call_tool` returns next to its text.
    fn with_blocks_of(mut self, outer: &Self) -> Self {
        for (block, content) in self.blocks.iter_mut().zip(&mut self.content) {
            let object = RawObject::parse(block).unwrap_or_default();
            let number = object.get("block").and_then(|number| number.get().parse().ok());
            let beside = number.and_then(|number: usize| outer.blocks.get(number));
            // Compare types: a tool's own block may have a member named `block`.
            let is_type = |block: &RawValue| {
                RawObject::parse(block)?.get("type").map(|word| word.get().to_owned())
            };
            if let Some(beside) = beside.filter(|beside| is_type(beside) == is_type(block)) {
                *content = ContentBlock::read(beside);
                *block = beside.clone();
            }
        }
        self.structured = self.structured.or_else(|| outer.structured.clone());
        self
    }

    fn read(result: &RawObject<'_>) -> Self {
        let items = result.get("content").map(RawValue::get).unwrap_or_default();
        let items: Vec<&RawValue> = serde_json::from_str(items).unwrap_or_default();
        Self {
            content: items.iter().copied().map(ContentBlock::read).collect(),
            blocks: items.into_iter().map(ToOwned::to_owned).collect(),
            failed: result.get("isError").is_some_and(|flag| flag.get() == "true"),
            structured: result.get("structuredContent").map(ToOwned::to_owned),
        }
    }

    /// Parses the reply of a core tool as its type, or returns the error that the tool reports.
    pub fn reply<T: DeserializeOwned>(&self, tool: &str) -> Result<T, RemoteError> {
        if self.failed {
            let text = self.texts().join("\n");
            return Err(RemoteError::Tool { text, kind: self.error_kind() });
        }
        let text = self.texts().first().copied().unwrap_or_default();
        serde_json::from_str(text).map_err(|error| {
            let reason = error.to_string();
            RemoteError::Reply { tool: tool.to_owned(), reason }
        })
    }

    /// The kind of the error, if the tool reports it.
    pub fn error_kind(&self) -> Option<ErrorKind> {
        let details: Option<ErrorDetails> = self.details().filter(|_| self.failed);
        details.map(|details| details.error)
    }

    /// Parses its structured content as a type.
    pub fn details<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.structured.as_ref()?.get()).ok()
    }

    /// Its text blocks.
    pub fn texts(&self) -> Vec<&str> {
        let texts = self.content.iter().filter_map(|content| match content {
            ContentBlock::Text(text) => Some(text.as_str()),
            ContentBlock::Image(_)
            | ContentBlock::Audio(_)
            | ContentBlock::Resource { .. }
            | ContentBlock::Other(_) => None,
        });
        texts.collect()
    }
}

/// The result that `call_tool` wraps as JSON text.
fn wrapped_result(text: &str) -> Option<ToolResponse> {
    let inner: RawObject<'_> = serde_json::from_str(text).ok()?;
    let is_error = inner.get("isError")?.get();
    let content = inner.get("content")?.get();
    let fits = matches!(is_error, "true" | "false" | "null") && content.starts_with('[');
    fits.then(|| ToolResponse::read(&inner))
}

impl ContentBlock {
    fn read(item: &RawValue) -> Self {
        let Some(object) = RawObject::parse(item) else { return Self::Other(item.to_owned()) };
        let text = |key: &str| object.get_text(key).unwrap_or_default();
        match text("type").as_str() {
            "text" => Self::Text(text("text")),
            "image" => Self::Image(BinaryContent::of(&text("mimeType"), &text("data"))),
            "audio" => Self::Audio(BinaryContent::of(&text("mimeType"), &text("data"))),
            "resource_link" => Self::Resource { uri: text("uri"), text: None },
            "resource" => {
                let inner = object.get("resource").and_then(RawObject::parse).unwrap_or_default();
                let uri = inner.get_text("uri").unwrap_or_default();
                Self::Resource { uri, text: inner.get_text("text") }
            }
            _ => Self::Other(item.to_owned()),
        }
    }

    /// Its text for people.
    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Image(BinaryContent { mime, size }) => {
                format!("[Image: MIME type {mime}, {size} bytes]")
            }
            Self::Audio(BinaryContent { mime, size }) => {
                format!("[Audio: MIME type {mime}, {size} bytes]")
            }
            Self::Resource { text: Some(text), .. } => text.clone(),
            Self::Resource { uri, text: None } => format!("[Resource: {uri}]"),
            Self::Other(raw) => raw.get().to_owned(),
        }
    }
}

impl BinaryContent {
    /// Computes the size from the length of the base64: four characters hold three bytes.
    fn of(mime: &str, data: &str) -> Self {
        let padding = data.bytes().rev().take_while(|byte| *byte == b'=').count();
        Self { mime: mime.to_owned(), size: (data.len() / 4 * 3).saturating_sub(padding) }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use muster_core::json::raw;
    use serde_json::{Value, json};

    use super::ToolResponse;

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    fn seen(result: Value) -> String {
        match ToolResponse::unwrapped(&raw(&result), "x_tool") {
            Ok(answer) => {
                let shown: Vec<String> =
                    answer.content.iter().map(super::ContentBlock::shown).collect();
                let structured =
                    answer.structured.map_or("-".to_owned(), |raw| raw.get().to_owned());
                format!(
                    "{} {shown:?} {structured}",
                    if answer.failed { "failed" } else { "worked" }
                )
            }
            Err(err) => format!("error: {err}"),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    fn wrapped(inner: Value) -> Value {
        json!({"content": [{"type": "text", "text": inner.to_string()}]})
    }

    #[test]
    fn blocks_beside_the_text_take_the_place_of_their_names() {
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let named = json!({"type": "image", "mimeType": "image/png", "dataSize": 4, "block": 1});
        let other = json!({"type": "odd", "block": 1});
        let text = json!({"isError": false, "content": [named, other]}).to_string();
        let result = json!({"content": [{"type": "text", "text": text}, image], "structuredContent": {"n": 1}});
        expect![[r#"worked ["[Image: MIME type image/png, 3 bytes]", "{\"type\":\"odd\",\"block\":1}"] {"n":1}"#]]
            .assert_eq(&seen(result));
    }

    #[test]
    fn content_is_unwrapped() {
        let content = json!([
            {"type": "text", "text": "a"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "audio", "mimeType": "audio/ogg", "data": "AAA="},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "inside"}},
            {"type": "odd", "n": 1},
        ]);
        let inner = json!({"isError": false, "content": content, "structuredContent": {"n": 1}});
        expect![[r#"worked ["a", "[Image: MIME type image/png, 3 bytes]", "[Audio: MIME type audio/ogg, 2 bytes]", "[Resource: file:///x]", "inside", "{\"type\":\"odd\",\"n\":1}"] {"n":1}"#]]
            .assert_eq(&seen(wrapped(inner)));
    }

    #[test]
    fn replies_are_read_as_their_types() {
        let read = |inner: Value| {
            let response = ToolResponse::unwrapped(&raw(&wrapped(inner)), "core_x").unwrap();
            response.reply::<Vec<u8>>("core_x").map_err(|err| format!("{err:?}"))
        };
        let text = |text: &str| json!([{"type": "text", "text": text}]);
        assert_eq!(read(json!({"isError": false, "content": text("[1]")})).unwrap(), [1]);
        let odd = read(json!({"isError": false, "content": text("{}")})).unwrap_err();
        assert!(odd.starts_with("Reply { tool: \"core_x\", reason: \"invalid type: map"), "{odd}");
        let failed = |error: &str| json!({"isError": true, "content": text("no"), "structuredContent": {"error": error}});
        let missing = read(failed("not_found")).unwrap_err();
        assert_eq!(missing, "Tool { text: \"no\", kind: Some(NotFound) }");
        let newer = read(failed("too_sunny")).unwrap_err();
        assert_eq!(newer, "Tool { text: \"no\", kind: Some(Other) }");
    }

    #[test]
    fn tool_errors_and_gateway_errors_are_distinguished() {
        let inner = json!({"isError": true, "content": [{"type": "text", "text": "no such pod"}]});
        expect![[r#"failed ["no such pod"] -"#]].assert_eq(&seen(wrapped(inner)));
        let text = |text: &str| json!({"type": "text", "text": text});
        let outer = json!({"isError": true, "content": [text("a"), text("b")]});
        expect!["error: meta-tool error for x_tool: a; b"].assert_eq(&seen(outer));
        let plain = json!({"content": [text("not wrapped")]});
        expect![[r#"worked ["not wrapped"] -"#]].assert_eq(&seen(plain));
        expect!["error: empty content from call_tool for x_tool"]
            .assert_eq(&seen(json!({"content": []})));
        let image = json!({"content": [{"type": "image", "data": "", "mimeType": "a/b"}]});
        expect!["error: unexpected content type from call_tool for x_tool"].assert_eq(&seen(image));
    }
}
