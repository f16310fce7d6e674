//! The names of all resources of one kind.

use muster_api::{
    execution::ExecutionList, mcp_server::McpServerList, service::ServiceList,
    service_class::ServiceClassList, workflow::WorkflowList,
};
use muster_client::{
    inventory::{self, PromptInfo, ResourceInfo},
    remote::{ListKind, Remote, error::RemoteError, no_arguments},
};
use muster_core::json::raw;
use serde_json::json;

use crate::commands::resource_kinds::ResourceKind;

/// Lists the names of all resources of a kind. For MCP resources these are URIs, for executions IDs.
pub(crate) async fn names(remote: &Remote, kind: ResourceKind) -> Result<Vec<String>, RemoteError> {
    Ok(match kind {
        ResourceKind::Service => {
            let list: ServiceList = remote.reply("core_service_list", &no_arguments()).await?;
            list.services.into_iter().map(|service| service.name).collect()
        }
        ResourceKind::ServiceClass => {
            let list: ServiceClassList =
                remote.reply("core_serviceclass_list", &no_arguments()).await?;
            list.service_classes.unwrap_or_default().into_iter().map(|class| class.name).collect()
        }
        ResourceKind::McpServer => {
            let all = raw(&json!({"showAll": true}));
            let list: McpServerList = remote.reply("core_mcpserver_list", &all).await?;
            list.mcp_servers.into_iter().map(|server| server.name).collect()
        }
        ResourceKind::Workflow => {
            let list: WorkflowList = remote.reply("core_workflow_list", &no_arguments()).await?;
            list.workflows.into_iter().map(|workflow| workflow.name).collect()
        }
        ResourceKind::WorkflowExecution => {
            let list: ExecutionList =
                remote.reply("core_workflow_execution_list", &no_arguments()).await?;
            list.executions.into_iter().map(|run| run.execution_id).collect()
        }
        ResourceKind::Tool => {
            inventory::tools_behind(remote).await?.tools.into_iter().map(|tool| tool.name).collect()
        }
        ResourceKind::Resource => {
            let list: Vec<ResourceInfo> = inventory::list(remote, ListKind::Resources).await?;
            list.into_iter().map(|resource| resource.uri).collect()
        }
        ResourceKind::Prompt => {
            let list: Vec<PromptInfo> = inventory::list(remote, ListKind::Prompts).await?;
            list.into_iter().map(|prompt| prompt.name).collect()
        }
    })
}
