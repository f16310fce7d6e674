//! `muster search`: finds tools by what they do.

use std::process::ExitCode;

use clap::Args;
use muster_client::inventory::{ToolInfo, ToolPage};
use muster_core::json::raw;
use serde::Deserialize;
use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{
        self, Printer,
        table::{self, Column},
    },
    process,
};

/// Find tools by what they do, best matches first
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster search restart a service
  muster search events --limit 3
  muster search list servers --output json")]
pub(crate) struct Search {
    /// What the tool should do
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    /// The maximum number of tools to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: u32,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Search) -> Result<ExitCode, CommandError> {
    process::block_on(search(args))
}

async fn search(args: &Search) -> Result<(), CommandError> {
    let session = args.gateway.open().await?;
    let done = show(&session, args).await;
    session.close().await;
    done
}

const COLUMNS: &[Column<ToolInfo>] = &[
    Column::new("name", |tool| tool.name.clone()),
    Column::cut("description", 80, |tool| tool.description.clone()),
];

async fn show(session: &GatewaySession, args: &Search) -> Result<(), CommandError> {
    /// The tools with everything that the gateway says of them.
    #[derive(Default, Deserialize)]
    struct Found {
        tools: Vec<Value>,
    }
    let arguments = json!({"query": args.words.join(" "), "limit": args.limit});
    let response = session.call("filter_tools", &raw(&arguments)).await?;
    // A gateway without tools replies with a sentence.
    let page: ToolPage = response.reply("filter_tools").unwrap_or_default();
    let found: Found = response.reply("filter_tools").unwrap_or_default();
    Printer::stdout().value(&found.tools, session.style.format, || {
        match page.tools.as_slice() {
            [] => "No tools found".to_owned(),
            tools => table::list(COLUMNS, tools, session.style),
        }
    })?;
    if !page.unmatched_terms.is_empty() && !page.tools.is_empty() {
        let terms = page.unmatched_terms.join("`, `");
        output::hint(&format!("no tool matches `{terms}`; these tools may be unrelated"));
    }
    Ok(())
}
