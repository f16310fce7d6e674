//! A verb on several resources of one kind.

use std::process::ExitCode;

use muster_api::error::ErrorKind;
use muster_client::remote::tool_response::ToolResponse;

use super::{
    gateway_args::{GatewayArgs, GatewaySession, one},
    list::names,
    resource_kinds::ResourceKind,
};
use crate::{error::CommandError, output, process};

/// Calls a core tool for each name, and prints the replies. A failure does not keep the others from being called;
/// the exit code is 1 then.
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
        // The last error is reported by the caller, as that of every other command.
        let last = failed.pop();
        failed.iter().for_each(|error| output::report("Error", error));
        last.map_or(Ok(ExitCode::SUCCESS), Err)
    })
}

/// Calls a core tool with the name of a resource, and prints the reply. If there is no such resource, the error
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

/// Adds the name that was probably meant.
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
