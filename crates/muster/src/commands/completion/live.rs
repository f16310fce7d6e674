//! Names out of a running gateway, soon or not at all.

use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use muster_client::{login, remote::Remote};
use serde_json::Value;

use crate::commands::{
    gateway_args::{GatewayArgs, one},
    list::names,
    resource_kinds::ResourceKind,
    tool_args,
};

/// How long a person waits for names.
const LIMIT: Duration = Duration::from_secs(2);

/// What was typed so far, without flags: the command first.
pub(super) fn typed() -> Vec<String> {
    tool_args::split(&line()).1
}

/// The line that is completed: shells put it behind `--`, with the program's name.
fn line() -> Vec<String> {
    let words = std::env::args().skip_while(|word| word != "--").skip(2);
    words.collect()
}

/// The value of a flag in the line that is completed.
pub(super) fn flag(name: &str) -> Option<String> {
    let line = line();
    let joined = line.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let apart = || line.iter().skip_while(|word| *word != name).nth(1).map(String::as_str);
    joined.or_else(apart).map(str::to_owned)
}

/// The names of everything of a kind.
pub(super) fn names(kind: ResourceKind) -> Vec<String> {
    soon(async |remote| names::names(&remote, kind).await.ok()).unwrap_or_default()
}

/// The arguments of a tool, each with its `=`.
pub(super) fn arguments(tool: &str) -> Vec<String> {
    let schema = soon(async |remote| {
        let about = remote.call("describe_tool", &one("name", tool)).await.ok()?;
        let about: Value = serde_json::from_str(about.texts().first()?).ok()?;
        about.get("inputSchema")?.get("properties")?.as_object().cloned()
    });
    let keys = schema.unwrap_or_default();
    keys.keys().map(|key| format!("{key}=")).collect()
}

fn soon<T, F: Future<Output = Option<T>>>(ask: impl FnOnce(Remote) -> F) -> Option<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    let found = runtime.block_on(async {
        tokio::time::timeout(LIMIT, async {
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

/// The flags that were typed so far, as far as they make sense.
fn gateway() -> GatewayArgs {
    let (ours, _) = tool_args::split(&line());
    let parser = GatewayArgs::augment_args(clap::Command::new("muster")).no_binary_name(true);
    let matches = parser.try_get_matches_from(ours).ok();
    matches.and_then(|matches| GatewayArgs::from_arg_matches(&matches).ok()).unwrap_or_default()
}
