//! Instructions for connecting clients, printed when the gateway is up.

use std::{
    io::{self, Write as _},
    path::Path,
};

use muster_config::settings::ServeTransport;

/// Prints the URL of the gateway, and how to connect agents to it.
pub(super) fn print(url: &str, config: &Path, admitted: &str, transport: ServeTransport) {
    let older = match (transport, url.strip_suffix("/mcp")) {
        (ServeTransport::Sse, Some(base)) => {
            format!("  older ones    HTTP with server-sent events: {base}/sse\n")
        }
        _ => String::new(),
    };
    let text = format!(
        "muster {version} is listening on {url}
configuration: {config}
admitted: {admitted}

Connect an agent:
  Claude Code   claude mcp add --transport http muster {url}
  Cursor        ~/.cursor/mcp.json: {{\"mcpServers\": {{\"muster\": {{\"url\": \"{url}\"}}}}}}
  VS Code       code --add-mcp '{{\"name\":\"muster\",\"type\":\"http\",\"url\":\"{url}\"}}'
  Codex         codex mcp add muster --url {url}
  Gemini CLI    gemini mcp add --transport http muster {url}
  others        any client that speaks streamable HTTP: {url}
{older}",
        version = env!("CARGO_PKG_VERSION"),
        config = config.display(),
    );
    // Ignore errors: if standard error is closed, there is nowhere to print this.
    drop(io::stderr().write_all(text.as_bytes()));
}
