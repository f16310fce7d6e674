//! `muster events`: shows and follows events.

mod follow;

use std::process::ExitCode;

use clap::Args;
use jiff::Timestamp;
use muster_core::json::RawObject;
use muster_engine::events::parse_time;

use super::{completion, gateway_args::GatewayArgs};
use crate::{error::CommandError, process};

/// Show the events of the gateway, such as servers that started or failed
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster events
  muster events --resource-type mcpserver --type warning --since 1h
  muster events --follow
  muster events --limit 5 --output json")]
pub(crate) struct Events {
    /// Show only events of this resource type: mcpserver, serviceclass, workflow or service
    #[arg(long, value_name = "TYPE", add = completion::event_kinds())]
    resource_type: Option<String>,
    /// Show only events of this resource
    #[arg(long, value_name = "NAME")]
    resource_name: Option<String>,
    /// Show only events of this namespace
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show only events of this type: normal or warning
    #[arg(long = "type", value_name = "TYPE", add = completion::severities())]
    severity: Option<String>,
    /// Show only events since this time: 1h30m (ago), 2026-01-31, '2026-01-31 12:00:00' (UTC) or RFC 3339
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Show only events until this time; same format as --since
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The number of events to show, newest first
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true)]
    limit: i64,
    /// Show new events as they happen
    #[arg(short, long)]
    follow: bool,
    #[command(flatten)]
    gateway: GatewayArgs,
}

pub(crate) fn run(args: &Events) -> Result<ExitCode, CommandError> {
    let arguments = arguments(args)?;
    process::block_on(async {
        let mut session = args.gateway.open().await?;
        let done = if args.follow {
            let first = usize::try_from(args.limit).ok().filter(|limit| *limit > 0);
            follow::follow(&args.gateway, &mut session, arguments, first.unwrap_or(50)).await
        } else {
            session.show("core_events", &arguments.to_raw()).await
        };
        session.close().await;
        done
    })
}

fn arguments(args: &Events) -> Result<RawObject<'static>, CommandError> {
    let mut object = RawObject::new();
    if let Some(kind) = &args.resource_type {
        object.set_value("resourceType", kind_name(kind)?);
    }
    if let Some(name) = &args.resource_name {
        object.set_value("resourceName", name);
    }
    if let Some(namespace) = &args.namespace {
        object.set_value("namespace", namespace);
    }
    if let Some(severity) = &args.severity {
        object.set_value("eventType", severity_name(severity)?);
    }
    let now = Timestamp::now();
    for (flag, key, text) in [("--since", "since", &args.since), ("--until", "until", &args.until)]
    {
        if let Some(text) = text {
            object.set_value(key, &moment(flag, text, now)?);
        }
    }
    if args.limit < 0 {
        let what = format!("limit must be a positive number, got {}", args.limit);
        return Err(CommandError::new(what));
    }
    if args.limit > 0 {
        object.set_value("limit", &args.limit);
    }
    Ok(object)
}

fn kind_name(typed: &str) -> Result<&'static str, CommandError> {
    match typed.to_lowercase().as_str() {
        "mcpserver" => Ok("MCPServer"),
        "serviceclass" => Ok("ServiceClass"),
        "workflow" => Ok("Workflow"),
        "service" => Ok("ServiceInstance"),
        _ => Err(CommandError::new(format!(
            "invalid resource type '{typed}'. Valid types: mcpserver, serviceclass, workflow, service"
        ))),
    }
}

fn severity_name(typed: &str) -> Result<&'static str, CommandError> {
    match typed.to_lowercase().as_str() {
        "normal" => Ok("Normal"),
        "warning" => Ok("Warning"),
        _ => Err(CommandError::new(format!(
            "invalid event type '{typed}'. Valid types: Normal, Warning"
        ))),
    }
}

fn moment(flag: &str, text: &str, now: Timestamp) -> Result<String, CommandError> {
    let time = parse_time(text, now)
        .map_err(|err| CommandError::new(format!("invalid {flag} value '{text}': {err}")))?;
    Ok(time.to_string())
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::{kind_name, moment, severity_name};

    #[test]
    fn words_for_the_tool() {
        assert_eq!(kind_name("MCPserver").unwrap(), "MCPServer");
        assert_eq!(kind_name("service").unwrap(), "ServiceInstance");
        assert_eq!(severity_name("WARNING").unwrap(), "Warning");
        let now: Timestamp = "2026-02-03T04:05:06Z".parse().unwrap();
        let moment = |text| moment("--since", text, now).map_err(|err| err.to_string());
        assert_eq!(moment("1h").unwrap(), "2026-02-03T03:05:06Z");
        assert_eq!(moment("2026-01-31").unwrap(), "2026-01-31T00:00:00Z");
        let wrong = moment("soon").unwrap_err();
        assert!(
            wrong.starts_with("invalid --since value 'soon': unsupported time format 'soon'."),
            "{wrong}"
        );
    }
}
