//! The inventory of a gateway: its tools, resources and prompts as of the last listing.

use muster_api::{UnavailableServer, auth::LoginState};
use muster_core::json::{RawObject, raw};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};

use crate::{
    login::server_logins,
    remote::{ListKind, Remote, error::RemoteError},
};

/// The maximum number of pages when listing tools.
const MAX_PAGES: usize = 100;

/// The token limit of a response: effectively unlimited, because no model reads the response.
pub const MAX_TOKENS: u32 = 50_000_000;

/// Everything a gateway offers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Inventory {
    /// Every tool that can be called, listed directly or behind the meta-tools.
    pub tools: Vec<ToolInfo>,
    /// Every resource.
    pub resources: Vec<ResourceInfo>,
    /// Every prompt.
    pub prompts: Vec<PromptInfo>,
    /// The servers that the user has to log in to.
    pub login_required: Vec<String>,
}

/// A tool that can be called.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ToolInfo {
    /// Its name.
    pub name: String,
    /// What it does; only the first sentence in replies without schemas.
    #[serde(alias = "summary")]
    pub description: String,
    /// The schema of its arguments; null in replies without schemas.
    #[serde(rename = "inputSchema")]
    pub schema: Value,
    /// The backend that runs it; empty in replies without schemas.
    pub server: String,
    /// Whether it comes with muster; false in replies without schemas.
    pub bundled: bool,
    /// Why it cannot be called now.
    pub unavailable: Option<String>,
    /// How well it matches a search.
    #[serde(rename = "match")]
    pub strength: String,
}

/// A resource that can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceInfo {
    /// Its URI.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it contains.
    pub description: Option<String>,
    /// Its MIME type.
    pub mime_type: Option<String>,
}

/// A prompt that can be rendered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PromptInfo {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Whether it must be given.
    pub required: bool,
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

/// The reply of the meta-tools that list tools: one page.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ToolPage {
    /// The tools of this page.
    pub tools: Vec<ToolInfo>,
    /// The number of tools that match, on all pages.
    pub total: usize,
    /// The number of tools that can be called.
    pub total_tools: usize,
    /// The offset of the next page, if there is one.
    pub next_offset: Option<usize>,
    /// The servers whose tools cannot be called now.
    pub unavailable: Vec<UnavailableServer>,
}

impl ToolInfo {
    /// Whether the user configured it: it is neither bundled nor a core tool.
    pub fn is_users_own(&self) -> bool {
        !self.bundled && self.server != "core"
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
            ListKind::Resources => self.resources.iter().map(|one| one.uri.as_str()).collect(),
            ListKind::Prompts => self.prompts.iter().map(|one| one.name.as_str()).collect(),
        }
    }

    /// The names of all workflows.
    pub fn workflows(&self) -> Vec<&str> {
        self.tools.iter().filter_map(|tool| tool.name.strip_prefix("workflow_")).collect()
    }
}

/// Lists all items of a kind with the MCP list methods.
pub async fn list<T: DeserializeOwned>(
    remote: &Remote,
    kind: ListKind,
) -> Result<Vec<T>, RemoteError> {
    let listed = remote.list(kind).await?;
    Ok(listed.iter().filter_map(|item| serde_json::from_str(item.get()).ok()).collect())
}

/// Describes one tool. Fails if there is no tool of this name.
pub async fn describe(remote: &Remote, name: &str) -> Result<ToolInfo, RemoteError> {
    remote.reply("describe_tool", &raw(&json!({"name": name}))).await
}

/// Lists every tool that can be called, with its schema: the meta-tools and the tools behind them.
async fn tools(remote: &Remote) -> Result<Vec<ToolInfo>, RemoteError> {
    let mut tools: Vec<ToolInfo> = list(remote, ListKind::Tools).await?;
    for tool in tools_behind(remote).await?.tools {
        if !tools.iter().any(|listed| listed.name == tool.name) {
            tools.push(tool);
        }
    }
    tools.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(tools)
}

/// Lists every tool behind the meta-tools, with its schema.
pub async fn tools_behind(remote: &Remote) -> Result<ToolPage, RemoteError> {
    let mut all = ToolPage::default();
    let mut offset = 0;
    for _ in 0..MAX_PAGES {
        let arguments = json!({
            "include_schema": true, "limit": 1000, "offset": offset, "max_tokens": MAX_TOKENS});
        let response = remote.call("filter_tools", &raw(&arguments)).await?;
        // A gateway without tools replies with a sentence instead of JSON.
        let Ok(page) = response.reply::<ToolPage>("filter_tools") else { break };
        let next = page.next_offset.filter(|next| *next > offset);
        let mut tools = std::mem::take(&mut all.tools);
        tools.extend(page.tools);
        all = ToolPage { tools, next_offset: None, unavailable: page.unavailable, ..all };
        match next {
            Some(next) => offset = next,
            None => break,
        }
    }
    Ok(all)
}

/// The servers that the user has to log in to, except those with single sign-on.
async fn login_required(remote: &Remote) -> Vec<String> {
    let servers = server_logins::list(remote).await.unwrap_or_default();
    let required = servers.into_iter().filter(|server| {
        server.status == LoginState::AuthRequired
            && !server.token_forwarding_enabled
            && !server.token_exchange_enabled
    });
    required.map(|server| server.name).collect()
}

/// The text of the first content of a resource, as `resources/read` returns it.
pub fn resource_text(result: &RawValue) -> Option<String> {
    let result = RawObject::parse(result)?;
    let contents: Vec<&RawValue> = serde_json::from_str(result.get("contents")?.get()).ok()?;
    RawObject::parse(contents.first()?)?.get_text("text")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{ToolInfo, ToolParameter};

    #[test]
    fn parameters_come_from_the_schema() {
        let tool = serde_json::from_value::<ToolInfo>(json!({"name": "t", "inputSchema": {
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
