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

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{Printer, format::OutputStyle, table::Table},
    process,
    tokenizer::{self, Tokenizer},
};

/// The number of tools that are searched for and described to estimate the cost of both.
const SAMPLE: usize = 20;

/// Count the tokens that servers and tools cost an agent
///
/// Compares two ways to give an agent your tools, which are those of your servers and your CLI files: to list them
/// all directly, under their own names as without a gateway, or to list the meta-tools and to search and describe
/// each tool that is used. Workflows, muster's own and bundled tools exist only with a gateway and are counted in
/// neither. The break-even point is the number of tools per conversation at which both cost the same.
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
    /// The cost of listing the user's own tools directly.
    direct: usize,
    /// The number of the user's own tools.
    own_tools: usize,
    /// The tools that exist only with a gateway, so that they are never listed directly.
    added: Added,
    /// The cost of listing the meta-tools.
    surface: usize,
    /// The cost of one search.
    search: usize,
    /// The cost of one description.
    describe: usize,
    /// How many tools can be found and described before a direct list would have been cheaper.
    break_even: usize,
    servers: Vec<Cost>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Cost>,
}

/// The core tools, the workflows and the bundled CLIs.
#[derive(Default, Serialize)]
struct Added {
    tools: usize,
    tokens: usize,
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
    let tokenizer = Tokenizer::load()?;
    let report = report(session, &tokenizer, args.tools).await?;
    Printer::stdout().value(&report, session.style.format, || page(&report, session.style))
}

async fn report(
    session: &GatewaySession,
    tokenizer: &Tokenizer,
    with_tools: bool,
) -> Result<Report, CommandError> {
    let cost = |text: &str| tokenizer.count(text);
    let listed = |tool: &ToolInfo| {
        let ToolInfo { description, schema, .. } = tool;
        cost(
            &json!({"name": own_name(tool), "description": description, "inputSchema": schema})
                .to_string(),
        )
    };
    // Skip unavailable tools: without a gateway, a server that is down would list none either.
    let all = inventory::tools_behind(&session.remote).await?.tools;
    let all = all.into_iter().filter(|tool| tool.unavailable.is_none());
    let (tools, others): (Vec<ToolInfo>, Vec<ToolInfo>) = all.partition(is_without_gateway);
    let added = Added { tools: others.len(), tokens: others.iter().map(listed).sum() };
    let mut servers: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut each = Vec::new();
    for tool in &tools {
        let ToolInfo { name, server, .. } = tool;
        let tokens = listed(tool);
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
        tokenizer: tokenizer::NAME,
        direct,
        own_tools: tools.len(),
        added,
        surface,
        search,
        describe,
        break_even: saved / (search + describe).max(1),
        servers,
        tools: if with_tools { each } else { Vec::new() },
    })
}

/// Whether an agent without a gateway could list a tool.
fn is_without_gateway(tool: &ToolInfo) -> bool {
    tool.is_users_own() && !tool.name.starts_with("workflow_")
}

/// The name that a tool has without a gateway.
fn own_name(tool: &ToolInfo) -> &str {
    let ToolInfo { name, server, .. } = tool;
    let server = server.trim_end_matches('/');
    let of_server = name.split_once(&format!("_{server}_")).map(|(_, own)| own);
    of_server.or_else(|| name.strip_prefix("cli_")).unwrap_or(name)
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
    let Report {
        direct, own_tools, added, surface, search, describe, break_even, tokenizer, ..
    } = report;
    let Added { tools: added, tokens: added_tokens } = added;
    let verdict = match break_even {
        0 => "With so few tools of your own, listing them directly is cheaper.".to_owned(),
        tasks => format!(
            "The gateway is cheaper as long as a conversation looks up at most {tasks} tools; beyond that, listing your tools directly is."
        ),
    };
    page.push(format!(
        "Your {own_tools} tools listed directly, as without a gateway: {direct} tokens\n\
         The meta-tools: {surface} tokens\n\
         One search: {search} tokens; one description: {describe} tokens\n\
         Not compared: {added} core tools, workflows and bundled tools, which only muster has ({added_tokens} tokens)\n\n\
         {verdict} (counted with {tokenizer})"
    ));
    page.join("\n\n")
}

#[cfg(test)]
mod tests {
    use muster_client::inventory::ToolInfo;

    use super::own_name;

    #[test]
    fn names_without_the_gateway() {
        for (server, name, own) in [
            ("github", "x_github_create_issue", "create_issue"),
            ("cli/demo", "cli_show", "show"),
            ("cli/demo", "cli_demo_show", "demo_show"),
        ] {
            let tool = ToolInfo {
                name: name.to_owned(),
                server: server.to_owned(),
                ..ToolInfo::default()
            };
            assert_eq!(own_name(&tool), own);
        }
    }
}
