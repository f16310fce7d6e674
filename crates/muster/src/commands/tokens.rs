//! `muster tokens`: counts the tokens that tools cost an agent.

use std::{collections::BTreeMap, process::ExitCode};

use clap::Args;
use muster_client::remote::ListKind;
use muster_core::json::RawObject;
use serde::Serialize;
use serde_json::Value;
use tiktoken_rs::CoreBPE;

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputFormat, grid::Grid, yaml},
    process,
};

/// So many tools are searched for and described, to know what that costs.
const SAMPLE: usize = 20;
/// A page of tools with their schemas; the one who counts is no agent.
const PAGE: usize = 500;
const NO_LIMIT: u32 = 50_000_000;

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
    let printer = Printer::stdout();
    match session.style.format {
        OutputFormat::Json => printer.json(&report),
        OutputFormat::Yaml => printer.line(&yaml::document(&muster_core::json::raw(&report))),
        OutputFormat::Table | OutputFormat::Wide => print(printer, &report, session.style.headings),
    }
}

async fn report(
    session: &GatewaySession,
    tokenizer: &CoreBPE,
    with_tools: bool,
) -> Result<Report, CommandError> {
    let cost = |text: &str| tokenizer.encode_ordinary(text).len();
    let tools = all_tools(session).await?;
    let mut servers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut each = Vec::new();
    for tool in &tools {
        let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut listed = tool.clone();
        if let Some(members) = listed.as_object_mut() {
            members.retain(|key, _| ["name", "description", "inputSchema"].contains(&key.as_str()));
        }
        let tokens = cost(&listed.to_string());
        let server = servers.entry(text("server").to_owned()).or_default();
        *server = (server.0 + 1, server.1 + tokens);
        each.push(Cost { name: text("name").to_owned(), tools: 1, tokens });
    }
    let surface = session.remote.list(ListKind::Tools).await?;
    let step = (tools.len() / SAMPLE).max(1);
    let (mut search, mut describe, mut count) = (0, 0, 0);
    for tool in tools.iter().step_by(step).take(SAMPLE) {
        let text = |key: &str| tool.get(key).and_then(Value::as_str).unwrap_or_default();
        let question = text("description").lines().next().unwrap_or_default();
        search += cost(&said(session, "filter_tools", "query", question).await?);
        describe += cost(&said(session, "describe_tool", "name", text("name")).await?);
        count += 1;
    }
    let (search, describe) = (search / count.max(1), describe / count.max(1));
    let direct = servers.values().map(|(_, tokens)| tokens).sum();
    let surface = cost(muster_core::json::raw(&surface).get());
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

/// Every tool with its schema, page by page.
async fn all_tools(session: &GatewaySession) -> Result<Vec<Value>, CommandError> {
    let mut tools = Vec::new();
    let mut offset = Some(0);
    while let Some(at) = offset {
        let mut wish = RawObject::new();
        wish.set_value("pattern", "*");
        wish.set_value("include_schema", &true);
        wish.set_value("limit", &PAGE);
        wish.set_value("offset", &at);
        wish.set_value("max_tokens", &NO_LIMIT);
        let answer = session.call("filter_tools", &wish.to_raw()).await?;
        let page: Value = answer
            .texts()
            .first()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or_default();
        tools.extend(page.get("tools").and_then(Value::as_array).cloned().unwrap_or_default());
        offset = page.get("next_offset").and_then(Value::as_u64).filter(|next| *next > at);
    }
    Ok(tools)
}

async fn said(
    session: &GatewaySession,
    tool: &str,
    key: &str,
    value: &str,
) -> Result<String, CommandError> {
    let mut wish = RawObject::new();
    wish.set_value(key.to_owned(), value);
    Ok(session.call(tool, &wish.to_raw()).await?.texts().join("\n"))
}

fn print(printer: Printer, report: &Report, headings: bool) -> Result<(), CommandError> {
    for (what, costs) in [("server", &report.servers), ("tool", &report.tools)] {
        if costs.is_empty() {
            continue;
        }
        let mut grid = Grid::new(&[what, "tools", "tokens"]).headed(headings);
        for Cost { name, tools, tokens } in costs {
            grid.row([name.clone(), tools.to_string(), tokens.to_string()]);
        }
        printer.line(&format!("{}\n", grid.text()))?;
    }
    let Report { direct, surface, search, describe, break_even, tokenizer, .. } = report;
    let verdict = match break_even {
        0 => "With so few tools, listing them directly is cheaper.".to_owned(),
        tasks => format!(
            "The gateway is cheaper as long as a conversation looks up at most {tasks} tools; beyond that, listing all tools directly is."
        ),
    };
    printer.line(&format!(
        "All tools listed directly: {direct} tokens\nThe meta-tools: {surface} tokens\n\
         One search: {search} tokens; one description: {describe} tokens\n\n{verdict} (counted with {tokenizer})"
    ))
}
