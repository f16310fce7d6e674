//! `muster call`: any tool, from the shell.

use std::process::ExitCode;

use clap::Args;
use muster_client::remote::answer::{Answer, Content};
use muster_core::{
    json::{Object, Raw, raw},
    meta_tools,
};
use serde_json::Value;

use super::{
    asking::{self, Asked, Asking, one},
    completion,
    words::Words,
};
use crate::{
    error::CommandError,
    output::{
        Printer, answer,
        layout::{Layout, Manner},
        yaml,
    },
};

/// Call a tool and print what it answers
///
/// Arguments are written as key=value, --key=value or --key value, and become numbers, truth values,
/// lists or objects where the tool wants such; --json gives all of them at once. Flags of muster
/// itself may stand anywhere; what follows `--` is for the tool alone.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster call core_service_list
  muster call core_service_status name=mcp-aggregator
  muster call core_events --limit 5 --output json
  muster call core_mcpserver_list --json '{\"showAll\": true}'")]
pub(crate) struct Call {
    /// The tool, by the name that `muster list tools` and `muster search` show
    #[arg(value_name = "TOOL", add = completion::tools())]
    tool: String,
    /// Its arguments
    #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true, add = completion::arguments())]
    words: Vec<String>,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Call) -> Result<ExitCode, CommandError> {
    let words = Words::read(&args.words, &args.asking)?;
    asking::run(call(&args.tool, &words))
}

async fn call(tool: &str, words: &Words) -> Result<(), CommandError> {
    let asked = words.asking.open().await?;
    let done = ask(&asked, tool, words).await;
    asked.close().await;
    done
}

async fn ask(asked: &Asked, tool: &str, words: &Words) -> Result<(), CommandError> {
    let arguments = arguments(asked, tool, words).await;
    let answer = asked.call(tool, &arguments).await?;
    print(asked, &answer)
}

/// The arguments as the tool wants them. What has no schema takes text.
pub(super) async fn arguments(asked: &Asked, tool: &str, words: &Words) -> Raw {
    if words.pairs.is_empty() {
        return words.fitted(&Value::Null);
    }
    let schema = if meta_tools::has(tool) {
        listed_schema(asked, tool).await
    } else {
        described_schema(asked, tool).await
    };
    words.fitted(&schema.unwrap_or_default())
}

async fn described_schema(asked: &Asked, tool: &str) -> Option<Value> {
    let about = asked.remote.call("describe_tool", &one("name", tool)).await.ok()?;
    let about: Value = serde_json::from_str(about.texts().first()?).ok()?;
    about.get("inputSchema").cloned()
}

/// Meta-tools are described by the protocol's own list.
async fn listed_schema(asked: &Asked, tool: &str) -> Option<Value> {
    let tools = asked.remote.list(muster_client::remote::Kind::Tools).await.ok()?;
    let found = tools.iter().find(|raw| {
        Object::parse(raw).and_then(|object| object.get_text("name")).as_deref() == Some(tool)
    })?;
    let about: Value = serde_json::from_str(found.get()).ok()?;
    about.get("inputSchema").cloned()
}

/// Prints everything that a tool answered.
fn print(asked: &Asked, answer: &Answer) -> Result<(), CommandError> {
    Printer::standard().line(&shown(answer, asked.manner)?)
}

fn shown(answer: &Answer, manner: Manner) -> Result<String, CommandError> {
    if let [Content::Text(text)] = answer.content.as_slice() {
        return answer::text(text, manner);
    }
    // What is not text is in the content alone.
    let is_text = answer.content.iter().all(|content| matches!(content, Content::Text(_)));
    let structured = answer.structured.as_ref().filter(|_| is_text);
    match (manner.layout, structured) {
        (Layout::Json, Some(structured)) => Ok(structured.get().to_owned()),
        (Layout::Yaml, Some(structured)) => Ok(yaml::document(structured)),
        (Layout::Json, None) => Ok(raw(&answer.blocks).get().to_owned()),
        (Layout::Yaml, None) => Ok(yaml::document(&raw(&answer.blocks))),
        (Layout::Table | Layout::Wide, _) if answer.content.is_empty() => {
            Ok("No results".to_owned())
        }
        (Layout::Table | Layout::Wide, _) => {
            let shown: Vec<String> = answer.content.iter().map(Content::shown).collect();
            Ok(shown.join("\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_core::json::raw;
    use serde_json::{Value, json};

    use super::{Answer, Layout, Manner, shown};

    #[expect(clippy::needless_pass_by_value, reason = "a table reads better without ampersands")]
    #[track_caller]
    fn check(result: Value, layout: Layout, expect: &str) {
        let answer = Answer::of(&raw(&result));
        assert_eq!(shown(&answer, Manner { layout, headings: true }).unwrap(), expect);
    }

    #[test]
    fn programs_get_every_byte() {
        let text = json!({"type": "text", "text": "here"});
        let image = json!({"type": "image", "mimeType": "image/png", "data": "AAAA"});
        let mixed = json!({"content": [text, image], "structuredContent": {"a": 1}});
        let blocks = r#"[{"type":"text","text":"here"},{"type":"image","mimeType":"image/png","data":"AAAA"}]"#;
        check(mixed.clone(), Layout::Json, blocks);
        let yaml = "- text: here\n  type: text\n- data: AAAA\n  mimeType: image/png\n  type: image";
        check(mixed.clone(), Layout::Yaml, yaml);
        check(mixed, Layout::Table, "here\n[Image: MIME type image/png, 3 bytes]");
        let plain = json!({"content": [text, text], "structuredContent": {"a": 1}});
        check(plain, Layout::Json, r#"{"a":1}"#);
        check(json!({"content": []}), Layout::Table, "No results");
        check(json!({"content": [text]}), Layout::Json, "here");
    }
}
