//! The names of everything of one kind.

use muster_client::remote::{Remote, no_arguments};
use serde_json::Value;

use super::mcp_items;
use crate::{commands::resource_kinds::ResourceKind, error::CommandError};

/// The names of everything of a kind; of resources the addresses, of executions the ids.
pub(crate) async fn names(
    remote: &Remote,
    kind: ResourceKind,
) -> Result<Vec<String>, CommandError> {
    let Some((tool, member)) = kind.list_tool() else {
        let items = mcp_items::items(remote, kind).await?;
        return Ok(items.into_iter().map(|item| item.uri.unwrap_or(item.name)).collect());
    };
    let args = match kind {
        ResourceKind::McpServer => {
            let mut all = muster_core::json::RawObject::new();
            all.set_value("showAll", &true);
            all.to_raw()
        }
        _ => no_arguments(),
    };
    let answer = remote.call(tool, &args).await?;
    let text = answer.texts().first().copied().unwrap_or_default();
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let key = if kind == ResourceKind::WorkflowExecution { "execution_id" } else { "name" };
    let items = answer.get(member).and_then(Value::as_array).cloned().unwrap_or_default();
    let names = items.iter().filter_map(|item| item.get(key)?.as_str().map(str::to_owned));
    Ok(names.collect())
}
