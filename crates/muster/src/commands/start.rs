//! `muster start`: starts services and runs workflows.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{
    call, completion,
    gateway_args::{GatewayArgs, one},
    resource_kinds,
    tool_args::ToolArgs,
};
use crate::{error::CommandError, process};

/// Start a service, or run a workflow
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster start service github
  muster start workflow deploy --environment=lab --replicas=3")]
pub(crate) struct Start {
    #[command(subcommand)]
    resource: Startable,
    #[command(flatten)]
    gateway: GatewayArgs,
}

#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "TYPE", subcommand_help_heading = "Types")]
enum Startable {
    /// Start a service and wait until it is running or has failed
    Service {
        /// The name of the service
        #[arg(add = completion::services())]
        name: String,
    },
    /// Run a workflow and wait for its result
    Workflow {
        /// The name of the workflow
        #[arg(add = completion::workflows())]
        name: String,
        /// Its arguments
        #[arg(value_name = "KEY=VALUE", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    #[command(external_subcommand)]
    Unknown(Vec<String>),
}

pub(crate) fn run(args: &Start) -> Result<ExitCode, CommandError> {
    match &args.resource {
        Startable::Service { name } => process::block_on(async {
            let session = args.gateway.open().await?;
            let done = session.show("core_service_start", &one("name", name)).await;
            session.close().await;
            done
        }),
        Startable::Workflow { name, words } => {
            let words = ToolArgs::read(words, &args.gateway)?;
            process::block_on(workflow(name, words))
        }
        Startable::Unknown(words) => {
            let word = words.first().map(String::as_str).unwrap_or_default();
            Err(resource_kinds::unknown(word, &["service", "workflow"]))
        }
    }
}

async fn workflow(name: &str, words: ToolArgs) -> Result<(), CommandError> {
    let tool = format!("workflow_{name}");
    let session = words.gateway.open().await?;
    let arguments = call::arguments(&session, &tool, &words).await;
    let done = session.show(&tool, &arguments).await;
    session.close().await;
    done
}
