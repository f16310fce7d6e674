//! Commands that show the inventory: help, list, describe, filter, get.

use muster_api::workflow::{WorkflowInfo, WorkflowList};
use muster_client::{
    inventory::{self, MAX_TOKENS, PromptArgument, ToolInfo, ToolPage},
    remote::no_arguments,
};
use muster_core::json::raw;
use serde_json::{Value, json};

use super::{
    ReplError, Shell,
    commands::{self, Spec},
    format,
    tool_filter::ToolFilter,
};

impl Shell {
    pub(super) fn help(&self, word: &str) -> Result<(), ReplError> {
        if word.is_empty() {
            self.say("Available commands:");
            for spec in &commands::ALL {
                self.say(&format!("  {:<50} - {}", spec.usage, spec.description));
            }
            self.say("");
            self.say("Values of key=value are JSON where they can be, else text.");
            self.say("Keyboard: TAB completes, the arrows go through the history, Ctrl+R searches it, Ctrl+D leaves.");
            return Ok(());
        }
        let spec = commands::find(word)
            .ok_or_else(|| ReplError::new(format!("Unknown command: {word}")))?;
        self.say(&format!("Command: {}", spec.name));
        self.say(&format!("Description: {}", spec.description));
        self.say(&format!("Usage: {}", spec.usage));
        if !spec.aliases.is_empty() {
            self.say(&format!("Aliases: [{}]", spec.aliases.join(" ")));
        }
        Ok(())
    }

    pub(super) async fn list(&self, spec: &Spec, word: &str) -> Result<(), ReplError> {
        let inventory = self.inventory();
        match word.to_lowercase().as_str() {
            "" => return Err(ReplError::usage(spec)),
            "tools" | "tool" => return self.list_tools().await,
            "resources" | "resource" => {
                let resources = inventory.resources.iter().map(|resource| {
                    let description =
                        resource.description.as_deref().filter(|text| !text.is_empty());
                    (resource.uri.as_str(), description.unwrap_or(&resource.name))
                });
                self.list_items("resources", 40, resources.collect());
            }
            "prompts" | "prompt" => {
                let prompts = inventory.prompts.iter().map(|prompt| {
                    let description = prompt.description.as_deref().filter(|text| !text.is_empty());
                    (prompt.name.as_str(), description.unwrap_or(&prompt.name))
                });
                self.list_items("prompts", 30, prompts.collect());
            }
            "workflows" | "workflow" => return self.list_workflows().await,
            "core-tools" | "core-tool" => return self.list_core_tools().await,
            other => return Err(ReplError::target(other, &commands::LISTS)),
        }
        Ok(())
    }

    async fn list_tools(&self) -> Result<(), ReplError> {
        let remote = self.remote()?;
        let arguments = json!({"limit": 10_000, "max_tokens": MAX_TOKENS});
        let mut page: ToolPage = remote.reply("list_tools", &raw(&arguments)).await?;
        page.tools.sort_by(|one, other| one.name.cmp(&other.name));
        if page.tools.is_empty() {
            self.say("No tools available");
        } else {
            self.say(&format!("Available tools ({}):\n", page.tools.len()));
        }
        self.numbered(30, &page.tools);
        let more = page.total.saturating_sub(page.tools.len());
        if more > 0 {
            self.say(&format!("\n{more} more; find one with: filter tools <pattern>"));
        }
        let inventory = self.inventory();
        if !inventory.login_required.is_empty() {
            self.say("\nServers requiring authentication:");
            for name in &inventory.login_required {
                self.say(&format!("  - {name} (use 'core_auth_login' to authenticate)"));
            }
        }
        Ok(())
    }

    fn list_items(&self, what: &str, width: usize, items: Vec<(&str, &str)>) {
        if items.is_empty() {
            return self.say(&format!("No {what} available."));
        }
        self.say(&format!("Available {what} ({}):\n", items.len()));
        for (number, (name, description)) in (1..).zip(items) {
            self.say(&format::item(number, name, width, &format::brief(description)));
        }
    }

    fn numbered(&self, width: usize, tools: &[ToolInfo]) {
        for (number, tool) in (1..).zip(tools) {
            let description = format::brief(&tool.description);
            self.say(&format::item(number, &tool.name, width, &description));
        }
    }

    async fn list_core_tools(&self) -> Result<(), ReplError> {
        self.say("Fetching core muster tools...");
        let arguments = raw(&json!({"max_tokens": MAX_TOKENS}));
        let page: ToolPage = self.remote()?.reply("list_core_tools", &arguments).await?;
        let (count, total) = (page.tools.len(), page.total_tools);
        self.say(&format!("Core muster tools ({count} found out of {total} total):\n"));
        self.numbered(27, &page.tools);
        Ok(())
    }

    async fn list_workflows(&self) -> Result<(), ReplError> {
        self.say("Fetching available workflows...");
        let remote = self.remote()?;
        let WorkflowList { workflows } =
            remote.reply("core_workflow_list", &no_arguments()).await?;
        if workflows.is_empty() {
            self.say("No workflows found");
            return Ok(());
        }
        self.say(&format!("Available workflows ({} found):\n", workflows.len()));
        for (number, workflow) in (1..).zip(&workflows) {
            let name = &workflow.name;
            let state = if workflow.available { "[available]" } else { "[unavailable]" };
            let about = Some(&workflow.description).filter(|text| !text.is_empty());
            let about = about.map(|text| format!(" - {text}")).unwrap_or_default();
            self.say(&format!("  {number}. {name:<20} {state}{about}"));
            let WorkflowInfo { workflow, .. } =
                remote.reply("core_workflow_get", &raw(&json!({"name": name}))).await?;
            if !workflow.args.is_empty() {
                let names: Vec<&str> = workflow.args.keys().map(String::as_str).collect();
                self.say(&format!("     Parameters: {}", names.join(", ")));
            }
            if number < workflows.len() {
                self.say("");
            }
        }
        Ok(())
    }

    pub(super) async fn describe(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        let [kind, name, ..] = words.as_slice() else { return Err(ReplError::usage(spec)) };
        let inventory = self.inventory();
        match kind.to_lowercase().as_str() {
            "tool" | "tools" => {
                let tool = inventory::describe(&*self.remote()?, name).await?;
                self.say(&format!("Tool: {}", tool.name));
                self.say(&format!("Description: {}", tool.description));
                self.say("Input Schema:");
                self.say(&format::json(&tool.schema));
            }
            "resource" | "resources" => {
                let found = inventory.resources.iter().find(|one| one.uri == *name);
                let resource =
                    found.ok_or_else(|| ReplError::new(format!("Resource not found: {name}")))?;
                self.say(&format!("Resource: {}", resource.uri));
                self.say(&format!("Name: {}", resource.name));
                self.field("Description", resource.description.as_ref());
                self.field("MIME Type", resource.mime_type.as_ref());
            }
            "prompt" | "prompts" => {
                let found = inventory.prompts.iter().find(|one| one.name == *name);
                let prompt =
                    found.ok_or_else(|| ReplError::new(format!("Prompt not found: {name}")))?;
                self.say(&format!("Prompt: {}", prompt.name));
                self.field("Description", prompt.description.as_ref());
                if !prompt.arguments.is_empty() {
                    self.say("Arguments:");
                }
                for PromptArgument { name, description, required } in &prompt.arguments {
                    let required = if *required { " (required)" } else { "" };
                    self.say(&format!("  - {name}{required}: {description}"));
                }
            }
            other => return Err(ReplError::target(other, &commands::DESCRIBED)),
        }
        Ok(())
    }

    fn field(&self, label: &str, value: Option<&String>) {
        if let Some(value) = value {
            self.say(&format!("{label}: {value}"));
        }
    }

    pub(super) async fn filter(&self, spec: &Spec, rest: &str) -> Result<(), ReplError> {
        let (target, rest) =
            rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), ""));
        if target.is_empty() {
            return Err(ReplError::usage(spec));
        }
        if !matches!(target.to_lowercase().as_str(), "tools" | "tool") {
            return Err(ReplError::target(target, &["tools"]));
        }
        let filter = ToolFilter::parse(rest)?;
        let page: ToolPage = self.remote()?.reply("filter_tools", &raw(&filter.arguments)).await?;
        let ToolPage { tools, total, total_tools, .. } = page;
        self.lines.info("Filtering tools with:");
        for (label, value) in &filter.shown {
            self.lines.info(&format!("  {label}: {value}"));
        }
        let shown = match tools.len() {
            all if all == total => String::new(),
            some => format!(", {some} shown"),
        };
        self.lines.info(&format!("Results: {total} of {total_tools} tools match{shown}"));
        if tools.is_empty() {
            self.say("No tools match the specified filters.");
            return Ok(());
        }
        self.say("Matching tools:");
        if !filter.is_detailed {
            self.numbered(30, &tools);
            return Ok(());
        }
        for (number, tool) in (1..).zip(&tools) {
            let ToolInfo { name, description, schema, .. } = tool;
            self.say(&format!(
                "{}\n{number}. {name}\n   {description}\n{}",
                "=".repeat(60),
                "-".repeat(40)
            ));
            self.say(&format::json(schema));
        }
        Ok(())
    }

    pub(super) async fn get(&self, spec: &Spec, uri: &str) -> Result<(), ReplError> {
        if uri.is_empty() {
            return Err(ReplError::usage(spec));
        }
        self.say(&format!("Retrieving resource: {uri}..."));
        let failed = |err| ReplError::new(format!("Failed to get resource: {err}"));
        let result = self.remote()?.read(uri).await.map_err(failed)?;
        let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
        self.say("Contents:");
        for part in result.get("contents").and_then(Value::as_array).into_iter().flatten() {
            match (part.get("text").and_then(Value::as_str), part.get("blob")) {
                (Some(text), _) => self.say(&format::pretty(text)),
                (None, Some(blob)) => {
                    let letters = blob.as_str().unwrap_or_default();
                    let padding = letters.bytes().rev().take_while(|byte| *byte == b'=').count();
                    let size = (letters.len() / 4 * 3).saturating_sub(padding);
                    self.say(&format!("[Binary data: {size} bytes]"));
                }
                (None, None) => self.say(&format::json(part)),
            }
        }
        Ok(())
    }
}

pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
