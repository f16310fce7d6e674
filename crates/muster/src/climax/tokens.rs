//! `climax tokens`.

use std::process::ExitCode;

use muster_core::json::{Raw, raw};
use muster_gateway::surface::{Surface, classic::Classic, discovery::DiscoverySurface};
use serde::Serialize;

use super::{args::Tokens, assembly::Assembly, load};
use crate::{
    error::CommandError,
    output::{Format, Printer, table},
    tokenizer::{self, Tokenizer},
};

/// The token cost of one mode of listing the tools, before an agent's first call.
#[derive(Serialize)]
struct Cost {
    mode: &'static str,
    tools: usize,
    bytes: usize,
    tokens: usize,
}

#[derive(Serialize)]
struct Report {
    tokenizer: &'static str,
    modes: [Cost; 2],
    /// How many times as much classic mode costs.
    ratio: f64,
}

pub(super) fn run(args: &Tokens) -> Result<ExitCode, CommandError> {
    let configs = load::configs(&args.configs)?;
    let state =
        Assembly::new(configs, Vec::new(), load::policy_or_none(args.policy.as_deref())?).state;
    let tokenizer = Tokenizer::load()?;
    let cost = |mode, tools: &[Raw]| {
        let text = raw(tools);
        let tokens = tokenizer.count(text.get());
        Cost { mode, tools: tools.len(), bytes: text.get().len(), tokens }
    };
    let classic = cost("classic", &Classic.tools(&state));
    let discovery = cost("discovery", &DiscoverySurface::default().tools(&state));
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
    let ratio = classic.tokens as f64 / discovery.tokens.max(1) as f64;
    let ratio = (ratio * 100.0).round() / 100.0;
    let report = Report { tokenizer: tokenizer::NAME, modes: [classic, discovery], ratio };
    let printer = Printer::stdout();
    match args.output {
        Format::Json => printer.json(&report)?,
        Format::Table => print(printer, &report)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn print(printer: Printer, report: &Report) -> Result<(), CommandError> {
    let rows: Vec<Vec<String>> = report
        .modes
        .iter()
        .map(|cost| {
            let Cost { mode, tools, bytes, tokens } = cost;
            vec![(*mode).to_owned(), tools.to_string(), bytes.to_string(), tokens.to_string()]
        })
        .collect();
    printer.line(&table::render(&printer, &["Mode", "Tools", "Bytes", "Tokens"], &rows))?;
    let verdict = if report.ratio >= 1.0 {
        format!("discovery costs {} times less to list", report.ratio)
    } else {
        "so few tools are cheaper to list directly: consider --classic".to_owned()
    };
    printer.line(&format!("\n{verdict} (counted with {})", report.tokenizer))
}
