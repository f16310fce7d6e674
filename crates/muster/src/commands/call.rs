//! `muster call`: calls any tool.

use std::process::ExitCode;

use clap::Args;
use muster_client::{
    inventory::{self, ToolInfo},
    remote::{
        ListKind,
        tool_response::{ContentBlock, ToolResponse},
    },
};
use muster_core::json::{Raw, raw};
use serde_json::Value;

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession},
    tool_args::ToolArgs,
};
use crate::{
    error::CommandError,
    output::{
        Printer,
        format::{OutputFormat, OutputStyle},
        reply, yaml,
    },
    process,
};

/// Call a tool and print its result
///
/// Write arguments as key=value, --key=value or --key value. They are converted to the types that the
/// tool expects. --json sets all of them at once. Flags of muster are accepted anywhere; everything
/// after `--` goes to the tool.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster call core_service_list
  muster call core_service_status name=mcp-aggregator
  muster call core_events --limit 5 --output json
  muster call core_mcpserver_list --json '{\"showAll\": true}'")]
pub(crate) struct Call {
    /// The name of the tool, as shown by `muster list tools` and `muster search`
    #[arg(value_name = "TOOL", add = completion::tools())]
    tool: String,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true, add = completion::arguments())]
    words: Vec<String>,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Call) -> Result<ExitCode, CommandError> {
    let words = ToolArgs::read(&args.words, &args.gateway)?;
    process::block_on(call(&args.tool, &words))
}

async fn call(tool: &str, words: &ToolArgs) -> Result<(), CommandError> {
    let session = words.gateway.open().await?;
    let done = ask(&session, tool, words).await;
    session.close().await;
    done
}

async fn ask(session: &GatewaySession, tool: &str, words: &ToolArgs) -> Result<(), CommandError> {
    let arguments = arguments(session, tool, words).await;
    let answer = session.call(tool, &arguments).await?;
    Printer::stdout().line(&shown(tool, &answer, session.style)?)
}

/// Converts the arguments to the types of the tool's schema. Without a schema, they stay text.
pub(super) async fn arguments(session: &GatewaySession, tool: &str, words: &ToolArgs) -> Raw {
    if words.pairs.is_empty() {
        return words.typed(&Value::Null);
    }
    let is_meta_tool = session.remote.is_meta_tool(tool).await.unwrap_or_default();
    let schema = if is_meta_tool {
        listed_schema(session, tool).await
    } else {
        inventory::describe(&session.remote, tool).await.ok().map(|tool| tool.schema)
    };
    words.typed(&schema.unwrap_or_default())
}

/// Fetches the schema of a meta-tool, which only `tools/list` has.
async fn listed_schema(session: &GatewaySession, tool: &str) -> Option<Value> {
    let tools: Vec<ToolInfo> = inventory::list(&session.remote, ListKind::Tools).await.ok()?;
    tools.into_iter().find(|listed| listed.name == tool).map(|tool| tool.schema)
}

/// Formats everything that a tool returned.
fn shown(tool: &str, answer: &ToolResponse, style: OutputStyle) -> Result<String, CommandError> {
    if let [ContentBlock::Text(text)] = answer.content.as_slice() {
        return reply::text(tool, text, style);
    }
    // Structured content repeats only text. If there are images or resources, show the content blocks instead.
    let is_text = answer.content.iter().all(|content| matches!(content, ContentBlock::Text(_)));
    let structured = answer.structured.as_ref().filter(|_| is_text);
    match (style.format, structured) {
        (OutputFormat::Json, Some(structured)) => Ok(structured.get().to_owned()),
        (OutputFormat::Yaml, Some(structured)) => Ok(yaml::document(structured)),
        (OutputFormat::Json, None) => Ok(raw(&answer.blocks).get().to_owned()),
        (OutputFormat::Yaml, None) => Ok(yaml::document(&raw(&answer.blocks))),
        (OutputFormat::Table | OutputFormat::Wide, _) if answer.content.is_empty() => {
            Ok("No results".to_owned())
        }
        (OutputFormat::Table | OutputFormat::Wide, _) => {
            let shown: Vec<String> = answer.content.iter().map(ContentBlock::shown).collect();
            Ok(shown.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::{Value, json};

    use super::{OutputFormat, OutputStyle, ToolResponse, shown};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(result: Value, format: OutputFormat, expect: &str) {
        let answer = ToolResponse::parse(&raw(&result));
        assert_eq!(shown("x", &answer, OutputStyle { format, headings: true }).unwrap(), expect);
    }

    #[test]
    fn programs_get_every_byte() {
        let text = json!({"type": "text", "text": "here"});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let mixed = json!({"content": [text, image], "structuredContent": {"a": 1}});
        let blocks = r#"[{"type":"text","text":"here"},{"type":"image","mimeType":"image/png","data":"AAAA"}]"#;
        check(mixed.clone(), OutputFormat::Json, blocks);
        let yaml = "- text: here\n  type: text\n- data: AAAA\n  mimeType: image/png\n  type: image";
        check(mixed.clone(), OutputFormat::Yaml, yaml);
        check(mixed, OutputFormat::Table, "here\n[Image: MIME type image/png, 3 bytes]");
        let plain = json!({"content": [text, text], "structuredContent": {"a": 1}});
        check(plain, OutputFormat::Json, r#"{"a":1}"#);
        check(json!({"content": []}), OutputFormat::Table, "No results");
        check(json!({"content": [text]}), OutputFormat::Json, "here");
    }
}
