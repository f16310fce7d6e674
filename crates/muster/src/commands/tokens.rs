//! `muster tokens`: counts the tokens that tools cost an agent.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use muster_client::{
    inventory::{self, ToolInfo},
    remote::ListKind,
};
use muster_core::json::raw;
use serde::Serialize;
use serde_json::json;
use tiktoken_rs::CoreBPE;

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputStyle, table::Table},
    process,
};

/// The number of tools that are searched for and described, to estimate the cost of both.
const SAMPLE: usize = 20;

/// Count the tokens that servers and tools cost an agent
///
/// Compares listing all tools directly, as without a gateway, with the meta-tools plus one search and
/// one description per tool used, and shows the break-even point.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster tokens
  muster tokens --tools
  muster tokens --output json")]
pub(crate) struct Tokens {
    /// Show every tool, the most expensive first
    #[arg(long)]
    tools: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Serialize)]
struct Report {
    tokenizer: &'static str,
    /// All tools, listed directly.
    direct: usize,
    /// The meta-tools.
    surface: usize,
    /// One search.
    search: usize,
    /// One description.
    describe: usize,
    /// How many tools can be found and described before a direct list would have been cheaper.
    break_even: usize,
    servers: Vec<Cost>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Cost>,
}

#[derive(Serialize)]
struct Cost {
    name: String,
    tools: usize,
    tokens: usize,
}

pub(crate) fn run(args: &Tokens) -> Result<ExitCode, CommandError> {
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = show(&session, args).await;
        session.close().await;
        done
    })
}

async fn show(session: &GatewaySession, args: &Tokens) -> Result<(), CommandError> {
    let tokenizer = tiktoken_rs::o200k_base()
        .map_err(|err| CommandError::new(format!("cannot load the tokenizer: {err}")))?;
    let report = report(session, &tokenizer, args.tools).await?;
    Printer::stdout().value(&report, session.style.format, || page(&report, session.style))
}

async fn report(
    session: &GatewaySession,
    tokenizer: &CoreBPE,
    with_tools: bool,
) -> Result<Report, CommandError> {
    let cost = |text: &str| tokenizer.encode_ordinary(text).len();
    let tools = inventory::tools_behind(&session.remote).await?;
    let mut servers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut each = Vec::new();
    for tool in &tools {
        let ToolInfo { name, description, schema, server } = tool;
        let listed = json!({"name": name, "description": description, "inputSchema": schema});
        let tokens = cost(&listed.to_string());
        let server = servers.entry(server.trim_end_matches('/').to_owned()).or_default();
        *server = (server.0 + 1, server.1 + tokens);
        each.push(Cost { name: name.clone(), tools: 1, tokens });
    }
    let surface = session.remote.list(ListKind::Tools).await?;
    let step = (tools.len() / SAMPLE).max(1);
    let (mut search, mut describe, mut count) = (0, 0, 0);
    for tool in tools.iter().step_by(step).take(SAMPLE) {
        let question = tool.description.lines().next().unwrap_or_default();
        search += cost(&response_text(session, "filter_tools", "query", question).await?);
        describe += cost(&response_text(session, "describe_tool", "name", &tool.name).await?);
        count += 1;
    }
    let (search, describe) = (search / count.max(1), describe / count.max(1));
    let direct = servers.values().map(|(_, tokens)| tokens).sum();
    let surface = cost(raw(&surface).get());
    let saved = usize::saturating_sub(direct, surface);
    each.sort_by_key(|one| std::cmp::Reverse(one.tokens));
    let by_server = servers.into_iter().map(|(name, (tools, tokens))| Cost { name, tools, tokens });
    let mut servers: Vec<Cost> = by_server.collect();
    servers.sort_by_key(|one| std::cmp::Reverse(one.tokens));
    Ok(Report {
        tokenizer: "o200k_base",
        direct,
        surface,
        search,
        describe,
        break_even: saved / (search + describe).max(1),
        servers,
        tools: if with_tools { each } else { Vec::new() },
    })
}

async fn response_text(
    session: &GatewaySession,
    tool: &str,
    key: &str,
    value: &str,
) -> Result<String, CommandError> {
    Ok(session.call(tool, &raw(&json!({key: value}))).await?.texts().join("\n"))
}

fn page(report: &Report, style: OutputStyle) -> String {
    let mut page = Vec::new();
    for (what, costs) in [("server", &report.servers), ("tool", &report.tools)] {
        let mut table = Table::new([what, "tools", "tokens"], style);
        for Cost { name, tools, tokens } in costs {
            table.row([name.clone(), tools.to_string(), tokens.to_string()]);
        }
        if !table.is_empty() {
            page.push(table.text());
        }
    }
    let Report { direct, surface, search, describe, break_even, tokenizer, .. } = report;
    let verdict = match break_even {
        0 => "With so few tools, listing them directly is cheaper.".to_owned(),
        tasks => format!(
            "The gateway is cheaper as long as a conversation looks up at most {tasks} tools; beyond that, listing all tools directly is."
        ),
    };
    page.push(format!(
        "All tools listed directly: {direct} tokens\nThe meta-tools: {surface} tokens\n\
         One search: {search} tokens; one description: {describe} tokens\n\n{verdict} (counted with {tokenizer})"
    ));
    page.join("\n\n")
}
