//! `muster policy`: the policy in effect, and what it decides.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use muster_api::policy::PolicyAnswer;
use muster_core::json::{RawObject, raw};
use serde_json::{Map, Value};

use super::{
    completion,
    gateway_args::{GatewayArgs, GatewaySession},
};
use crate::{
    error::{CommandError, NOT_ALLOWED},
    output::{Printer, reply},
    process,
};

/// Show the policy in effect, and ask what it decides
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster policy show
  muster policy check core_service_list
  muster policy check x_github_create_issue --user ann@example.com --group developers
  muster policy check x_shell_run --token ci --json '{\"command\": \"make\"}'")]
pub(crate) struct Policy {
    #[command(subcommand)]
    action: PolicyAction,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
enum PolicyAction {
    /// Show the rules, the callers that have more, and the toolsets
    #[command(visible_alias = "get")]
    Show,
    /// Ask whether a caller may call a tool, and which rule decides
    ///
    /// The tool is not called. Without --user, --group, --client and --token the question is about a caller without a
    /// login. The exit code is 0 for yes and 6 for no.
    #[command(visible_alias = "can-i")]
    Check(PolicyCheckArgs),
}

#[derive(Debug, Args)]
struct PolicyCheckArgs {
    /// The name of the tool, as agents see it
    #[arg(value_name = "TOOL", add = completion::tools())]
    tool: String,
    /// The arguments of the call as a JSON object
    #[arg(long, value_name = "OBJECT")]
    json: Option<String>,
    /// The user: an email address, or a subject at the identity provider
    #[arg(long, value_name = "NAME", conflicts_with = "token")]
    user: Option<String>,
    /// A group of the user; may be repeated
    #[arg(long = "group", value_name = "NAME", conflicts_with = "token")]
    groups: Vec<String>,
    /// The id of the OAuth client that the user logged in with
    #[arg(long, value_name = "ID", conflicts_with = "token")]
    client: Option<String>,
    /// The name of a static token
    #[arg(long, value_name = "NAME")]
    token: Option<String>,
    /// The toolset that the caller is bound to
    #[arg(long, value_name = "NAME")]
    toolset: Option<String>,
    /// Ask about an operator
    #[arg(long)]
    operator: bool,
}

impl PolicyCheckArgs {
    /// Converts the flags to arguments of the core tool.
    fn arguments(&self) -> Result<RawObject<'static>, CommandError> {
        let mut object = RawObject::new();
        let Self { tool, json, user, groups, client, token, toolset, operator } = self;
        object.set_value("tool", tool);
        if let Some(json) = json {
            let given: Map<String, Value> = serde_json::from_str(json)
                .map_err(|err| CommandError::new(format!("--json is not a JSON object: {err}")))?;
            object.set_value("arguments", &given);
        }
        let texts = [("user", user), ("client", client), ("token", token), ("toolset", toolset)];
        for (key, text) in texts {
            if let Some(text) = text {
                object.set_value(key, text);
            }
        }
        if !groups.is_empty() {
            object.set_value("groups", groups);
        }
        if *operator {
            object.set_value("operator", operator);
        }
        Ok(object)
    }
}

pub(crate) fn run(args: &Policy) -> Result<ExitCode, CommandError> {
    let wanted = match &args.action {
        PolicyAction::Show => None,
        PolicyAction::Check(check) => Some(check.arguments()?),
    };
    let mut code = ExitCode::SUCCESS;
    let done = process::block_on(async {
        let session = args.gateway.open().await?;
        let done = match &wanted {
            None => session.show("core_policy_get", &raw(&Map::new())).await,
            Some(wanted) => check(&session, wanted).await.map(|answer| code = answer),
        };
        session.close().await;
        done
    });
    done.map(|_| code)
}

async fn check(
    session: &GatewaySession,
    wanted: &RawObject<'static>,
) -> Result<ExitCode, CommandError> {
    const TOOL: &str = "core_policy_check";
    let answer: PolicyAnswer = session.remote.reply(TOOL, &wanted.to_raw()).await?;
    let text = raw(&answer);
    Printer::stdout().line(&reply::text(TOOL, text.get(), session.style)?)?;
    Ok(if answer.allowed { ExitCode::SUCCESS } else { ExitCode::from(NOT_ALLOWED) })
}
