//! `muster search`: finds tools by what they do.

use std::process::ExitCode;

use clap::Args;
use muster_api::{UnavailableServer, keyword::known, search::MatchVerdict};
use muster_client::inventory::{MAX_TOKENS, ToolInfo, ToolPage};
use muster_core::json::raw;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{
        self, Printer, next_step,
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
    Column::new("match", |tool| match &tool.unavailable {
        Some(_) => format!("{}, unavailable", tool.strength),
        None => tool.strength.clone(),
    }),
    Column::cut("description", 80, |tool| tool.description.clone()),
];

/// The reply of `filter_tools` to a query.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Reply {
    /// `None` if only a newer gateway knows it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "known")]
    verdict: Option<MatchVerdict>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unmatched_terms: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    absent_products: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nearest_servers: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unavailable: Vec<UnavailableServer>,
    /// The tools, unchanged from the reply.
    tools: Vec<Value>,
}

impl Reply {
    /// A remark if the tools may not be what was searched for; `None` otherwise.
    fn doubt(&self) -> Option<String> {
        let terms = match self.unmatched_terms.as_slice() {
            [] => String::new(),
            terms => format!("; no tool mentions `{}`", terms.join("`, `")),
        };
        if !self.absent_products.is_empty() {
            let products = self.absent_products.join(" or ");
            let nearest = self.nearest_servers.first();
            let nearest = nearest.map(|server| format!("; the nearest is {server}"));
            let nearest = nearest.unwrap_or_default();
            return Some(format!("nothing here is {products}{nearest}{terms}"));
        }
        match self.verdict {
            Some(MatchVerdict::NoSuchTool) if self.nearest_servers.is_empty() => {
                Some(format!("no tool matches{terms}"))
            }
            Some(MatchVerdict::NoSuchTool) => {
                Some(format!("no tool matches; these are the nearest{terms}"))
            }
            Some(MatchVerdict::Unsure) => {
                Some(format!("no tool clearly matches; these are the nearest{terms}"))
            }
            Some(MatchVerdict::Found) | None => terms.strip_prefix("; ").map(str::to_owned),
        }
    }
}

async fn show(session: &GatewaySession, args: &Search) -> Result<(), CommandError> {
    let query = args.words.join(" ");
    let arguments = json!({"query": query, "limit": args.limit, "max_tokens": MAX_TOKENS});
    let response = session.call("filter_tools", &raw(&arguments)).await?;
    // A gateway without tools replies with a sentence instead of JSON.
    let page: ToolPage = response.reply("filter_tools").unwrap_or_default();
    let reply: Reply = response
        .reply("filter_tools")
        .unwrap_or_else(|_| Reply { verdict: Some(MatchVerdict::NoSuchTool), ..Reply::default() });
    Printer::stdout().value(&reply, session.style.format, || match page.tools.as_slice() {
        [] => "No tools found".to_owned(),
        tools => table::list(COLUMNS, tools, session.style),
    })?;
    if session.quiet {
        return Ok(());
    }
    if let Some(doubt) = reply.doubt() {
        output::hint(&doubt);
    }
    for server in &reply.unavailable {
        output::warn(&next_step::unavailable(server));
    }
    Ok(())
}
