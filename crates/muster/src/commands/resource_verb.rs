//! Commands that apply a verb to several resources of one kind.

use std::process::ExitCode;

use muster_api::error::ErrorKind;
use muster_client::remote::tool_response::ToolResponse;

use super::{
    gateway_args::{GatewayArgs, GatewaySession, one},
    list::names,
    resource_kinds::ResourceKind,
};
use crate::{error::CommandError, output, process};

/// Calls a core tool for each name and prints the replies. Continues after a failure, but then fails at the end.
pub(super) fn for_each(
    gateway: &GatewayArgs,
    kind: ResourceKind,
    tool: &str,
    wanted: &[String],
) -> Result<ExitCode, CommandError> {
    process::block_on_code(async {
        let session = gateway.open().await?;
        let mut failed = Vec::new();
        for name in wanted {
            if let Err(error) = call(&session, kind, tool, ("name", name)).await {
                failed.push(error);
            }
        }
        session.close().await;
        // Report all errors but the last, which the caller reports like that of any other command.
        let last = failed.pop();
        failed.iter().for_each(|error| output::report("Error", error));
        last.map_or(Ok(ExitCode::SUCCESS), Err)
    })
}

/// Calls a core tool with the name of a resource and prints the reply. If the resource does not exist, the error
/// suggests the nearest name.
pub(super) async fn call(
    session: &GatewaySession,
    kind: ResourceKind,
    tool: &str,
    (key, name): (&'static str, &str),
) -> Result<ToolResponse, CommandError> {
    let response = session.request(tool, &one(key, name)).await?;
    if !response.failed {
        session.print(tool, &response)?;
        return Ok(response);
    }
    let error = session.failure(tool, &response);
    match response.error_kind() {
        Some(ErrorKind::NotFound) => Err(nearest(session, kind, name, error).await),
        Some(ErrorKind::Other) | None => Err(error),
    }
}

/// Adds a hint with the name that was probably meant.
pub(super) async fn nearest(
    session: &GatewaySession,
    kind: ResourceKind,
    name: &str,
    error: CommandError,
) -> CommandError {
    let names = names::names(&session.remote, kind).await.unwrap_or_default();
    let near = muster_core::suggest::similar(name, names.iter().map(String::as_str));
    match near.first() {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}
