//! `muster call`: any tool, from the shell.

use std::process::ExitCode;

use clap::Args;
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
    output::{Printer, answer, layout::Layout, yaml},
    remote::answer::{Answer, Content},
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
    let tools = asked.remote.list(crate::remote::Kind::Tools).await.ok()?;
    let found = tools.iter().find(|raw| {
        Object::parse(raw).and_then(|object| object.get_text("name")).as_deref() == Some(tool)
    })?;
    let about: Value = serde_json::from_str(found.get()).ok()?;
    about.get("inputSchema").cloned()
}

/// Prints everything that a tool answered.
fn print(asked: &Asked, answer: &Answer) -> Result<(), CommandError> {
    let printer = Printer::standard();
    if let [Content::Text(text)] = answer.content.as_slice() {
        return printer.line(&answer::text(text, asked.manner)?);
    }
    match (asked.manner.layout, &answer.structured) {
        (Layout::Json, Some(structured)) => return printer.line(structured.get()),
        (Layout::Yaml, Some(structured)) => return printer.line(&yaml::document(structured)),
        _ => (),
    }
    let shown: Vec<String> = answer.content.iter().map(Content::shown).collect();
    match asked.manner.layout {
        Layout::Json => printer.json(&shown),
        Layout::Yaml => printer.line(&yaml::document(&raw(&shown))),
        Layout::Table | Layout::Wide if shown.is_empty() => printer.line("No results"),
        Layout::Table | Layout::Wide => shown.iter().try_for_each(|text| printer.line(text)),
    }
}
