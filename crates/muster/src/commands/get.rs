//! `muster get`: one thing in full.

mod described;

use std::process::ExitCode;

use clap::Args;

use super::{
    asking::{self, Asked, Asking, one},
    completion,
    kinds::{self, Kind},
    list::items,
};
use crate::error::CommandError;

/// Show one thing of a running gateway in full
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  muster get mcpserver github
  muster get tool core_service_list
  muster get service mcp-aggregator --output yaml")]
pub(crate) struct Get {
    /// Its kind: mcpserver, service, serviceclass, workflow, workflow-execution, tool, resource or prompt
    #[arg(value_name = "TYPE", add = completion::got())]
    kind: String,
    /// Its name; the address of a resource, the id of a workflow execution
    #[arg(value_name = "NAME", add = completion::names())]
    name: String,
    #[command(flatten)]
    asking: Asking,
}

pub(crate) fn run(args: &Get) -> Result<ExitCode, CommandError> {
    asking::run(get(args))
}

async fn get(args: &Get) -> Result<(), CommandError> {
    let kind = kinds::find(&args.kind, kinds::GOT)?;
    let asked = args.asking.open().await?;
    let done = show(&asked, kind, &args.name).await;
    asked.close().await;
    done
}

async fn show(asked: &Asked, kind: Kind, name: &str) -> Result<(), CommandError> {
    let tool = match kind {
        Kind::Service => "core_service_status",
        Kind::ServiceClass => "core_serviceclass_get",
        Kind::McpServer => "core_mcpserver_get",
        Kind::Workflow => "core_workflow_get",
        Kind::WorkflowExecution => {
            let args = one("execution_id", name);
            return asked.show("core_workflow_execution_get", &args).await;
        }
        Kind::Tool => return described::tool(asked, name).await,
        Kind::Resource => return described::resource(asked, name).await,
        Kind::Prompt => return described::prompt(asked, name).await,
    };
    let done = asked.show(tool, &one("name", name)).await;
    match done {
        Err(error) if error.to_string().contains("not found") => {
            Err(nearest(asked, kind, name, error).await)
        }
        done => done,
    }
}

/// Adds the name that was probably meant.
async fn nearest(asked: &Asked, kind: Kind, name: &str, error: CommandError) -> CommandError {
    let names = items::names(&asked.remote, kind).await.unwrap_or_default();
    let near = muster_core::suggest::similar(name, names.iter().map(String::as_str));
    match near.first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}
