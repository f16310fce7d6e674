//! A tool call as a `curl` command, for people.

use muster_core::{
    json::{Raw, RawObject, raw},
    text::shell_quoted,
};
use serde_json::{json, value::RawValue};

use crate::{
    version::{CAPABILITIES_KEY, MODERN, VERSION_KEY},
    wire::request_line,
};

/// The command that calls `tool` at the endpoint `url`, in the stateless era.
pub fn curl_line(url: &str, tool: &str, arguments: &RawValue) -> String {
    let [version] = MODERN;
    let mut params = RawObject::new();
    params.set_value("name", tool);
    params.set_value("arguments", arguments);
    params.set_value("_meta", &json!({VERSION_KEY: version, CAPABILITIES_KEY: {}}));
    let params: Raw = raw(&params);
    let message = request_line("1", "tools/call", &params);
    let message = String::from_utf8_lossy(&message);
    let headers = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", version),
        ("mcp-method", "tools/call"),
        ("mcp-name", tool),
    ];
    let headers =
        headers.map(|(name, value)| format!("-H {}", shell_quoted(&format!("{name}: {value}"))));
    format!(
        "curl -sS {} {} -d {}",
        shell_quoted(url),
        headers.join(" "),
        shell_quoted(message.trim_end())
    )
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::json;

    use super::curl_line;

    #[test]
    fn a_call_is_one_line_of_a_shell() {
        let line =
            curl_line("http://localhost:8090/mcp", "call_tool", &raw(&json!({"name": "it's"})));
        assert_eq!(
            line,
            "curl -sS http://localhost:8090/mcp -H 'content-type: application/json' \
             -H 'accept: application/json, text/event-stream' -H 'mcp-protocol-version: 2026-07-28' \
             -H 'mcp-method: tools/call' -H 'mcp-name: call_tool' \
             -d '{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"tools/call\",\"params\":{\"name\":\"call_tool\",\
             \"arguments\":{\"name\":\"it'\\''s\"},\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
             \"io.modelcontextprotocol/clientCapabilities\":{}}}}'"
        );
    }
}
