//! `muster calls`: shows and follows the history of calls.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use jiff::Timestamp;
use muster_api::{calls::CallList, workflow::WorkflowDraft};
use muster_core::json::{RawObject, raw};
use muster_engine::events::parse_time;

use super::gateway_args::{GatewayArgs, GatewaySession};
use crate::{
    error::CommandError,
    output::{
        self, Printer,
        format::{OutputFormat, OutputStyle},
        reply::{self, ReplyView as _},
    },
    process,
};

const LIST: &str = "core_calls_list";
/// The polling interval for new calls.
const INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of calls in a page.
const MAX_PAGE: usize = 1_000;

/// The maximum number of calls in a draft.
const MAX_DRAFT: usize = 50;

/// Show the calls of tools, newest last
///
/// The gateway keeps them in its state folder, so that they survive a restart. Arguments are kept only if
/// `history.arguments` in config.yaml says so.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster calls
  muster calls --status error --since 1h
  muster calls --server github --output json
  muster calls 1234
  muster calls --caller ci --limit 3 --draft release
  muster calls --follow")]
pub(crate) struct Calls {
    /// Show this call in full
    #[arg(value_name = "ID", conflicts_with_all = ["follow", "draft", "limit", "before", "server", "tool", "caller", "status", "since", "until"])]
    id: Option<u64>,
    #[command(flatten)]
    filter: CallFilterArgs,
    /// The number of calls to show, the newest
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// Show calls before the one with this id
    #[arg(long, value_name = "ID")]
    before: Option<u64>,
    /// Print these calls as the draft of a workflow with this name, for `muster create workflow` or a file in `workflows/`
    #[arg(long, value_name = "NAME", conflicts_with = "follow")]
    draft: Option<String>,
    /// Show new calls as they end
    #[arg(short, long, conflicts_with = "before")]
    follow: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

/// The flags that select calls.
#[derive(Debug, Args)]
pub(super) struct CallFilterArgs {
    /// Select calls to this server
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Select calls of this tool
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Select calls of this user or static token
    #[arg(long, value_name = "NAME")]
    caller: Option<String>,
    /// Select calls that ended like this: ok, failed, denied, unavailable, …, or error for any error
    #[arg(long, value_name = "STATUS")]
    status: Option<String>,
    /// Select calls since this time: 1h30m (ago), 2026-01-31, '2026-01-31 12:00:00' (UTC) or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Select calls until this time; same format as --since
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
}

impl CallFilterArgs {
    /// Converts the flags to arguments of the core tools.
    pub(super) fn arguments(&self) -> Result<RawObject<'static>, CommandError> {
        let mut object = RawObject::new();
        let Self { server, tool, caller, status, since, until } = self;
        let texts = [("server", server), ("tool", tool), ("caller", caller), ("status", status)];
        for (key, text) in texts {
            if let Some(text) = text {
                object.set_value(key, text);
            }
        }
        let now = Timestamp::now();
        for (key, text) in [("since", since), ("until", until)] {
            let Some(text) = text else { continue };
            let time = parse_time(text, now).map_err(|err| {
                CommandError::new(format!("invalid --{key} value '{text}': {err}"))
            })?;
            object.set_value(key, &time.to_string());
        }
        Ok(object)
    }
}

pub(crate) fn run(args: &Calls) -> Result<ExitCode, CommandError> {
    if args.draft.is_some() && usize::from(args.limit) > MAX_DRAFT {
        let message = format!("--draft takes at most {MAX_DRAFT} calls, not {}", args.limit);
        return Err(CommandError::new(message).hint(format!("use --limit {MAX_DRAFT} or less")));
    }
    let mut arguments = args.filter.arguments()?;
    arguments.set_value("limit", &args.limit);
    if let Some(before) = args.before {
        arguments.set_value("before", &before);
    }
    process::block_on(async {
        let session = args.gateway.open().await?;
        let done = match (args.id, args.follow) {
            _ if args.draft.is_some() => {
                let name = args.draft.as_deref().unwrap_or_default();
                draft(&session, &arguments, name).await
            }
            (Some(id), _) => {
                let mut one = RawObject::new();
                one.set_value("id", &id);
                session.show("core_calls_get", &one.to_raw()).await
            }
            (None, true) => follow(&session, arguments).await,
            (None, false) => session.show(LIST, &arguments.to_raw()).await,
        };
        session.close().await;
        done
    })
}

/// Prints the selected calls as the draft of a workflow.
async fn draft(
    session: &GatewaySession,
    arguments: &RawObject<'static>,
    name: &str,
) -> Result<(), CommandError> {
    const DRAFT: &str = "core_calls_draft";
    let page: CallList = session.remote.reply(LIST, &arguments.to_raw()).await?;
    if page.calls.is_empty() {
        return Err(CommandError::new("no call matches, so there is nothing to draft"));
    }
    let mut wanted = RawObject::new();
    wanted.set_value("calls", &page.calls.iter().map(|call| call.id).collect::<Vec<_>>());
    wanted.set_value("name", name);
    let mut draft: WorkflowDraft = session.remote.reply(DRAFT, &wanted.to_raw()).await?;
    for note in std::mem::take(&mut draft.notes) {
        output::hint(&note);
    }
    let format = match session.style.format {
        OutputFormat::Json => OutputFormat::Json,
        OutputFormat::Table | OutputFormat::Wide | OutputFormat::Yaml => OutputFormat::Yaml,
    };
    let style = OutputStyle { format, ..session.style };
    Printer::stdout().line(&reply::text(DRAFT, raw(&draft).get(), style)?)
}

/// Prints new calls, oldest first, until the process is asked to stop.
async fn follow(
    session: &GatewaySession,
    mut arguments: RawObject<'static>,
) -> Result<(), CommandError> {
    let printer = Printer::stdout();
    let mut stop = std::pin::pin!(process::stop_requested());
    let mut style = session.style;
    let mut newest = 0;
    loop {
        let mut page: CallList = session.remote.reply(LIST, &arguments.to_raw()).await?;
        if !page.calls.is_empty() {
            newest = page.calls.first().map_or(newest, |call| call.id);
            printer.line(&shown(&mut page, style)?)?;
            style = OutputStyle { headings: false, ..style };
        }
        // After the first page, fetch every call since the newest that was printed.
        arguments.set_value("after", &newest);
        arguments.set_value("limit", &MAX_PAGE);
        tokio::select! {
            () = &mut stop => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => (),
        }
    }
}

/// Formats the calls of a page as rows of a table, or as one JSON document per line.
fn shown(page: &mut CallList, style: OutputStyle) -> Result<String, CommandError> {
    match style.format {
        OutputFormat::Table | OutputFormat::Wide => {
            page.next = None;
            Ok(page.show(style))
        }
        OutputFormat::Json | OutputFormat::Yaml => {
            let lines = page.calls.iter().rev().map(serde_json::to_string);
            let lines: Result<Vec<String>, _> = lines.collect();
            let lines = lines.map_err(|err| {
                CommandError::new(format!("cannot write the call as JSON: {err}"))
            })?;
            Ok(lines.join("\n"))
        }
    }
}
