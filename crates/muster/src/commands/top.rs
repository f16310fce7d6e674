//! `muster top`: live statistics of the backends.

use std::{io::IsTerminal as _, process::ExitCode, time::Duration};

use clap::Args;
use muster_core::json::raw;
use serde::Deserialize;
use serde_json::json;

use crate::{
    commands::gateway_args::{GatewayArgs, GatewaySession},
    error::CommandError,
    output::{Printer, cell::capitalised, format::OutputFormat, tool_text},
    process,
};

/// Watch the backends of a running gateway
///
/// Shows the state of each backend, its number of calls and failures, and their durations. Press Ctrl+C
/// to exit.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster top
  muster top --once
  muster top --once --output json")]
pub(crate) struct Top {
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// The refresh interval in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Debug, Deserialize)]
struct Stats {
    uptime_seconds: u64,
    backends: Vec<Row>,
}

#[derive(Debug, Clone, Deserialize)]
struct Row {
    name: String,
    state: String,
    tools: usize,
    calls: u64,
    running: u64,
    failed: u64,
    cancelled: u64,
    average_ms: f64,
    p95_ms: f64,
    longest_ms: f64,
}

pub(crate) fn run(args: &Top) -> Result<ExitCode, CommandError> {
    if !(0.1..=3600.0).contains(&args.interval) {
        return Err(CommandError::new("--interval must be between 0.1 and 3600 seconds"));
    }
    process::block_on(watch(args))
}

async fn watch(args: &Top) -> Result<(), CommandError> {
    let session = args.gateway.open().await?;
    let printer = Printer::stdout();
    if matches!(session.style.format, OutputFormat::Json | OutputFormat::Yaml) {
        let text = look(&session).await?;
        printer.line(&tool_text::text(&text, session.style)?)?;
        session.close().await;
        return Ok(());
    }
    let redraws = !args.once && std::io::stdout().is_terminal();
    let mut before: Option<Stats> = None;
    loop {
        let text = look(&session).await?;
        let stats: Stats = serde_json::from_str(&text).map_err(|err| {
            CommandError::new(format!("cannot read the statistics of the gateway: {err}"))
                .hint("the gateway may be of another version")
        })?;
        let shown = table(&stats, before.as_ref());
        // The screen is cleared by the same write, so that it does not flicker.
        if redraws {
            printer.clear()?;
        }
        printer.line(&shown)?;
        before = Some(stats);
        if args.once {
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs_f64(args.interval)) => (),
            () = process::stop_requested() => break,
        }
    }
    session.close().await;
    Ok(())
}

async fn look(session: &GatewaySession) -> Result<String, CommandError> {
    let answer = session.remote.call("core_stats", &raw(&json!({}))).await?;
    match answer.texts().first() {
        Some(text) if !answer.failed => Ok((*text).to_owned()),
        text => Err(CommandError::new(text.map_or("the gateway returned nothing", |text| *text))
            .hint("the gateway may be too old for `muster top`")),
    }
}

/// The table of all backends, those with the most calls first, with the new calls since `before`.
fn table(stats: &Stats, before: Option<&Stats>) -> String {
    let mut rows = stats.backends.clone();
    rows.sort_by(|one, other| other.calls.cmp(&one.calls).then(one.name.cmp(&other.name)));
    let width = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).max(7);
    let (calls, failed, running) = rows.iter().fold((0, 0, 0), |(calls, failed, running), row| {
        (calls + row.calls, failed + row.failed, running + row.running)
    });
    let mut lines = vec![
        format!(
            "up {}  {} backends  {calls} calls  {running} running  {failed} failed",
            uptime(stats.uptime_seconds),
            rows.len()
        ),
        String::new(),
        format!(
            "{:<width$}  {:<12} {:>6} {:>8} {:>6} {:>8} {:>7} {:>9} {:>10} {:>10} {:>10}",
            "BACKEND",
            "STATE",
            "TOOLS",
            "CALLS",
            "NEW",
            "RUNNING",
            "FAILED",
            "CANCELLED",
            "AVG MS",
            "P95 MS",
            "MAX MS"
        ),
    ];
    for row in &rows {
        let old = before.and_then(|stats| stats.backends.iter().find(|old| old.name == row.name));
        let new = before.map(|_| row.calls.saturating_sub(old.map_or(0, |old| old.calls)));
        lines.push(format!(
            "{:<width$}  {:<12} {:>6} {:>8} {:>6} {:>8} {:>7} {:>9} {:>10.1} {:>10.1} {:>10.1}",
            row.name.trim_end_matches('/'),
            capitalised(&row.state.replace('_', " ")),
            row.tools,
            row.calls,
            new.map_or_else(|| "-".to_owned(), |new| new.to_string()),
            row.running,
            row.failed,
            row.cancelled,
            row.average_ms,
            row.p95_ms,
            row.longest_ms
        ));
    }
    lines.join("\n")
}

fn uptime(seconds: u64) -> String {
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!("{hours}:{minutes:02}:{:02}", seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::{Row, Stats, table};

    fn row(name: &str, calls: u64) -> Row {
        Row {
            name: name.to_owned(),
            state: "running".to_owned(),
            tools: 2,
            calls,
            running: 0,
            failed: 1,
            cancelled: 0,
            average_ms: 1.25,
            p95_ms: 2.0,
            longest_ms: 3.0,
        }
    }

    #[test]
    fn busiest_backends_come_first() {
        let before = Stats { uptime_seconds: 1, backends: vec![row("a", 1)] };
        let now = Stats { uptime_seconds: 3725, backends: vec![row("a", 1), row("b/", 5)] };
        let shown = table(&now, Some(&before));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "up 1:02:05  2 backends  6 calls  0 running  2 failed");
        assert!(lines[3].starts_with("b        Running"), "{shown}");
        let new = |line: &str| line.split_whitespace().nth(4).unwrap().to_owned();
        assert_eq!((new(lines[3]), new(lines[4])), ("5".to_owned(), "0".to_owned()));
    }
}
