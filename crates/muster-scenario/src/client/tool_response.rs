//! The result of a tool call, unwrapped from the envelope of `call_tool`.

use serde_json::Value;

use super::ClientError;

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResponse {
    /// Whether the tool reports an error.
    pub is_error: bool,
    /// Its text content; scenarios do not check other content.
    pub texts: Vec<String>,
}

impl ToolResponse {
    /// Parses the result of `tools/call`.
    pub fn read(result: &Value) -> Result<Self, ClientError> {
        let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or_default();
        let content = result.get("content").and_then(Value::as_array);
        let content = content.ok_or_else(|| {
            ClientError::Protocol(format!("the result of the call has no content: {result}"))
        })?;
        let text = |item: &Value| match item.get("type")?.as_str()? {
            "text" => item.get("text")?.as_str().map(str::to_owned),
            _ => None,
        };
        Ok(Self { is_error, texts: content.iter().filter_map(text).collect() })
    }

    /// All texts joined by spaces, as most expectations check them.
    pub fn text(&self) -> String {
        self.texts.join(" ")
    }

    /// The first text that is a JSON object.
    pub fn first_object(&self) -> Option<Value> {
        let values = self.texts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
        values.into_iter().find(Value::is_object)
    }

    /// The variable that later steps see: the texts, parsed if they are JSON.
    pub fn to_value(&self) -> Value {
        let text = self.text();
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }
}

/// Unwraps a tool's result from that of `call_tool`. An error of `call_tool` itself is not a result of the
/// tool, unless the envelope is present and is an error too.
pub fn unwrap_envelope(result: &Value) -> Result<ToolResponse, ClientError> {
    let outer = ToolResponse::read(result)?;
    let inner = outer.texts.first().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let inner = inner.filter(|inner| inner.get("content").is_some_and(Value::is_array));
    match inner {
        Some(inner) if !outer.is_error || inner.get("isError") == Some(&Value::Bool(true)) => {
            ToolResponse::read(&inner)
        }
        Some(_) | None if outer.is_error => Err(ClientError::MetaTool(outer.texts.join(" "))),
        Some(_) | None => Err(ClientError::Protocol(format!(
            "call_tool returned no envelope: {}",
            super::excerpt(&outer.text())
        ))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::unwrap_envelope;

    #[track_caller]
    fn check(outer_error: bool, text: &str, expect: &str) {
        let result = json!({"content": [{"type": "text", "text": text}], "isError": outer_error});
        let got = match unwrap_envelope(&result) {
            Ok(answer) => format!("{} {:?}", answer.is_error, answer.texts),
            Err(failure) => failure.to_string(),
        };
        assert_eq!(got, expect);
    }

    #[test]
    fn the_inner_result_is_returned() {
        check(
            false,
            r#"{"isError":false,"content":[{"type":"text","text":"a"}]}"#,
            r#"false ["a"]"#,
        );
        check(
            false,
            r#"{"isError":true,"content":[{"type":"text","text":"no"}]}"#,
            r#"true ["no"]"#,
        );
        check(false, r#"{"content":[]}"#, "false []");
        check(
            false,
            r#"{"content":[{"type":"text","text":"a"},{"type":"image","mimeType":"x"},{"type":"text","text":"b"}]}"#,
            r#"false ["a", "b"]"#,
        );
    }

    #[test]
    fn an_outer_error_is_a_meta_tool_error() {
        check(true, "name argument is required", "meta-tool error: [name argument is required]");
        check(true, r#"{"isError":true,"content":[{"type":"text","text":"x"}]}"#, r#"true ["x"]"#);
        check(
            true,
            r#"{"isError":false,"content":[]}"#,
            r#"meta-tool error: [{"isError":false,"content":[]}]"#,
        );
    }

    #[test]
    fn a_missing_envelope_is_a_protocol_error() {
        check(false, "bare", "call_tool returned no envelope: bare");
        check(false, "{}", "call_tool returned no envelope: {}");
        let missing = unwrap_envelope(&json!({"x": 1})).unwrap_err();
        assert_eq!(missing.to_string(), r#"the result of the call has no content: {"x":1}"#);
    }
}
