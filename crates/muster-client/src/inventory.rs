//! The inventory of a gateway: its tools, resources and prompts as of the last listing.

use muster_core::json::raw;
use serde_json::{Value, json};

use crate::remote::{ListKind, Remote, error::RemoteError, tool_response::ToolResponse};

/// The limit on pages when listing tools.
const MAX_PAGES: usize = 100;

/// The token limit of a response. Effectively unlimited, because no model reads it.
pub const MAX_TOKENS: u32 = 1_000_000;

/// Everything a gateway offers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// Every tool that can be called, shown or behind the meta-tools.
    pub tools: Vec<ToolInfo>,
    /// Every resource, as listed.
    pub resources: Vec<Value>,
    /// Every prompt, as listed.
    pub prompts: Vec<Value>,
    /// The servers that the user has to log in to.
    pub login_required: Vec<String>,
}

/// A tool that can be called.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The schema of its arguments.
    pub schema: Value,
}

/// An argument of a tool.
#[derive(Debug, PartialEq, Eq)]
pub struct ToolParameter<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its JSON type; `any` where the schema gives none.
    pub kind: &'a str,
    /// What it is for.
    pub description: &'a str,
    /// Whether a call must have it.
    pub required: bool,
}

impl ToolInfo {
    fn parse(tool: &Value) -> Option<Self> {
        let text = |key: &str| tool.get(key).and_then(Value::as_str);
        Some(Self {
            name: text("name")?.to_owned(),
            description: text("description").or(text("summary")).unwrap_or_default().to_owned(),
            schema: tool.get("inputSchema").cloned().unwrap_or_default(),
        })
    }

    /// Its arguments, in the order of the schema.
    pub fn parameters(&self) -> Vec<ToolParameter<'_>> {
        let Some(properties) = self.schema.get("properties").and_then(Value::as_object) else {
            return Vec::new();
        };
        let required = self.schema.get("required").and_then(Value::as_array);
        let is_required =
            |name: &str| required.is_some_and(|all| all.iter().any(|one| one == name));
        properties
            .iter()
            .map(|(name, about)| ToolParameter {
                name,
                kind: about.get("type").and_then(Value::as_str).unwrap_or("any"),
                description: about.get("description").and_then(Value::as_str).unwrap_or_default(),
                required: is_required(name),
            })
            .collect()
    }
}

impl Inventory {
    /// Lists everything that a gateway offers.
    pub async fn load(remote: &Remote) -> Result<Self, RemoteError> {
        Ok(Self {
            tools: tools(remote).await?,
            resources: list(remote, ListKind::Resources).await?,
            prompts: list(remote, ListKind::Prompts).await?,
            login_required: login_required(remote).await,
        })
    }

    /// The tool of a name.
    pub fn tool(&self, name: &str) -> Option<&ToolInfo> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// The names of all items of a kind.
    pub fn names(&self, kind: ListKind) -> Vec<&str> {
        match kind {
            ListKind::Tools => self.tools.iter().map(|tool| tool.name.as_str()).collect(),
            ListKind::Resources => {
                self.resources.iter().filter_map(|one| one.get("uri")?.as_str()).collect()
            }
            ListKind::Prompts => {
                self.prompts.iter().filter_map(|one| one.get("name")?.as_str()).collect()
            }
        }
    }

    /// The names of all workflows.
    pub fn workflows(&self) -> Vec<&str> {
        self.tools.iter().filter_map(|tool| tool.name.strip_prefix("workflow_")).collect()
    }
}

/// Lists all items of a kind with the MCP list methods.
pub async fn list(remote: &Remote, kind: ListKind) -> Result<Vec<Value>, RemoteError> {
    let listed = remote.list(kind).await?;
    let items = listed.iter().filter_map(|item| serde_json::from_str(item.get()).ok());
    Ok(items.collect())
}

/// Lists every tool that can be called, with its schema: the meta-tools and the tools behind them.
async fn tools(remote: &Remote) -> Result<Vec<ToolInfo>, RemoteError> {
    let meta_tools = list(remote, ListKind::Tools).await?;
    let mut tools: Vec<ToolInfo> = meta_tools.iter().filter_map(ToolInfo::parse).collect();
    let mut offset = 0;
    for _ in 0..MAX_PAGES {
        let arguments = json!({
            "include_schema": true, "limit": 1000, "offset": offset, "max_tokens": MAX_TOKENS});
        let response = remote.call("filter_tools", &raw(&arguments)).await?;
        let Some(page) = json_text(&response) else { break };
        let listed = page.get("tools").and_then(Value::as_array);
        for tool in listed.into_iter().flatten().filter_map(ToolInfo::parse) {
            if !tools.iter().any(|known| known.name == tool.name) {
                tools.push(tool);
            }
        }
        match page.get("next_offset").and_then(Value::as_u64) {
            Some(next) => offset = next,
            None => break,
        }
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tools)
}

/// The servers that the user has to log in to: those without single sign-on.
async fn login_required(remote: &Remote) -> Vec<String> {
    let Ok(result) = remote.read("auth://status").await else { return Vec::new() };
    let Ok(result) = serde_json::from_str::<Value>(result.get()) else { return Vec::new() };
    let text = result.pointer("/contents/0/text").and_then(Value::as_str).unwrap_or_default();
    let Ok(status) = serde_json::from_str::<Value>(text) else { return Vec::new() };
    let servers = status.get("servers").and_then(Value::as_array);
    let flag = |server: &Value, key: &str| server.get(key) == Some(&Value::Bool(true));
    let required = servers.into_iter().flatten().filter(|server| {
        server.get("status").and_then(Value::as_str) == Some("auth_required")
            && !flag(server, "token_forwarding_enabled")
            && !flag(server, "token_exchange_enabled")
    });
    required.filter_map(|server| Some(server.get("name")?.as_str()?.to_owned())).collect()
}

/// The first text of a response, parsed as JSON.
pub fn json_text(response: &ToolResponse) -> Option<Value> {
    serde_json::from_str(response.texts().first()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ToolInfo, ToolParameter};

    #[test]
    fn parameters_come_from_the_schema() {
        let tool = ToolInfo::parse(&json!({"name": "t", "inputSchema": {
            "properties": {"b": {"type": "string", "description": "B"}, "a": {}},
            "required": ["b"]}}))
        .unwrap();
        let expected = [
            ToolParameter { name: "b", kind: "string", description: "B", required: true },
            ToolParameter { name: "a", kind: "any", description: "", required: false },
        ];
        assert_eq!(tool.parameters(), expected);
    }
}
