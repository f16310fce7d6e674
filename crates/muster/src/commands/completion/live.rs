//! Completions from a running gateway, within a short timeout.

use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use muster_client::{inventory, login, remote::Remote};

use crate::commands::{
    gateway_args::GatewayArgs, list::names, resource_kinds::ResourceKind, tool_args,
};

/// The timeout of a completion.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The words typed so far, without flags and starting with the command.
pub(super) fn typed() -> Vec<String> {
    tool_args::split(&line()).1
}

/// The words of the line being completed. Shells pass it after `--`, with the program's name, and cobra's scripts after
/// the request.
fn line() -> Vec<String> {
    let words = std::env::args().skip(1);
    match std::env::args().nth(1).is_some_and(|first| super::REQUESTS.contains(&first.as_str())) {
        true => words.skip(1).collect(),
        false => words.skip_while(|word| word != "--").skip(2).collect(),
    }
}

/// The value of a flag in the line being completed.
pub(super) fn flag(name: &str) -> Option<String> {
    let line = line();
    let joined = line.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let apart = || line.iter().skip_while(|word| *word != name).nth(1).map(String::as_str);
    joined.or_else(apart).map(str::to_owned)
}

/// Fetches the names of all resources of a kind.
pub(super) fn names(kind: ResourceKind) -> Vec<String> {
    soon(async |remote| names::names(&remote, kind).await.ok()).unwrap_or_default()
}

/// Fetches the arguments of a tool, each with a `=` appended.
pub(super) fn arguments(tool: &str) -> Vec<String> {
    let tool = soon(async |remote| inventory::describe(&remote, tool).await.ok());
    let tool = tool.unwrap_or_default();
    tool.parameters().iter().map(|parameter| format!("{}=", parameter.name)).collect()
}

/// Makes one request within the timeout. Completion never reports an error.
fn soon<T, F: Future<Output = Option<T>>>(ask: impl FnOnce(Remote) -> F) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let found = runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, async {
            let target = gateway().target().ok()?;
            let auth = login::stored_auth(&target).await;
            ask(Remote::connect(&target.as_operator(), &auth).await.ok()?).await
        })
        .await
        .ok()
        .flatten()
    });
    runtime.shutdown_background();
    found
}

/// The flags typed so far, if they are valid.
fn gateway() -> GatewayArgs {
    let (ours, _) = tool_args::split(&line());
    let parser = GatewayArgs::augment_args(clap::Command::new("muster")).no_binary_name(true);
    let matches = parser.try_get_matches_from(ours).ok();
    matches.and_then(|matches| GatewayArgs::from_arg_matches(&matches).ok()).unwrap_or_default()
}
