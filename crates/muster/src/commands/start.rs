//! `muster start`: services and workflows.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::{
    asking::{self, Asking, one},
    call, completion, kinds,
    words::Words,
};
use crate::error::CommandError;

/// Start a service, or run a workflow
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster start service github
  muster start workflow deploy --environment=lab --replicas=3")]
pub(crate) struct Start {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    asking: Asking,
}

#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "TYPE", subcommand_help_heading = "Types")]
enum What {
    /// Start a service, and wait until it is up or cannot be
    Service {
        /// Its name
        #[arg(add = completion::services())]
        name: String,
    },
    /// Run a workflow, and wait for its result
    Workflow {
        /// Its name
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
    match &args.what {
        What::Service { name } => asking::run(async {
            let asked = args.asking.open().await?;
            let done = asked.show("core_service_start", &one("name", name)).await;
            asked.close().await;
            done
        }),
        What::Workflow { name, words } => {
            let words = Words::read(words, &args.asking)?;
            asking::run(workflow(name, words))
        }
        What::Unknown(words) => {
            let word = words.first().map(String::as_str).unwrap_or_default();
            Err(kinds::unknown(word, &["service", "workflow"]))
        }
    }
}

async fn workflow(name: &str, words: Words) -> Result<(), CommandError> {
    let tool = format!("workflow_{name}");
    let asked = words.asking.open().await?;
    let arguments = call::arguments(&asked, &tool, &words).await;
    let done = asked.show(&tool, &arguments).await;
    asked.close().await;
    done
}
