//! `muster search`: finds tools by what they do.

use std::process::ExitCode;

use clap::Args;
use muster_core::json::RawObject;
use serde_json::Value;

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{Printer, cell::cut, format::OutputFormat, grid::Grid, yaml},
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

async fn show(session: &GatewaySession, args: &Search) -> Result<(), CommandError> {
    let mut wish = RawObject::new();
    wish.set_value("query", &args.words.join(" "));
    wish.set_value("limit", &args.limit);
    let answer = session.call("filter_tools", &wish.to_raw()).await?;
    let text = answer.texts().first().copied().unwrap_or("{}").to_owned();
    let printer = Printer::stdout();
    let found: Value = serde_json::from_str(&text).unwrap_or_default();
    let tools = found.get("tools").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
    match session.style.format {
        OutputFormat::Json => return printer.json(&tools),
        OutputFormat::Yaml => {
            return printer.line(&yaml::document(&muster_core::json::raw(&tools)));
        }
        OutputFormat::Table | OutputFormat::Wide => (),
    }
    let tools = tools.as_array().cloned().unwrap_or_default();
    if tools.is_empty() {
        return printer.line("No tools found");
    }
    let longest = if session.style.format == OutputFormat::Wide { usize::MAX } else { 80 };
    let mut grid = Grid::new(&["name", "description"]).headed(session.style.headings);
    for tool in &tools {
        let text = |key: &str| tool.get(key).and_then(Value::as_str);
        let about = text("summary").or_else(|| text("description")).unwrap_or_default();
        grid.row([text("name").unwrap_or_default().to_owned(), cut(about, longest)]);
    }
    printer.line(&grid.text())
}
